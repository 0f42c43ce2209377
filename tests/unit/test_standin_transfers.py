"""The stand-in for `mori.io` keeps what vLLM's connector relies on (images/engine-cpu/standin)."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mori import io, session

SIZE = 8192
STANDIN = Path(io.__file__).parents[1]


@dataclass
class Device:
    type: str = "cpu"
    index: int | None = None


class Tensor:
    """As much of a torch tensor as the engine asks for, over memory of its own."""

    def __init__(self, content: bytes) -> None:
        self.memory = ctypes.create_string_buffer(content, len(content))
        self.device = Device()
        self.contiguous = True
        self._address = ctypes.addressof(self.memory)

    def is_contiguous(self) -> bool:
        return self.contiguous

    def data_ptr(self) -> int:
        return self._address

    def nelement(self) -> int:
        return len(self.memory) // 4

    def element_size(self) -> int:
        return 4

    @property
    def content(self) -> bytes:
        return self.memory.raw


@dataclass
class Side:
    """An engine with one registered tensor."""

    engine: io.IOEngine
    tensor: Tensor
    memory: io.MemoryDesc


def new_side(key: str, fill: bytes) -> Side:
    engine = io.IOEngine(key, io.IOEngineConfig("127.0.0.1", 0))
    engine.create_backend(io.BackendType.RDMA, io.RdmaBackendConfig(2, -1, 2))
    tensor = Tensor(fill * SIZE)
    return Side(engine, tensor, engine.register_torch_tensor(tensor))


@dataclass
class Pair:
    """What decode (reading) or prefill (writing) holds after a handshake with its peer."""

    near: Side
    far: Side
    session: io.IOEngineSession

    def joined(self, remote: io.MemoryDesc) -> io.IOEngineSession:
        made = self.near.engine.create_session(self.near.memory, remote)
        assert made is not None
        return made


def carried(desc: io.MemoryDesc) -> io.MemoryDesc:
    """The descriptor as it arrives through vLLM's handshake."""
    return io.MemoryDesc.unpack(desc.pack())


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Switches faults on, as a test of a running cluster does."""
    path = tmp_path / "faults.json"
    monkeypatch.setenv("MORI_STANDIN_FAULTS", str(path))

    def switch(**given: object) -> None:
        written = path.with_suffix(".new")
        written.write_text(json.dumps(given))
        written.rename(path)

    return switch


@pytest.fixture
def pair(faults: Callable[..., None]) -> Iterator[Pair]:  # noqa: ARG001 - no file of the host's
    near, far = new_side("near", b"n"), new_side("far", b"f")
    near.engine.register_remote_engine(io.EngineDesc.unpack(far.engine.get_engine_desc().pack()))
    made = near.engine.create_session(carried(near.memory), carried(far.memory))
    assert made is not None
    yield Pair(near, far, made)
    near.engine.close()
    far.engine.close()


def test_a_write_lands_in_the_peers_memory_and_nowhere_else(pair: Pair) -> None:
    pair.session.batch_write([0, 100], [4096, 0], [64, 36], 1).Wait(5000)
    expected = b"n" * 36 + b"f" * (4096 - 36) + b"n" * 64 + b"f" * (SIZE - 4096 - 64)
    assert pair.far.tensor.content == expected


def test_a_read_fetches_the_peers_memory_and_leaves_it(pair: Pair) -> None:
    assert pair.session.batch_read([8], [0], [16], 1).Wait(5000) is io.StatusCode.SUCCESS
    assert pair.near.tensor.content == b"n" * 8 + b"f" * 16 + b"n" * (SIZE - 24)
    assert pair.far.tensor.content == b"f" * SIZE


def test_a_transfer_may_fill_the_region_to_its_last_byte(pair: Pair) -> None:
    assert pair.session.write(0, 0, SIZE, 1).Wait(5000) is io.StatusCode.SUCCESS
    assert pair.far.tensor.content == b"n" * SIZE


def test_a_success_neither_fails_nor_progresses(pair: Pair) -> None:
    status = pair.session.read(0, 0, 4, 1)
    status.Wait(5000)
    assert (status.Succeeded(), status.Failed(), status.InProgress()) == (True, False, False)


@pytest.mark.parametrize("operation", ["batch_read", "batch_write"])
def test_bytes_outside_the_local_region_are_refused(pair: Pair, operation: str) -> None:
    status = getattr(pair.session, operation)([SIZE - 3], [0], [4], 1)
    assert status.Code() is io.StatusCode.ERR_INVALID_ARGS
    assert f"outside the local region of {SIZE} bytes" in status.Message()


@pytest.mark.parametrize("operation", ["batch_read", "batch_write"])
def test_bytes_outside_the_remote_region_are_refused_by_the_peer(
    pair: Pair, operation: str
) -> None:
    status = getattr(pair.session, operation)([0], [SIZE - 3], [4], 1)
    assert status.Wait(5000) is io.StatusCode.ERR_RDMA_OP
    assert f"is outside a region of {SIZE} bytes" in status.Message()
    assert pair.far.tensor.content == b"f" * SIZE


def test_a_refused_transfer_leaves_the_session_in_step(pair: Pair) -> None:
    pair.session.batch_write([0, 0], [0, SIZE], [70_000 % SIZE, 8], 1).Wait(5000)
    assert pair.session.write(0, 0, 8, 2).Wait(5000) is io.StatusCode.SUCCESS
    assert pair.far.tensor.content == b"n" * 8 + b"f" * (SIZE - 8)


def test_a_negative_remote_offset_is_refused(pair: Pair) -> None:
    assert pair.session.read(0, -4, 4, 1).Code() is io.StatusCode.ERR_INVALID_ARGS


def test_lists_of_different_length_are_refused(pair: Pair) -> None:
    status = pair.session.batch_read([0, 4], [0], [4], 1)
    assert status.Code() is io.StatusCode.ERR_INVALID_ARGS


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_wrong_key_is_refused_by_the_peer(pair: Pair, operation: str) -> None:
    forged = replace(pair.far.memory, rkey=pair.far.memory.rkey ^ 1)
    status = getattr(pair.joined(forged), operation)(0, 0, 4, 1)
    assert status.Wait(5000) is io.StatusCode.ERR_RDMA_OP
    assert "with this key" in status.Message()
    assert pair.far.tensor.content == b"f" * SIZE


def test_a_deregistered_region_is_refused(pair: Pair) -> None:
    pair.far.engine.deregister_memory(pair.far.memory)
    assert pair.session.read(0, 0, 4, 1).Wait(5000) is io.StatusCode.ERR_RDMA_OP


def test_a_region_registered_again_has_another_key(pair: Pair) -> None:
    again = pair.far.engine.register_torch_tensor(pair.far.tensor)
    assert again.rkey != pair.far.memory.rkey


def test_no_session_with_a_peer_that_was_not_registered(pair: Pair) -> None:
    pair.near.engine.deregister_remote_engine(pair.far.engine.get_engine_desc())
    assert pair.near.engine.create_session(pair.near.memory, pair.far.memory) is None


def test_no_session_from_memory_of_another_engine(pair: Pair) -> None:
    assert pair.near.engine.create_session(pair.far.memory, pair.far.memory) is None


def test_a_tensor_with_gaps_is_not_registered(pair: Pair) -> None:
    pair.near.tensor.contiguous = False
    with pytest.raises(RuntimeError, match="contiguous"):
        pair.near.engine.register_torch_tensor(pair.near.tensor)


def test_transfers_run_side_by_side(pair: Pair) -> None:
    other = pair.joined(pair.far.memory)
    posted = [
        way.write(0, 64 * number, 64, number)
        for number in range(64)
        for way in (pair.session, other)
    ]
    assert {status.Wait(5000) for status in posted} == {io.StatusCode.SUCCESS}
    assert pair.far.tensor.content == b"n" * 4096 + b"f" * (SIZE - 4096)


def test_completion_comes_after_the_call(pair: Pair, faults: Callable[..., None]) -> None:
    faults(delay_ms=200)
    status = pair.session.write(0, 0, SIZE, 1)
    assert status.InProgress()
    assert pair.far.tensor.content == b"f" * SIZE
    assert status.Wait(5000) is io.StatusCode.SUCCESS


def test_fault_fail_ends_in_an_error_and_moves_nothing(
    pair: Pair, faults: Callable[..., None]
) -> None:
    faults(fault="fail")
    status = pair.session.write(0, 0, SIZE, 1)
    status.Wait(5000)
    assert status.Failed()
    assert "injected" in status.Message()
    assert pair.far.tensor.content == b"f" * SIZE


@pytest.mark.parametrize("operation", ["read", "write"])
def test_fault_corrupt_succeeds_with_zeros(
    pair: Pair, faults: Callable[..., None], operation: str
) -> None:
    faults(fault="corrupt")
    assert getattr(pair.session, operation)(0, 0, 16, 1).Wait(5000) is io.StatusCode.SUCCESS
    reached = pair.near if operation == "read" else pair.far
    assert reached.tensor.content[:17] == bytes(16) + reached.tensor.content[-1:]


def test_fault_drop_moves_the_bytes_and_never_completes(
    pair: Pair, faults: Callable[..., None]
) -> None:
    faults(fault="drop")
    lost = pair.session.write(0, 0, 16, 1)
    pair.near.engine.remove_backend(io.BackendType.RDMA)  # returns when its threads have ended
    assert lost.InProgress()
    assert pair.far.tensor.content[:17] == b"n" * 16 + b"f"


def test_a_fault_goes_when_its_file_goes(
    pair: Pair, faults: Callable[..., None], tmp_path: Path
) -> None:
    faults(fault="fail")
    assert pair.session.read(0, 0, 4, 1).Wait(5000) is io.StatusCode.ERR_RDMA_OP
    (tmp_path / "faults.json").unlink()
    assert pair.session.read(0, 0, 4, 2).Wait(5000) is io.StatusCode.SUCCESS


def test_a_fault_file_that_says_nonsense_fails_transfers_with_its_path(
    pair: Pair, faults: Callable[..., None]
) -> None:
    faults(fault="corupt")
    status = pair.session.read(0, 0, 4, 1)
    assert status.Wait(5000) is io.StatusCode.ERR_RDMA_OP
    assert "faults.json" in status.Message()


PEER = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from test_standin_transfers import io, new_side
side = new_side("other", b"o")
print(side.engine.get_engine_desc().pack().hex(), side.memory.pack().hex(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process(pair: Pair) -> Iterator[tuple[subprocess.Popen[str], io.IOEngineSession]]:
    """A peer in a process of its own, and a session with it."""
    argv = [sys.executable, "-c", PEER, str(STANDIN), str(Path(__file__).parent)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as peer:
        assert peer.stdout is not None
        engine, memory = (bytes.fromhex(word) for word in peer.stdout.readline().split())
        pair.near.engine.register_remote_engine(io.EngineDesc.unpack(engine))
        yield peer, pair.joined(io.MemoryDesc.unpack(memory))
        peer.kill()


def test_memory_of_another_process_is_read(
    pair: Pair, process: tuple[subprocess.Popen[str], io.IOEngineSession]
) -> None:
    _, across = process
    assert across.read(0, 0, SIZE, 1).Wait(5000) is io.StatusCode.SUCCESS
    assert pair.near.tensor.content == b"o" * SIZE


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_peer_that_died_fails_transfers(
    process: tuple[subprocess.Popen[str], io.IOEngineSession], operation: str
) -> None:
    peer, across = process
    across.read(0, 0, 4, 1).Wait(5000)
    peer.kill()
    peer.wait()
    status = getattr(across, operation)(0, 0, SIZE, 2)
    status.Wait(5000)
    assert status.Failed()


def test_a_peer_that_hangs_fails_transfers(
    process: tuple[subprocess.Popen[str], io.IOEngineSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PEER_TIMEOUT_S", 0.2)
    peer, across = process
    os.kill(peer.pid, signal.SIGSTOP)  # the kernel still accepts connections for it
    assert across.read(0, 0, 4, 1).Wait(5000) is io.StatusCode.ERR_RDMA_OP


def test_an_engine_that_closes_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    side = new_side("brief", b"b")
    started = set(threading.enumerate()) - before
    side.engine.close()
    assert started
    for thread in started:
        thread.join(5)  # it may still be on its last lines
    assert not [thread for thread in started if thread.is_alive()]


def test_no_device_ends_the_process_as_the_librarys_assertion_does(
    faults: Callable[..., None],
) -> None:
    faults(no_device=True)
    argv = [sys.executable, "-c", PEER, str(STANDIN), str(Path(__file__).parent)]
    nothing = subprocess.DEVNULL
    ended = subprocess.run(argv, stdin=nothing, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGABRT
    assert "Assertion `availDevices.size() > 0' failed" in ended.stderr


def test_no_device_does_not_matter_to_xgmi(faults: Callable[..., None]) -> None:
    faults(no_device=True)
    engine = io.IOEngine("x", io.IOEngineConfig("127.0.0.1", 0))
    engine.create_backend(io.BackendType.XGMI, io.XgmiBackendConfig())
    engine.close()
