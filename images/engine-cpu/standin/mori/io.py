"""The names that `mori.io` offers to vLLM.

Importing it also gives a torch without GPU the stream calls that the connector makes: see
streams.py.
"""

from mori import streams
from mori.engine import IOEngine
from mori.kinds import (
    BackendType,
    EngineDesc,
    IOEngineConfig,
    MemoryDesc,
    MemoryLocationType,
    PollCqMode,
    RdmaBackendConfig,
    StatusCode,
    XgmiBackendConfig,
    set_log_level,
)
from mori.session import IOEngineSession, TransferStatus

__all__ = [
    "BackendType",
    "EngineDesc",
    "IOEngine",
    "IOEngineConfig",
    "IOEngineSession",
    "MemoryDesc",
    "MemoryLocationType",
    "PollCqMode",
    "RdmaBackendConfig",
    "StatusCode",
    "TransferStatus",
    "XgmiBackendConfig",
    "set_log_level",
]

streams.install()
