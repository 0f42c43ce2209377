"""Status: what was observed, in lists keyed so that server-side apply merges by item.

Times are RFC 3339 in UTC. Some of it is memory, which could not be observed anew: the
port allocation, which is written before the pods that use it, the accepted counts and revision, the
crash records, and which engines ever served.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from moriio_operator.api.schema import ApiModel, JsonSchema, Text253, list_map

MESSAGE_MAX = 4096
Message = Annotated[str, StringConstraints(max_length=MESSAGE_MAX)]
Time = Annotated[str, StringConstraints(max_length=64)]
# Two roles of 256 engines, each with a predecessor that still stops.
ENGINES_MAX = 1024
TIME_FORMAT: JsonSchema = {"format": "date-time"}


class ConditionType(StrEnum):
    """The conditions of a PDDeployment, in the order in which a service comes up."""

    ACCEPTED = "Accepted"
    CONTRACT_CHECKED = "ContractChecked"
    PORTS_ALLOCATED = "PortsAllocated"
    PREFILL_READY = "PrefillReady"
    DECODE_READY = "DecodeReady"
    ROUTER_READY = "RouterReady"
    PROGRESSING = "Progressing"
    READY = "Ready"


class Condition(ApiModel):
    """One condition, as Kubernetes defines them."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(
        description="Name of the condition."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int = Field(description="The generation that this speaks of.")
    last_transition_time: Time = Field(
        description="When the status last changed.", json_schema_extra=TIME_FORMAT
    )
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(
        description="Cause in one CamelCase word."
    )
    message: Message = Field(description="Cause and remedy in words.")


class EngineState(StrEnum):
    """How far an engine incarnation is."""

    PENDING = "Pending"
    STARTING = "Starting"
    READY = "Ready"
    UNREADY = "Unready"
    TERMINATING = "Terminating"
    ENDED = "Ended"


class EngineStatus(ApiModel):
    """One engine incarnation, which is one pod."""

    pod: Text253 = Field(description="Name of the pod.")
    role: Text253 = Field(description="prefill or decode.")
    revision: Text253 = Field(description="The revision that it was made for.")
    port_base: int = Field(description="First port of its block.")
    ports: int = Field(description="Number of ports in its block.")
    state: EngineState = Field(description="How far it is.")
    served: bool = Field(
        default=False, description="Whether it ever served, so that its peers may know its ports."
    )
    node: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="The node that it runs on."
    )
    address: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="Its address."
    )


class RetiredPorts(ApiModel):
    """The block of an engine that is gone."""

    base: int = Field(description="First port of the block.")
    ports: int = Field(description="Number of ports in the block.")
    until: int = Field(
        description="Kept back until no engine lives whose serial, the number in its name, is "
        "smaller."
    )


class PortAllocation(ApiModel):
    """Which ports were given out, and which must not be given out again yet."""

    cursor: int = Field(
        default=0,
        ge=0,
        description="Ports handed out so far; never goes back. Modulo the range it is the next "
        "block.",
    )
    retired: list[RetiredPorts] = Field(
        default_factory=list,
        max_length=256,
        description="Blocks of engines that are gone, kept back while an engine lives that may "
        "know them.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class LastFailure(ApiModel):
    """The engine of a role that ended last, kept until all engines of the role are ready again."""

    pod: Text253 = Field(description="Name of the pod that ended.")
    reason: Text253 = Field(description="Cause in one word, such as Error or OOMKilled.")
    message: Message = Field(description="Exit code and the tail of its log.")


class RoleStatus(ApiModel):
    """The engines of one role and revision."""

    name: Text253 = Field(description="prefill or decode.")
    revision: Text253 = Field(description="The revision.")
    desired: int = Field(
        description="How many engines are desired: the count that was accepted last."
    )
    pods: int = Field(description="How many pods there are, those that stop not counted.")
    ready: int = Field(description="How many of them serve.")
    failures: int = Field(
        default=0, description="Engines that ended one soon after the other; sets the back-off."
    )
    last_failure_time: Time | None = Field(
        default=None,
        description="When an engine last ended.",
        json_schema_extra=TIME_FORMAT,
    )
    last_failure: LastFailure | None = Field(
        default=None,
        description="The engine that ended last, until all engines of the role serve again.",
    )


class RevisionStatus(ApiModel):
    """A revision whose rendered templates are kept."""

    name: Text253 = Field(description="The revision.")
    rendered_by: Text253 = Field(
        description="Version of the operator that rendered its engine pods; later ones keep them."
    )
    router_rendered_by: Text253 | None = Field(
        default=None, description="Version of the operator that rendered its router pods."
    )
    router_template: Text253 | None = Field(
        default=None, description="The ControllerRevision that its router pods are made from."
    )


class Summary(ApiModel):
    """What the columns of `kubectl get` show."""

    prefill: Annotated[str, StringConstraints(max_length=32)] = Field(
        description="Ready and desired prefill engines."
    )
    decode: Annotated[str, StringConstraints(max_length=32)] = Field(
        description="Ready and desired decode engines."
    )
    reason: Annotated[str, StringConstraints(max_length=1024)] = Field(
        default="", description="Reason of the first condition that is false."
    )


class Status(ApiModel):
    """What the operator observed."""

    observed_generation: int | None = Field(
        default=None, description="The generation that this status speaks of."
    )
    port_allocation: PortAllocation = Field(
        default=PortAllocation(), description="Which ports were given out."
    )
    # Both stay in the schema, or the API server would drop them from objects that 0.1.0 stored
    # before this version has read them.
    port_cursor: int | None = Field(
        default=None, ge=0, description="Deprecated: portAllocation.cursor of 0.1.0."
    )
    retired_ports: list[RetiredPorts] | None = Field(
        default=None,
        max_length=256,
        description="Deprecated: portAllocation.retired of 0.1.0.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    revision: Annotated[str, StringConstraints(max_length=63)] | None = Field(
        default=None,
        description="The revision that runs or starts; while a spec is refused, the one before it.",
    )
    endpoint: Annotated[str, StringConstraints(max_length=512)] | None = Field(
        default=None, description="Where clients inside the cluster send requests."
    )
    summary: Summary | None = Field(default=None, description="What `kubectl get` shows.")
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=32,
        description="Conditions, in the order in which a service comes up.",
        json_schema_extra=list_map("type"),
    )
    revisions: list[RevisionStatus] = Field(
        default_factory=list,
        max_length=16,
        description="Revisions whose rendered templates are kept.",
        json_schema_extra=list_map("name"),
    )
    roles: list[RoleStatus] = Field(
        default_factory=list,
        max_length=16,
        description="Engines by role and revision.",
        json_schema_extra=list_map("name", "revision"),
    )
    engines: list[EngineStatus] = Field(
        default_factory=list,
        max_length=ENGINES_MAX,
        description="Engine incarnations.",
        json_schema_extra=list_map("pod"),
    )

    @classmethod
    def from_object(cls, obj: dict[str, Any]) -> Status:
        """Read the status of a live object; an object without one has the empty status.

        Much of it cannot be observed anew: the cursor, ports that are kept back, accepted counts,
        crash records. So of one that does not read, as another version of the operator may have
        written it, each field counts that does, and of each list the items that do.
        """
        stored = _renamed(obj.get("status") or {})
        try:
            return cls.model_validate(stored)
        except ValidationError:
            return cls.model_validate(dict(_readable(cls, stored)))

    def to_object(self) -> dict[str, Any]:
        """Give the status as it is applied: camelCase, nothing that is not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _renamed(stored: dict[str, Any]) -> dict[str, Any]:
    """Give a stored status with the names of today."""
    old = {"cursor": stored.get("portCursor"), "retired": stored.get("retiredPorts")}
    kept = {name: value for name, value in old.items() if value is not None}
    rest = {k: v for k, v in stored.items() if k not in ("portCursor", "retiredPorts")}
    # Written by this version or a later one, the new name counts.
    return {"portAllocation": kept, **rest} if kept else rest


def _readable(model: type[ApiModel], stored: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give the fields that read; of an object its members, and of a list its items."""

    def reads(name: str, value: object) -> bool:
        try:
            model.model_validate({name: value})
        except ValidationError:
            return False
        return True

    def readable(name: str, value: object) -> object:
        if reads(name, value):
            return value
        if isinstance(value, list):
            return [item for item in value if reads(name, [item])]
        if isinstance(value, dict):
            members = {
                key: [i for i in item if reads(name, {key: [i]})]
                if isinstance(item, list)
                else item
                for key, item in value.items()
            }
            return {key: item for key, item in members.items() if reads(name, {key: item})}
        return value

    for name, value in stored.items():
        kept = readable(name, value)
        if reads(name, kept):
            yield name, kept
