"""The comparison finds a rule that upstream changed, and names the release."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from moriio_operator.facts import versions

from oracle import __main__ as program
from oracle.compare import rows
from oracle.release import Release, pinned
from oracle.sources import CONNECTOR

pytestmark = pytest.mark.load(2)

NEXT = f"{versions.NEWEST.major}.{versions.NEWEST.minor + 1}.0"

# File of the connector, what stands there, what upstream would write instead, part of the row.
CHANGES = {
    "a port offset": (
        "moriio_common.py",
        "return (dp_rank) * tp_size + tp_rank",
        "return dp_rank * 8 + tp_rank",
        "port offset bound by data rank 1 of 2, tensor rank 0 of 1: vLLM says 8; we say 1",
    ),
    "a new key": (
        "moriio_common.py",
        'int(extra_config.get("num_workers", 1))',
        'int(extra_config.get("threads", extra_config.get("num_workers", 1)))',
        "key threads: vLLM says it is read; we say nothing of it",
    ),
    "a default": (
        "moriio_common.py",
        "DEFAULT_DEFER_TIMEOUT = 60.0",
        "DEFAULT_DEFER_TIMEOUT = 90.0",
        "default of key defer_timeout: vLLM says 90.0; we say '60'",
    ),
    "a demanded key": (
        "moriio_common.py",
        'extra_config.get("proxy_ip", "")',
        'extra_config["proxy_ip"]',
        "key proxy_ip left out: vLLM says KeyError: 'proxy_ip'",
    ),
    "the form of an address": (
        "moriio_common.py",
        'int(parts["handshake"])',
        'int(parts["shake"])',
        "peer that prefill finds in request",
    ),
    "heads that fit": (
        "moriio_tp_mapping.py",
        "total_num_kv_heads % tp_size)",
        "total_num_kv_heads % (tp_size + 1))",
        "prefill tensor 1, decode tensor 2: vLLM says ValueError: MoRIIO WRITE cannot shard",
    ),
    "what is said at an end": (
        "moriio_engine.py",
        "MoRIIO batch wait failed",
        "MoRIIO wait failed",
        "'MoRIIO batch wait failed' (moriio_engine.py): vLLM says nothing of it",
    ),
    "layers that are carried": (
        "moriio_connector.py",
        "or isinstance(g.kv_cache_spec, (SlidingWindowSpec, MambaSpec))",
        "or isinstance(g.kv_cache_spec, SlidingWindowSpec)",
        "vLLM says NotImplementedError: MoRIIO only supports sliding-window hybrid models",
    ),
    "a function that is gone": (
        "moriio_common.py",
        "def get_port_offset(",
        "def port_offset(",
        "nothing that we can ask",
    ),
}


@pytest.fixture(scope="module")
def genuine() -> Path:
    return pinned(str(versions.NEWEST)).tree


def doctored(genuine: Path, to: Path, name: str, old: str, new: str) -> Release:
    """The newest release with one change, as the one after it."""
    (to / CONNECTOR).parent.mkdir(parents=True)
    shutil.copytree(genuine / CONNECTOR, to / CONNECTOR)
    # Everything else is the same: folders are links.
    for path in _beside(Path(CONNECTOR), genuine):
        (to / path).symlink_to(genuine / path)
    file = to / CONNECTOR / name
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return Release.at(NEXT, to)


def _beside(place: Path, tree: Path) -> list[Path]:
    """Everything in a tree that is neither a place nor above it."""
    above = [place, *place.parents]
    return [
        path.relative_to(tree)
        for folder in place.parents
        if folder != Path()
        for path in (tree / folder).iterdir()
        if path.relative_to(tree) not in above
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_a_row_that_names_the_release(
    change: str, genuine: Path, tmp_path: Path
) -> None:
    name, old, new, told = CHANGES[change]
    release = doctored(genuine, tmp_path / "tree", name, old, new)
    texts = [str(row) for row in rows(release)]
    assert any(told in text for text in texts), texts
    assert all(text.startswith(f"vLLM {NEXT}: ") for text in texts)


def test_the_program_prints_the_rows_and_ends_with_one(
    genuine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, old, new, told = CHANGES["a default"]
    release = doctored(genuine, tmp_path / "tree", name, old, new)
    assert program.report(release) == 1
    assert told in capsys.readouterr().out


def test_nothing_is_printed_of_a_release_that_the_contract_agrees_with(
    genuine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.report(Release.at(NEXT, genuine)) == 0
    assert capsys.readouterr().out == ""
