"""The chart, installed as an admin would, with the policy that the stage needs."""

from __future__ import annotations

from collections.abc import Sequence

from bed.cache import REPO
from bed.cluster import Bed

from stage.shape import HOST_PATH_PREFIXES, OPERATOR_IMAGE

NAMESPACE = "moriio-system"
RELEASE = "moriio-operator"
# Of tests: short, so that a test of idleness sees several.
RESYNC_S = 5
CHART = REPO / "charts/moriio-operator"


def install(bed: Bed, privileged_namespaces: Sequence[str], *, values: Sequence[str] = ()) -> None:
    """Install the chart, or change its values; returns once the operator watches."""
    repository, _, tag = OPERATOR_IMAGE.rpartition(":")
    settings = [
        f"image.repository={repository}",
        f"image.tag={tag}",
        f"policy.privilegedNamespaces={{{','.join(privileged_namespaces)}}}",
        f"policy.hostNetworkNamespaces={{{','.join(privileged_namespaces)}}}",
        f"policy.hostPathPrefixes={{{','.join(HOST_PATH_PREFIXES)}}}",
        *values,
    ]
    bed.helm(
        "upgrade", "--install", RELEASE, str(CHART),
        "--namespace", NAMESPACE, "--create-namespace",
        "--wait", "--timeout", "120s",
        *(word for setting in settings for word in ("--set", setting)),
    )  # fmt: skip
