"""The initiator's side: transfers between a local region and a peer's, completed later.

read and write return a status at once; a thread of the engine moves the bytes and then sets it, so
that a caller who forgets to wait sees unfinished data here too. Faults are applied on this side.
"""

import concurrent.futures
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence

from mori import wire
from mori.faults import Fault, Faults, FaultSwitch
from mori.kinds import EngineDesc, MemoryDesc, StatusCode
from mori.memory import Segment, out_of_bounds, view

logger = logging.getLogger(__name__)

# A peer that says nothing for so long is gone: what a NIC's retry limit does, and well below the
# 30 s after which vLLM calls a transfer timed out.
PEER_TIMEOUT_S = 10.0


class TransferStatus:
    """How a transfer goes; the method names are the real package's."""

    def __init__(self) -> None:
        self._code = StatusCode.IN_PROGRESS
        self._message = ""
        self._ended = threading.Event()

    def end(self, code: StatusCode, message: str = "") -> None:
        """Set the result, once."""
        self._message = message  # before the code: who sees a failure may ask why at once
        self._code = code
        self._ended.set()

    def Code(self) -> StatusCode:
        return self._code

    def Message(self) -> str:
        return self._message

    def Init(self) -> bool:
        return self._code is StatusCode.INIT

    def InProgress(self) -> bool:
        return self._code is StatusCode.IN_PROGRESS

    def Succeeded(self) -> bool:
        return self._code is StatusCode.SUCCESS

    def Failed(self) -> bool:
        return self._code > StatusCode.ERR_BEGIN

    def Wait(self, timeout_ms: int = -1) -> StatusCode:
        self._ended.wait(None if timeout_ms < 0 else timeout_ms / 1000)
        return self._code


class IOEngineSession:
    """Transfers between one local and one remote region, over a connection of its own."""

    def __init__(
        self,
        local: MemoryDesc,
        remote: MemoryDesc,
        peer: EngineDesc,
        *,
        workers: concurrent.futures.Executor,
        faults: FaultSwitch,
        new_uid: Callable[[], int],
    ) -> None:
        self._local, self._remote, self._peer = local, remote, peer
        self._workers, self._faults, self._new_uid = workers, faults, new_uid
        self._connection: socket.socket | None = None
        self._in_turn = threading.Lock()

    def allocate_transfer_uid(self) -> int:
        return self._new_uid()

    def alive(self) -> bool:
        return True

    def read(self, local_offset: int, remote_offset: int, size: int, uid: int) -> TransferStatus:
        return self.batch_read([local_offset], [remote_offset], [size], uid)

    def write(self, local_offset: int, remote_offset: int, size: int, uid: int) -> TransferStatus:
        return self.batch_write([local_offset], [remote_offset], [size], uid)

    def batch_read(
        self,
        local_offsets: Sequence[int],
        remote_offsets: Sequence[int],
        sizes: Sequence[int],
        uid: int,
    ) -> TransferStatus:
        return self._post(wire.Operation.READ, local_offsets, remote_offsets, sizes, uid)

    def batch_write(
        self,
        local_offsets: Sequence[int],
        remote_offsets: Sequence[int],
        sizes: Sequence[int],
        uid: int,
    ) -> TransferStatus:
        return self._post(wire.Operation.WRITE, local_offsets, remote_offsets, sizes, uid)

    def _post(
        self,
        operation: wire.Operation,
        local_offsets: Sequence[int],
        remote_offsets: Sequence[int],
        sizes: Sequence[int],
        uid: int,
    ) -> TransferStatus:
        status = TransferStatus()
        if not len(local_offsets) == len(remote_offsets) == len(sizes):
            status.end(StatusCode.ERR_INVALID_ARGS, "offsets and sizes differ in number")
            return status
        # Offsets may be numpy's or torch's integers; the wire takes Python's.
        counts = [int(size) for size in sizes]
        local = [Segment(int(o), n) for o, n in zip(local_offsets, counts, strict=True)]
        remote = [Segment(int(o), n) for o, n in zip(remote_offsets, counts, strict=True)]
        bad = out_of_bounds(local, self._local.size)
        if bad is not None:
            text = f"{bad} is outside the local region of {self._local.size} bytes"
            status.end(StatusCode.ERR_INVALID_ARGS, text)
        elif any(segment.offset < 0 for segment in remote):
            status.end(StatusCode.ERR_INVALID_ARGS, "negative remote offset")
        else:
            request = wire.Request(operation, self._remote.id, self._remote.rkey, remote)
            self._workers.submit(self._run, request, local, status, uid)
        return status

    def _run(
        self, request: wire.Request, local: list[Segment], status: TransferStatus, uid: int
    ) -> None:
        try:
            faults = self._faults.now()
            code, message = self._move(request, local, faults)
            if faults.fault is Fault.DROP:
                return  # the completion is lost: the caller's own timeout must end it
        except Exception as error:  # noqa: BLE001 - else a caller would wait for ever
            self.hang_up()  # the connection may be out of step with the peer
            code, message = StatusCode.ERR_RDMA_OP, f"{type(error).__name__}: {error}"
        if code is not StatusCode.SUCCESS:
            name = request.operation.name
            logger.warning("%s %d with %s failed: %s", name, uid, self._peer.key, message)
        status.end(code, message)

    def _move(
        self, request: wire.Request, local: list[Segment], faults: Faults
    ) -> tuple[StatusCode, str]:
        time.sleep(faults.delay_ms / 1000)  # the fault itself, not a wait for something
        if faults.fault is Fault.FAIL:
            return StatusCode.ERR_RDMA_OP, "injected fault"
        return self._transfer(request, local, corrupt=faults.fault is Fault.CORRUPT)

    def _transfer(
        self, request: wire.Request, local: list[Segment], *, corrupt: bool
    ) -> tuple[StatusCode, str]:
        memory = [view(self._local.data + offset, size) for offset, size in local]
        with self._in_turn:
            connection = self._connected()
            wire.send_request(connection, request)
            if request.operation is wire.Operation.WRITE:
                zeros = [bytes(size) for _, size in local] if corrupt else memory
                wire.send_all(connection, zeros)
                return wire.receive_reply(connection)
            code, message = wire.receive_reply(connection)
            if code is StatusCode.SUCCESS:
                wire.receive_all(connection, memory)
                if corrupt:
                    for target in memory:
                        target[:] = bytes(len(target))
            return code, message

    def _connected(self) -> socket.socket:
        if self._connection is None:
            address = (self._peer.host, self._peer.port)
            self._connection = socket.create_connection(address, timeout=PEER_TIMEOUT_S)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection

    def hang_up(self) -> None:
        """Drop the connection; the next transfer makes another."""
        with self._in_turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
