"""Models of the model that is served: its name, its files, and what is known about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from moriio_operator.api import names
from moriio_operator.api.schema import (
    AbsolutePath,
    ApiModel,
    ObjectName,
    Positional253,
    Positional1024,
    Quantity,
    rule,
    rules,
    with_rules,
)
from moriio_operator.facts.terms import Attention, Layer

MODEL_PATH_RULE = rule(
    f"!self.name.startsWith('/') || (self.name.startsWith('{names.CACHE_MOUNT}/') "
    "&& !self.name.contains('..'))",
    f"spec.model.name: an absolute path must lie under {names.CACHE_MOUNT}/, where the cache is "
    "mounted, and hold no '..'; or give a model's name on the hub",
    ".name",
)
SERVED_NAME_RULE = rule(
    "self == oldSelf",
    "spec.model.servedName is immutable: clients ask for it; make a new PDDeployment",
)


# `config` itself is always there: its default is an empty object.
_CONFIG_FIELDS = ("architecture", "attention", "kvHeads", "layers")
ONE_CONFIG_RULE = rule(
    f"!has(self.facts) || !({' || '.join(f'has(self.config.{f})' for f in _CONFIG_FIELDS)})",
    "spec.model: facts is the name of config in 0.1.0; give config alone",
    ".facts",
)


class PersistentVolumeClaim(ApiModel):
    """A claim in the namespace of the PDDeployment."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")


class EmptyDir(ApiModel):
    """Scratch space that lives as long as its pod."""

    size_limit: Quantity | None = Field(
        default=None, description="Upper bound of its size; none when left out."
    )


class HostPath(ApiModel):
    """A folder of the node, below a prefix that the admin allows."""

    path: AbsolutePath = Field(description="The folder on the node.")


class Cache(ApiModel):
    """Where model files are kept: exactly one of three kinds of volume."""

    model_config = with_rules(
        rule(
            "[has(self.persistentVolumeClaim), has(self.emptyDir), has(self.hostPath)]"
            ".filter(x, x).size() == 1",
            "spec.model.cache: give exactly one of persistentVolumeClaim, emptyDir and hostPath",
        )
    )

    persistent_volume_claim: PersistentVolumeClaim | None = Field(
        default=None, description="Keep the files in a claim, shared by all engines."
    )
    empty_dir: EmptyDir | None = Field(
        default=None, description="Download the files anew into each engine pod."
    )
    host_path: HostPath | None = Field(
        default=None,
        description="Use a folder of the node; its path must lie below one of the chart value "
        "policy.hostPathPrefixes.",
    )


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace. The operator itself cannot read Secrets."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: Annotated[
        str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
    ] = Field(description="Key in the Secret.")


class Architecture(StrEnum):
    """Whether the model's feed-forward layers are split into experts."""

    DENSE = "Dense"
    MOE = "MoE"


class ModelConfig(ApiModel):
    """What the model's config.json says; rules that need a value that is not given go unchecked."""

    architecture: Architecture | None = Field(
        default=None,
        description="Dense, or MoE (mixture of experts: config.json has num_experts, "
        "n_routed_experts or num_local_experts).",
    )
    attention: Attention | None = Field(
        default=None,
        description="GQA (grouped, multi-head or multi-query attention), or MLA (latent: "
        "config.json has kv_lora_rank).",
    )
    kv_heads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Number of KV heads over all tensor parallel ranks (num_key_value_heads of "
        "the model's config.json). Of no meaning with MLA.",
    )
    layers: list[Layer] | None = Field(
        default=None,
        min_length=1,
        max_length=4,
        description="Kinds of layers that keep state: full attention, sliding-window attention, "
        "state-space layers (Mamba), linear attention (KDA, GDN); config.json may have them as "
        "layer_types, or a sliding_window.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class Model(ApiModel):
    """The model that all engines serve."""

    model_config = with_rules(MODEL_PATH_RULE, ONE_CONFIG_RULE)

    name: Positional1024 = Field(
        description="Name on the hub, or an absolute path below "
        f"{names.CACHE_MOUNT}, where the cache is mounted."
    )
    served_name: Positional253 = Field(
        description="The name that clients send in `model`. Immutable.",
        json_schema_extra=rules(SERVED_NAME_RULE),
    )
    token_secret_key_ref: SecretKeyRef | None = Field(
        default=None,
        description="The hub's access token, for models that need one (HF_TOKEN of the engines).",
    )
    cache: Cache | None = Field(
        default=None,
        description=f"The volume mounted at {names.CACHE_MOUNT} (HF_HOME is a folder in it); "
        "an emptyDir when left out.",
    )
    config: ModelConfig = Field(
        default=ModelConfig(),
        description="What the model's config.json says, for the rules of vLLM and MoRIIO that "
        "depend on it. A change of it restarts nothing.",
    )
    facts: ModelConfig | None = Field(
        default=None,
        description="Deprecated: the name of `config` in 0.1.0. Give `config` in its place.",
    )

    @property
    def known_config(self) -> ModelConfig:
        """What is known of the model's config.json, under whichever name it was given."""
        return self.config if self.facts is None else self.facts
