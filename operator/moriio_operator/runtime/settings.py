"""The operator's settings: one JSON file that the chart renders from its values."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from moriio_operator.admission.policy import Policy
from moriio_operator.api import names
from moriio_operator.api.network import HIGHEST_PORT, LOWEST_PORT, RESERVED_PORTS
from moriio_operator.api.ports import DEFAULT_END, DEFAULT_START, PortRange
from moriio_operator.kube.lease import Candidacy


class _Settings(BaseModel):
    """Settings are ours on both sides, so an unknown key is a mistake and is refused."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid"
    )


class Ports(_Settings):
    """The range that engine ports come from."""

    start: int = Field(default=DEFAULT_START, ge=LOWEST_PORT, le=HIGHEST_PORT)
    end: int = Field(default=DEFAULT_END, ge=LOWEST_PORT, le=HIGHEST_PORT)

    @model_validator(mode="after")
    def _ordered(self) -> Ports:
        if self.end < self.start:
            raise ValueError(f"ports.end {self.end} is below ports.start {self.start}")
        return self

    @model_validator(mode="after")
    def _free(self) -> Ports:
        for first, last, whose in RESERVED_PORTS:
            if self.start <= last and first <= self.end:
                raise ValueError(
                    f"ports {self.start}-{self.end} overlap {first}-{last}, which is reserved for "
                    f"{whose}: use ports within {DEFAULT_START}-{DEFAULT_END}"
                )
        return self

    def range(self) -> PortRange:
        """Give the range as planners take it."""
        return PortRange(self.start, self.end)


class LeaderElection(_Settings):
    """The Lease that one replica holds, and its times, as Kubernetes' own controllers name them."""

    lease_namespace: str
    lease_name: str
    lease_duration_seconds: float = Field(default=15, gt=0)
    renew_deadline_seconds: float = Field(default=10, gt=0)
    retry_period_seconds: float = Field(default=2, gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> LeaderElection:
        # A leader must have given up before anybody else may take over.
        if not (
            self.retry_period_seconds < self.renew_deadline_seconds < self.lease_duration_seconds
        ):
            raise ValueError(
                "leaderElection: retryPeriodSeconds must be below renewDeadlineSeconds, and that "
                "below leaseDurationSeconds"
            )
        return self

    def candidacy(self, identity: str) -> Candidacy:
        """Give the candidacy of this process."""
        return Candidacy(
            namespace=self.lease_namespace,
            name=self.lease_name,
            identity=identity,
            field_manager=names.FIELD_MANAGER,
            duration_s=self.lease_duration_seconds,
            deadline_s=self.renew_deadline_seconds,
            retry_s=self.retry_period_seconds,
        )


class RegistrarRole(_Settings):
    """The role of the chart that registrars are bound to."""

    kind: Literal["ClusterRole", "Role"]
    name: str


class Settings(_Settings):
    """Everything that an admin decides."""

    # Empty: the whole cluster.
    namespaces: list[str] = Field(default_factory=list)
    registrar_image: str
    registrar_role: RegistrarRole
    leader_election: LeaderElection
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
