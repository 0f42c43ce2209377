"""The bed's shape for serving: which images it has, and what its nodes show under /mnt."""

from __future__ import annotations

import engine_env
from bed import images
from bed.cache import REPO
from bed.config import BedConfig
from bed.images import ImageSpec

from stage import nextversion

ENGINE_STUB = ImageSpec(
    "engine-stub", REPO / "images/engine-stub/Dockerfile", REPO / "images/engine-stub"
)

OPERATOR_IMAGE = images.OPERATOR.reference
ROUTER_IMAGE = images.ROUTER.reference
ENGINE_IMAGE = images.ENGINE_CPU_THIN.reference
STUB_IMAGE = ENGINE_STUB.reference

# As pods name it: vLLM's environment and the models, which every node has.
ENVIRONMENT_PATH = "/mnt/engine"
MODELS_PATH = "/mnt/models"
HOST_PATH_PREFIXES = (ENVIRONMENT_PATH, MODELS_PATH)


def serving_bed() -> BedConfig:
    """Give a bed of two nodes that can run the operator, routers and real engines."""
    specs = (
        images.OPERATOR,
        nextversion.image(),
        images.ROUTER,
        images.ENGINE_CPU_THIN,
        ENGINE_STUB,
    )
    return BedConfig(
        nodes=2,
        mounts={ENVIRONMENT_PATH: engine_env.environment(), MODELS_PATH: engine_env.models()},
        images=tuple(images.build_image(spec) for spec in specs),
    )
