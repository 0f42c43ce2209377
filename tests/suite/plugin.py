"""The pytest plugin: `--side-by-side` runs the suite in parts, `--part` is one of them.

Without either option pytest runs as it always does, one test after the other, and the fixture `bed`
brings the bed up.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bed.cluster import Bed

from suite.budget import Watch
from suite.parts import MARKS, Ground, Item, parts
from suite.process import Order, Reporter
from suite.run import Run

_ORDER = pytest.StashKey[Order]()
_NAMES = frozenset(mark.partition("(")[0] for mark in MARKS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    parser.addoption(
        "--side-by-side", action="store_true", help="run parts of the suite at the same time"
    )
    parser.addoption("--part", metavar="ORDER", help="run what a run side by side ordered")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known, and become what the options say."""
    for mark, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}")
    file = config.getoption("--part")
    if file:
        config.stash[_ORDER] = order = Order.read(file)
        config.pluginmanager.register(Reporter(order, config), "suite-reporter")
    else:
        config.pluginmanager.register(Watch(), "suite-watch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests that bring up beds themselves to the front, and the last ones to the end."""
    places = {Ground.OWN_BED: -1, Ground.WHOLE_RUN: 1}
    items.sort(key=lambda item: places.get(_described(item).ground, 0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in parts, if that was asked for."""
    config = session.config
    asked = config.getoption("--side-by-side") and not config.option.collectonly
    if not asked or session.testsfailed:
        return None
    with TemporaryDirectory(prefix="parts-") as folder:
        Run(session, parts(map(_described, session.items)), Path(folder)).go()
    return True


@pytest.fixture(scope="session")
def standing_bed(pytestconfig: pytest.Config) -> Iterator[Bed | None]:
    """Give the bed that this part shares with others; None if this process brings up its own."""
    order = pytestconfig.stash.get(_ORDER, None)
    if order is None:
        yield None
        return
    bed = Bed.attached(shared=order.shares_bed)
    yield bed
    bed.leave()


def _described(item: pytest.Item) -> Item:
    # The closest mark of a name comes first, and is the one that counts.
    marks = {mark.name: mark.args for mark in reversed(list(item.iter_markers()))}
    callspec: Any = getattr(item, "callspec", None)
    values = callspec.params if callspec is not None else {}
    return Item(
        item.nodeid,
        {name: args for name, args in marks.items() if name in _NAMES},
        {name: str(value) for name, value in values.items()},
    )
