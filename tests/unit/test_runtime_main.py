"""The command line: a subcommand a role, and mistakes told before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moriio_operator import __version__
from moriio_operator.facts.terms import ROLES, Mode, Role
from moriio_operator.node.endpoints import RoleService
from moriio_operator.runtime.main import main
from moriio_operator.runtime.settings import Settings

from unit.samples import FULL, REVISION, SETTINGS, children_of, owner


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been run, in place of running it."""
    calls: list[Any] = []

    async def registrar(*arguments: Any) -> None:
        calls.append(arguments)

    async def operator(settings: Settings) -> None:
        calls.append(settings)

    monkeypatch.setattr("moriio_operator.node.registrar.run", registrar)
    monkeypatch.setattr("moriio_operator.runtime.operator.run", operator)
    monkeypatch.setattr("moriio_operator.telemetry.logs.configure", calls.append)
    return calls


def test_the_router_pods_registrar_understands_its_own_arguments(ran: list[Any]) -> None:
    deployment = children_of(owner({}, base=FULL))[-1]
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert main(container["args"]) == 0
    assert ran == [
        "info",
        (
            Mode.WRITE,
            "127.0.0.1:36367",
            8081,
            {
                f"llm-prefill-{REVISION}": RoleService(Role.PREFILL, 2),
                f"llm-decode-{REVISION}": RoleService(Role.DECODE, 1),
            },
            "llm",
        ),
    ]


def test_the_registrar_of_an_older_router_pod_still_runs(ran: list[Any]) -> None:
    arguments = ["registrar", "--mode", "Read", "--router", "127.0.0.1:1", "--port", "2"]
    assert main([*arguments, "--prefill", "p", "--decode", "d"]) == 0
    assert ran[1][-1] is None


def test_the_operator_runs_with_its_settings(ran: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({**SETTINGS, "logLevel": "debug"}))
    assert main(["operator", "--config", str(path)]) == 0
    level, settings = ran
    assert (level, settings.registrar_image) == ("debug", "operator:1")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"", "Invalid JSON"),
        (b"{", "Invalid JSON"),
        (b"\xff\xfe", "settings"),
        (b"{}", "registrarImage"),
        (json.dumps({**SETTINGS, "x": 1}).encode(), "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_read_are_told_with_the_file(
    content: bytes | None,
    told: str,
    ran: list[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "settings.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["operator", "--config", str(path)]) == 2
    shown = capsys.readouterr().err
    assert str(path) in shown
    assert told in shown
    assert ran == []


FULL_REGISTRAR = ["registrar", "--mode", "Read", "--router", "a:1", "--port", "1"]
SERVICES = [part for role in ROLES for part in (f"--{role}", f"svc-{role}")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "COMMAND"),
        (["other"], "invalid choice"),
        (["operator"], "--config"),
        (FULL_REGISTRAR, "--prefill, --decode"),
        ([*FULL_REGISTRAR, *SERVICES, "--mode", "READ"], "invalid Mode value: 'READ'"),
        ([*FULL_REGISTRAR, *SERVICES, "--port", "x"], "invalid int value: 'x'"),
    ],
)
def test_a_wrong_command_line_is_told(
    arguments: list[str], told: str, ran: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
    assert ran == []


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.strip() == __version__
