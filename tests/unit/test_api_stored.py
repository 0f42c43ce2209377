"""Objects as released versions stored them: each still reads, validates and means the same.

A release adds its files (`python -m unit.stored VERSION` writes them) and changes none.
"""

from __future__ import annotations

import pytest
import yaml
from moriio_operator.api.deployment import Owner, PDDeployment, Spec
from moriio_operator.api.status import Status
from moriio_operator.plan.revision import revision, router_revision

from unit.samples import Json
from unit.stored import FOLDER, within

FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def stored(request: pytest.FixtureRequest) -> Json:
    """An object as the API server gave it, with its status."""
    found: Json = yaml.safe_load(request.param.read_text())
    return found


def test_every_release_is_there() -> None:
    assert {path.stem.partition("-")[0] for path in FILES} >= {"0.1.0"}


def test_it_reads(stored: Json) -> None:
    owner = Owner.from_object(stored)
    assert owner.name == stored["metadata"]["name"]
    PDDeployment.model_validate(stored)


def test_what_was_stored_is_what_is_read(stored: Json) -> None:
    assert within(stored["spec"], _written(Spec.model_validate(stored["spec"])))
    before, now = stored["status"], Status.from_object(stored).to_object()
    allocation = {"cursor": before.pop("portCursor"), "retired": before.pop("retiredPorts", [])}
    assert within({**before, "portAllocation": allocation}, now)


def test_it_means_the_same_revision(stored: Json) -> None:
    # Or an upgrade of the operator would restart every engine of it.
    spec = Owner.from_object(stored).spec
    assert revision(spec) == stored["status"]["revision"]
    assert router_revision(spec) == stored["metadata"]["annotations"]["router-revision"]


def _written(spec: Spec) -> Json:
    made: Json = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made
