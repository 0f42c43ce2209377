"""The operator's settings: one JSON file that the chart renders from its values."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from moriio_operator.plan.policy import Policy
from moriio_operator.plan.ports import DEFAULT_END, DEFAULT_START, PortRange


class _Settings(BaseModel):
    """Settings are ours on both sides, so an unknown key is a mistake and is refused."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid"
    )


class Ports(_Settings):
    """The range that engine ports come from."""

    start: int = Field(default=DEFAULT_START, ge=1024, le=65_535)
    end: int = Field(default=DEFAULT_END, ge=1024, le=65_535)

    @model_validator(mode="after")
    def _ordered(self) -> Ports:
        if self.end < self.start:
            raise ValueError(f"ports.end {self.end} is below ports.start {self.start}")
        return self

    def range(self) -> PortRange:
        """Give the range as planners take it."""
        return PortRange(self.start, self.end)


class Settings(_Settings):
    """Everything that an admin decides."""

    # Empty: the whole cluster.
    namespaces: list[str] = Field(default_factory=list)
    registrar_image: str
    registrar_cluster_role: str
    policy: Policy = Field(default_factory=Policy)
    ports: Ports = Field(default_factory=Ports)
    workers: int = Field(default=8, ge=1, le=64)
    resync_seconds: float = Field(default=300, ge=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    http_port: int = Field(default=8080, ge=1, le=65_535)

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read the file.

        Raises:
            pydantic.ValidationError: a key is unknown or a value is wrong; the text names it.
        """
        return cls.model_validate_json(path.read_text())
