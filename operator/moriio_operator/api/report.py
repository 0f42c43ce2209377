"""PDReport: what one of our pods observed and the operator cannot see itself.

A pod writes one report, under its own name and with itself as the owner, so that the report is
deleted with its pod. It is written when its content changes, and periodically to show that its
writer is alive. Whoever may create reports in a namespace can forge one: a report may affect a
condition, and nothing else.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError

from moriio_operator.api.schema import ApiModel, list_map
from moriio_operator.api.status import TIME_FORMAT, Time
from moriio_operator.facts.terms import Attention
from moriio_operator.kube.objects import Object

# Two roles of 256 engines.
ENGINES_MAX = 512

PodUid = Annotated[str, StringConstraints(min_length=1, max_length=64)]
# The version of a Python package: 0.32.1.dev5+g1a2b3c4.rocm72.
PackageVersion = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]*$")
]


class EngineReport(ApiModel):
    """What one engine reports about itself and the model that it loaded."""

    pod_uid: PodUid = Field(alias="podUID", description="UID of the engine's pod.")
    version: PackageVersion | None = Field(default=None, description="Version of vLLM.")
    attention: Attention | None = Field(
        default=None, description="Content of the KV cache: heads (GQA) or latents (MLA)."
    )
    kv_heads: int | None = Field(
        default=None, ge=1, le=65_536, description="Number of KV heads over all ranks."
    )
    recurrent_state: bool | None = Field(
        default=None,
        description="Whether the model has layers that keep a recurrent state: state-space layers "
        "or linear attention.",
    )


class PDReport(ApiModel):
    """What a pod observed that the operator cannot see itself. Written by that pod only."""

    engines: list[EngineReport] = Field(
        default_factory=list,
        max_length=ENGINES_MAX,
        description="Engines that the pod has queried, as long as they exist.",
        json_schema_extra=list_map("podUID"),
    )
    renew_time: Time = Field(
        description="When the report was last written: on a change, and otherwise every few "
        "minutes.",
        json_schema_extra=TIME_FORMAT,
    )

    @classmethod
    def from_object(cls, obj: Object) -> PDReport | None:
        """Read a live object; None when this version does not know its shape."""
        try:
            return cls.model_validate(obj)
        except ValidationError:
            return None
