"""IOEngine: what vLLM's worker makes one of; it owns the memory, the peers and the threads.

The worker creates it, creates a backend, registers its KV cache, learns of a peer by handshake,
registers that peer and makes a session for each pair of regions.
"""

import concurrent.futures
import itertools
import logging
import os
from typing import Protocol

from mori.faults import switch
from mori.kinds import (
    BackendType,
    EngineDesc,
    IOEngineConfig,
    MemoryDesc,
    MemoryLocationType,
    RdmaBackendConfig,
    XgmiBackendConfig,
)
from mori.memory import Regions
from mori.nic import Nic
from mori.session import IOEngineSession

logger = logging.getLogger(__name__)

# What the C library prints before it aborts; an operator reads the cause out of it.
_NO_DEVICE = (
    "python3: backend_impl.cpp: mori::io::RdmaManager::RdmaManager: "
    "Assertion `availDevices.size() > 0' failed.\n"
)


class _Device(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int | None: ...


class Tensor(Protocol):
    """What is asked of a torch tensor."""

    @property
    def device(self) -> _Device: ...
    def is_contiguous(self) -> bool: ...
    def data_ptr(self) -> int: ...
    def nelement(self) -> int: ...
    def element_size(self) -> int: ...


class IOEngine:
    """One end of transfers: owner of regions, and starter of transfers to peers' regions."""

    def __init__(self, key: str, config: IOEngineConfig) -> None:
        self.key = key
        self._regions = Regions(key)
        self._nic = Nic(config.host, config.port, self._regions)
        self._peers: dict[str, EngineDesc] = {}
        self._uids = itertools.count(1)
        self._sessions: list[IOEngineSession] = []
        self._faults = switch()
        self._workers: concurrent.futures.ThreadPoolExecutor | None = None
        self._desc = EngineDesc(key, config.host, self._nic.port)
        logger.info("stand-in engine %s at %s:%d", key, config.host, self._nic.port)

    def create_backend(
        self,
        kind: BackendType,
        config: RdmaBackendConfig | XgmiBackendConfig | None = None,
    ) -> None:
        if kind not in (BackendType.RDMA, BackendType.XGMI):
            raise NotImplementedError(f"backend {kind!r} cannot be created from Python")
        if kind is BackendType.RDMA and self._faults.now().no_device:
            os.write(2, _NO_DEVICE.encode())
            os.abort()
        threads = config.num_worker_threads if config else 1
        self._workers = concurrent.futures.ThreadPoolExecutor(max(threads, 1), "mori-transfer")

    def remove_backend(self, kind: BackendType) -> None:
        del kind
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None

    def get_engine_desc(self) -> EngineDesc:
        return self._desc

    def register_remote_engine(self, desc: EngineDesc) -> None:
        self._peers[desc.key] = desc

    def deregister_remote_engine(self, desc: EngineDesc) -> None:
        self._peers.pop(desc.key, None)

    def register_torch_tensor(self, tensor: Tensor) -> MemoryDesc:
        if not tensor.is_contiguous():
            raise RuntimeError("input tensor must be contiguous")
        kinds = {"cpu": MemoryLocationType.CPU, "cuda": MemoryLocationType.GPU}
        if (location := kinds[tensor.device.type]) is MemoryLocationType.GPU:
            raise RuntimeError("the stand-in moves host memory, this tensor is on a GPU")
        size = tensor.nelement() * tensor.element_size()
        return self._regions.register(tensor.data_ptr(), size, -1, location)

    def deregister_memory(self, desc: MemoryDesc) -> None:
        self._regions.deregister(desc)

    def allocate_transfer_uid(self) -> int:
        return next(self._uids)

    def create_session(self, local: MemoryDesc, remote: MemoryDesc) -> IOEngineSession | None:
        """Return a session, or None where the real engine gives none: nothing to join."""
        peer = self._peers.get(remote.engine_key)
        if peer is None or self._workers is None or not self._regions.holds(local):
            return None
        session = IOEngineSession(
            local,
            remote,
            peer,
            workers=self._workers,
            faults=self._faults,
            new_uid=self.allocate_transfer_uid,
        )
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """End as a process does; the real engine ends with its object."""
        self.remove_backend(BackendType.RDMA)
        for session in self._sessions:
            session.hang_up()
        self._nic.close()
