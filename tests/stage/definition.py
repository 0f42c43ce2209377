"""The CustomResourceDefinitions without their chart, for tests that run operators of their own.

Once brought they stay for all of them, since their end is the end of every PDDeployment; the chart
brings its own and takes over no others, so they go before the chart is installed.
"""

from __future__ import annotations

from bed.cache import REPO
from bed.cluster import Bed
from bed.command import wait_until

NAMES = ("pddeployments.moriio.dev", "pdreports.moriio.dev")
_FOLDER = REPO / "crds"
_TIMEOUT_S = 30


def bring(bed: Bed) -> None:
    """Have the API server serve our kinds, unless it does."""
    bed.records.once("definition", lambda: _bring(bed))


def _bring(bed: Bed) -> None:
    if not bed.kubectl("get", "crd", *NAMES, "--ignore-not-found"):
        bed.kubectl("create", "-f", str(_FOLDER))
    wait_established(bed, *NAMES)


def remove(bed: Bed) -> None:
    """Take them away, and with them all that is of our kinds."""
    bed.kubectl("delete", "crd", *NAMES, "--ignore-not-found", "--timeout=60s")


def wait_established(bed: Bed, *names: str) -> None:
    """Wait until kinds are served.

    `kubectl wait` fails on a definition that is so young that it has no conditions yet.
    """

    def established(name: str) -> bool:
        conditions = bed.kubectl_json("get", "crd", name).get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    wait_until(
        lambda: all(map(established, names)), timeout_s=_TIMEOUT_S, what="kinds to be served"
    )
