"""helm without a cluster, and the chart's objects as it renders them."""

from __future__ import annotations

import pytest
import yaml
from bed.binaries import binaries
from bed.client import Client

from chart.rendering import CHART, KUBERNETES, Helm, Object, Render


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    nowhere = tmp_path_factory.mktemp("helm") / "kubeconfig"
    return Client(binaries(), nowhere).helm


@pytest.fixture(scope="module")
def render(helm: Helm) -> Render:
    def rendered(*options: str) -> list[Object]:
        text = helm("template", "demo", CHART, "--namespace=moriio-system", *KUBERNETES, *options)
        return [obj for obj in yaml.safe_load_all(text) if obj]

    return rendered
