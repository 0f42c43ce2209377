"""The bed that all cluster tests share can serve: it has the images, the environment, a model."""

from __future__ import annotations

import pytest
from bed.config import BedConfig
from stage.shape import serving_bed


@pytest.fixture(scope="session")
def bed_config() -> BedConfig:
    """Give the shape of the run's bed."""
    return serving_bed()
