"""A revision changes with all that engines and router must agree on, and with nothing else."""

from __future__ import annotations

import re

import pytest
from moriio_operator.api.crd import structural
from moriio_operator.api.deployment import Spec
from moriio_operator.api.names import REVISION_LENGTH
from moriio_operator.plan.revision import revision, router_revision

from unit.samples import FULL, MINIMAL, Json, spec

SEALED: list[Json] = [
    {"model": {"name": "org/other"}},
    {"model": {"servedName": "other"}},
    {"model": {"tokenSecretKeyRef": {"name": "hub", "key": "token"}}},
    {"model": {"cache": {"emptyDir": {}}}},
    {"model": {"cache": {"emptyDir": {"sizeLimit": "1Gi"}}}},
    {"model": {"cache": {"persistentVolumeClaim": {"claimName": "claim"}}}},
    {"model": {"cache": {"hostPath": {"path": "/srv/models"}}}},
    {"engine": {"image": "vllm:2"}},
    {"engine": {"version": "0.33.0"}},
    {"engine": {"imagePullSecrets": [{"name": "pull"}]}},
    {"engine": {"apiKeySecretKeyRef": {"name": "api", "key": "key"}}},
    {"connector": {"type": "Other"}},
    {"connector": {"mode": "Write"}},
    {"connector": {"backend": "XGMI"}},
    {"connector": {"qpPerTransfer": 2}},
    {"connector": {"postBatchSize": 2}},
    {"connector": {"workers": 2}},
    {"connector": {"transferTimeoutSeconds": 2}},
    {"connector": {"deferTimeoutSeconds": 2}},
    {"connector": {"receiveAbortTimeoutSeconds": 2}},
    {"prefill": {"parallelism": {"tensor": 2}}},
    {"decode": {"parallelism": {"tensor": 2}}},
    {"prefill": {"parallelism": {"dataLocal": 2}}},
    {"decode": {"parallelism": {"expert": "Enabled"}}},
    {"prefill": {"args": ["--enforce-eager"]}},
    {"prefill": {"env": [{"name": "A", "value": "1"}]}},
    {"prefill": {"resources": {"limits": {"cpu": "1"}}}},
    {"prefill": {"resources": {"requests": {"cpu": "1"}}}},
    {"prefill": {"devices": {"gpu": {"visibleDevices": "0"}}}},
    {"decode": {"devices": {"gpu": {"resourceName": "amd.com/gpu", "count": 1}}}},
    {"decode": {"devices": {"rdma": {"resourceName": "rdma/hca", "count": 2}}}},
    {"decode": {"startupTimeoutSeconds": 2}},
    {"decode": {"podTemplate": {"metadata": {"labels": {"a": "b"}}}}},
    {"devices": {"fabric": "RoCE"}},
    {"network": {"mode": "Host"}},
    {"rollout": {"drainTimeoutSeconds": 2}},
]

NOT_SEALED: list[Json] = [
    {"model": {"config": {"architecture": "MoE", "attention": "MLA"}}},
    {"model": {"config": {"kvHeads": 8, "layers": ["FullAttention"]}}},
    # By the name that the first release had for it.
    {"model": {"facts": {"architecture": "MoE", "attention": "MLA"}}},
    {"model": {"facts": {"kvHeads": 8, "layers": ["FullAttention"]}}},
    {"network": {"portRange": {"start": 20_000, "end": 20_099}}},
    {"prefill": {"replicas": 5}},
    {"decode": {"replicas": 5}},
    {"router": {"replicas": 2}},
    {"router": {"image": "router:2"}},
    {"router": {"policy": "Random"}},
    {"router": {"requestTimeoutSeconds": 5}},
    {"router": {"resources": {"limits": {"cpu": "1"}}}},
    {"router": {"resources": {"requests": {"cpu": "1"}}}},
]


def for_the_other_role(change: Json) -> Json:
    """The same change of the other role, where it is one of a role."""
    turned = {"prefill": "decode", "decode": "prefill"}
    return {turned.get(key, key): value for key, value in change.items()}


@pytest.mark.parametrize("change", SEALED, ids=str)
def test_a_sealed_field_makes_a_new_revision(change: Json) -> None:
    assert revision(spec(change)) != revision(spec())
    assert revision(spec(for_the_other_role(change))) != revision(spec())


@pytest.mark.parametrize("change", NOT_SEALED, ids=str)
def test_counts_and_the_routers_own_settings_do_not(change: Json) -> None:
    assert revision(spec(change)) == revision(spec())


@pytest.mark.parametrize("change", [*SEALED, *NOT_SEALED], ids=str)
def test_routers_are_made_anew_for_all_but_a_count(change: Json) -> None:
    # Besides counts only what concerns no program that runs.
    counts = all(
        part.keys() <= {"replicas", "config", "facts", "portRange"} for part in change.values()
    )
    assert (router_revision(spec(change)) == router_revision(spec())) == counts


def fields(node: Json, path: str = "") -> set[str]:
    """Paths of all fields of a schema; one role stands for the other."""
    if "properties" not in node:
        return {path.replace(".decode.", ".prefill.")}
    return {
        p for name, child in node["properties"].items() for p in fields(child, f"{path}.{name}")
    }


def touched(change: object, path: str = "") -> set[str]:
    """Every path on the way of a change, its inner nodes included."""
    here = {path.replace(".decode.", ".prefill.")}
    if not isinstance(change, dict):
        return here
    return here.union(*(touched(value, f"{path}.{key}") for key, value in change.items()))


def test_every_field_of_the_spec_is_in_one_of_the_two_tables() -> None:
    schema = structural(Spec.model_json_schema(by_alias=True))
    told = {path for change in SEALED + NOT_SEALED for path in touched(change)}
    # There is one profile only, so nothing to change it to.
    assert fields(schema) - told == {".devices.profile"}


@pytest.mark.parametrize("base", [MINIMAL, FULL], ids=["minimal", "full"])
def test_a_default_that_is_written_out_changes_nothing(base: Json) -> None:
    written = spec({}, base).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert revision(Spec.model_validate(written)) == revision(spec({}, base))


def test_the_order_in_which_a_user_writes_changes_nothing() -> None:
    turned = {key: MINIMAL[key] for key in reversed(MINIMAL)}
    assert revision(Spec.model_validate(turned)) == revision(spec())


def test_the_order_of_arguments_counts() -> None:
    one, other = {"prefill": {"args": ["--a", "--b"]}}, {"prefill": {"args": ["--b", "--a"]}}
    assert revision(spec(one)) != revision(spec(other))


@pytest.mark.parametrize(("base", "golden"), [(MINIMAL, "sgntrwxt"), (FULL, "52bv5ll4")])
def test_an_operator_upgrade_gives_the_same_wish_the_same_revision(base: Json, golden: str) -> None:
    # Another value restarts every engine of every user: change it only on purpose, and say so.
    assert revision(spec({}, base)) == golden


@pytest.mark.parametrize("base", [MINIMAL, FULL], ids=["minimal", "full"])
def test_a_revision_is_short_and_fits_names_and_labels(base: Json) -> None:
    assert re.fullmatch(rf"[b-df-hj-np-tv-xz2-9]{{{REVISION_LENGTH}}}", revision(spec({}, base)))
