"""Enumerations, configurations and descriptors of `mori.io`, with the real package's names.

Descriptors are what engines tell each other of themselves and of their memory: vLLM packs one into
bytes, carries it over its handshake, and the peer unpacks it. The bytes are ours alone.
"""

import dataclasses
import enum
import json
import logging
from typing import Self


class BackendType(enum.IntEnum):
    Unknown = 0
    XGMI = 1
    RDMA = 2
    TCP = 3
    FABRIC = 4


class StatusCode(enum.IntEnum):
    SUCCESS = 0
    INIT = 1
    IN_PROGRESS = 2
    ERR_BEGIN = 10
    ERR_INVALID_ARGS = 11
    ERR_NOT_FOUND = 12
    ERR_RDMA_OP = 13
    ERR_BAD_STATE = 14


class PollCqMode(enum.IntEnum):
    POLLING = 0
    EVENT = 1


class MemoryLocationType(enum.IntEnum):
    Unknown = 0
    CPU = 1
    GPU = 2


@dataclasses.dataclass(slots=True)
class IOEngineConfig:
    host: str = ""
    port: int = 0


@dataclasses.dataclass(slots=True)
class RdmaBackendConfig:
    qp_per_transfer: int = 1
    post_batch_size: int = -1
    num_worker_threads: int = 1
    poll_cq_mode: PollCqMode = PollCqMode.POLLING
    enable_notification: bool = True


@dataclasses.dataclass(slots=True)
class XgmiBackendConfig:
    num_streams: int = 64
    num_events: int = 64
    num_worker_threads: int = 1


class _Packed:
    """A descriptor that travels as bytes."""

    __slots__ = ()

    def pack(self) -> bytes:
        return json.dumps(dataclasses.astuple(self)).encode()  # type: ignore[call-overload]

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        return cls(*json.loads(packed))


@dataclasses.dataclass(frozen=True, slots=True)
class EngineDesc(_Packed):
    key: str
    host: str
    port: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryDesc(_Packed):
    engine_key: str
    id: int
    # Random for each registration: a restarted engine does not honour its predecessor's keys.
    rkey: int
    # Address in the owner's process, of no use elsewhere, as in the real package.
    data: int
    size: int
    device_id: int
    loc: int


def set_log_level(level: str) -> None:
    """Set the level of this package's logger; the names are spdlog's."""
    names = {"trace": "DEBUG", "warn": "WARNING", "off": "CRITICAL"}
    logging.getLogger("mori").setLevel(names.get(level.lower(), level.upper()))
