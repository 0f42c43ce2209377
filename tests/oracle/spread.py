"""A spread of services whose engines are given to vLLM: all that changes an argument of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.facts.terms import Role
from moriio_operator.facts.versions import Version
from moriio_operator.stack.vllm_moriio.compatibility import assess
from unit.samples import REVISION, Json, engine_pod, laid_over, owner

HOST = "198.18.1.7"
BASE = 20_000
MODEL = "/models/tiny"

_CONNECTORS: list[Json] = [
    {"mode": mode, "backend": backend, **tuned}
    for mode, backend, tuned in product(
        ("Read", "Write"),
        ("RDMA", "XGMI"),
        (
            {},
            {
                "qpPerTransfer": 4,
                "postBatchSize": 16,
                "workers": 2,
                "transferTimeoutSeconds": 31,
                "deferTimeoutSeconds": 61,
                "receiveAbortTimeoutSeconds": 121,
            },
        ),
    )
]
# Changes of a role.
_ROLES: list[Json] = [
    {},
    {"parallelism": {"tensor": 2}},
    {"parallelism": {"tensor": 8}},
    {"parallelism": {"dataLocal": 2, "expert": "Enabled"}},
    {"parallelism": {"dataLocal": 8}},
    {"parallelism": {"tensor": 2, "expert": "Enabled"}},
    {"args": ["--max-model-len", "1024", "--block-size=32", "--no-enable-prefix-caching"]},
    {"args": ["--enable-prefix-caching", "--dtype", "float32", "--seed", "7"]},
]


@dataclass(frozen=True, slots=True)
class Case:
    """One engine of a service: what a pod of it is started with."""

    name: str
    spec: Spec
    role: Role
    arguments: list[str]
    environment: dict[str, str]
    ports: dict[str, int]

    def argument(self, flag: str) -> str:
        """Give the value of a flag."""
        return self.arguments[self.arguments.index(flag) + 1]


def cases(version: Version) -> Iterator[Case]:
    """Give an engine of every role of every service that the contract lets a version serve."""
    changes = [
        *({"connector": connector} for connector in _CONNECTORS),
        *({"prefill": role, "decode": role} for role in _ROLES),
    ]
    for number, change in enumerate(changes):
        service = _service(change, version)
        if not assess(service.spec).problems:
            for role in Role:
                yield _case(f"{role} of service {number}", service, role)


def _case(name: str, service: Owner, role: Role) -> Case:
    pod = engine_pod(service, f"{service.name}-{role}-0", role, REVISION, BASE)
    container = next(
        one for one in pod["spec"]["containers"] if one["name"] == names.CONTAINER_ENGINE
    )
    environment = {entry["name"]: _value(entry) for entry in container["env"]}
    arguments = [_expanded(argument, environment) for argument in container["args"]]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    return Case(name, service.spec, role, arguments, environment, ports)


def _value(entry: Json) -> str:
    """Give the value of a variable as the kubelet does."""
    if "value" in entry:
        return str(entry["value"])
    assert entry["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    return HOST


def _expanded(text: str, environment: dict[str, str]) -> str:
    for name, value in environment.items():
        text = text.replace(f"$({name})", value)
    return text


def _service(change: Json, version: Version) -> Owner:
    base = {
        "model": {"name": MODEL, "config": {"architecture": "MoE", "attention": "MLA"}},
        "engine": {"version": str(version)},
    }
    return owner(laid_over(base, change))
