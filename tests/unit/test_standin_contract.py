"""The stand-in has the names and call shapes that vLLM 0.32's MoRIIO connector uses."""

import sys
import types
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest
from mori import faults, io, streams


def test_the_names_that_the_connector_imports_are_there() -> None:
    imported = {"BackendType", "IOEngine", "IOEngineConfig", "EngineDesc", "MemoryDesc"}
    imported |= {"PollCqMode", "RdmaBackendConfig", "XgmiBackendConfig"}
    assert imported <= set(io.__all__)


def test_the_rdma_backend_takes_the_connectors_arguments() -> None:
    config = io.RdmaBackendConfig(4, -1, 2, io.PollCqMode.POLLING, enable_notification=False)
    assert astuple(config) == (4, -1, 2, io.PollCqMode.POLLING, False)


def test_descriptors_survive_the_handshake() -> None:
    engine = io.EngineDesc("consumer:198.18.0.2:20101:tp0:dp0", "198.18.0.2", 41234)
    memory = io.MemoryDesc(engine.key, 3, 2**63 - 1, 2**47, 8 << 20, -1, io.MemoryLocationType.CPU)
    assert io.EngineDesc.unpack(engine.pack()) == engine
    assert io.MemoryDesc.unpack(memory.pack()) == memory


def test_a_backend_that_python_cannot_create_is_refused() -> None:
    engine = io.IOEngine("e", io.IOEngineConfig("127.0.0.1", 0))
    with pytest.raises(NotImplementedError, match="TCP"):
        engine.create_backend(io.BackendType.TCP)
    engine.close()


def test_an_engine_listens_at_the_address_it_is_given() -> None:
    engine = io.IOEngine("e", io.IOEngineConfig("127.0.0.1", 0))
    desc = engine.get_engine_desc()
    assert (desc.host, desc.port > 0) == ("127.0.0.1", True)
    with pytest.raises(OSError, match="in use"):
        io.IOEngine("f", io.IOEngineConfig("127.0.0.1", desc.port))
    engine.close()


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A torch whose GPU comes and goes."""
    fake = types.ModuleType("torch")
    fake.__spec__ = types.SimpleNamespace(name="torch")  # type: ignore[assignment]
    fake.cuda = types.SimpleNamespace(is_available=lambda: False, Event="torch's own")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def test_a_torch_without_gpu_gets_events_that_are_always_done(torch: types.ModuleType) -> None:
    streams.install()
    event = torch.cuda.Event(enable_timing=False)
    event.record(torch.cuda.current_stream())
    event.synchronize()
    assert event.query()


def test_a_torch_with_gpu_is_left_alone(torch: types.ModuleType) -> None:
    torch.cuda.is_available = lambda: True
    streams.install()
    assert torch.cuda.Event == "torch's own"


def test_the_log_level_takes_the_librarys_names() -> None:
    for level in ("trace", "debug", "info", "warn", "error", "critical", "off"):
        io.set_log_level(level)
    with pytest.raises(ValueError, match="LOUD"):
        io.set_log_level("loud")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"fault": "corupt"}', "corupt"),
        ('{"fualt": "drop"}', "fualt"),
        ('{"delay_ms": "soon"}', "soon"),
        ('{"fault":', "Expecting value"),
        ("[]", "list"),
    ],
)
def test_a_fault_file_that_says_nonsense_is_refused_by_name(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"fault file {path}: .*{said}"):
        faults.FaultSwitch(path).now()


def test_a_fault_file_is_read_again_when_replaced(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    switch = faults.FaultSwitch(path)
    assert switch.now() == faults.Faults()
    path.write_text('{"fault": "corrupt"}')
    assert switch.now().fault is faults.Fault.CORRUPT
    path.with_suffix(".new").write_text('{"fault": "drop"}')
    path.with_suffix(".new").rename(path)
    assert switch.now().fault is faults.Fault.DROP
    path.unlink()
    assert switch.now() == faults.Faults()
