"""The admin's policy: nothing is allowed unless the chart's values say so."""

from __future__ import annotations

import pytest
from moriio_operator.plan import policy as admin
from moriio_operator.plan.policy import Policy
from pydantic import ValidationError

from unit.samples import POLICY, Json, owner


def told(change: Json | None = None, policy: Policy = POLICY) -> list[str]:
    return [str(problem) for problem in admin.problems(owner(change), policy)]


def cached(path: str) -> Json:
    return {"model": {"cache": {"hostPath": {"path": path}}}}


def mounted(volume: object) -> Json:
    return {"decode": {"podTemplate": {"spec": {"volumes": [volume]}}}}


def test_a_namespace_with_leave_is_accepted() -> None:
    assert told() == []


@pytest.mark.parametrize("allowed", [[], ["other"], ["tea"], ["team-b"]])
def test_a_namespace_without_leave_is_refused_with_the_remedy(allowed: list[str]) -> None:
    assert told(policy=Policy(privileged_namespaces=allowed)) == [
        "spec.devices.profile: namespace 'team' may not run privileged pods: the admin adds it to "
        "the chart value policy.privilegedNamespaces"
    ]


@pytest.mark.parametrize(
    "path", ["/srv/models", "/srv/models/", "/srv/models/a", "/srv//models/./a", "//srv/models"]
)
def test_a_folder_below_a_prefix_is_accepted(path: str) -> None:
    assert told(cached(path)) == []


@pytest.mark.parametrize(
    "path",
    ["/srv", "/srv/models2", "/etc", "/srv/models/..", "/srv/models/../../etc", "/data/srv/models"],
)
def test_a_folder_elsewhere_is_refused_with_the_remedy(path: str) -> None:
    assert told(cached(path)) == [
        f"spec.model.cache.hostPath.path: {path!r} is below none of the folders that the admin "
        "allows (/srv/models): use one of them, or the admin adds its prefix to the chart value "
        "policy.hostPathPrefixes"
    ]


def test_without_prefixes_no_folder_of_the_node_is_allowed() -> None:
    (text,) = told(cached("/srv/models"), Policy(privileged_namespaces=["team"]))
    assert "the folders that the admin allows (none)" in text


@pytest.mark.parametrize("prefix", ["", " ", "models", "../srv"])
def test_a_prefix_that_is_no_absolute_folder_is_refused(prefix: str) -> None:
    with pytest.raises(ValidationError, match=r"host_?[pP]ath_?[pP]refixes"):
        Policy(host_path_prefixes=[prefix])


def test_the_root_as_a_prefix_allows_every_folder() -> None:
    everything = Policy(privileged_namespaces=["team"], host_path_prefixes=["/"])
    assert told(cached("/etc"), everything) == []


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="privilegedNamespace"):
        Policy.model_validate({"privilegedNamespace": ["team"]})


def test_a_folder_in_a_template_needs_the_same_leave() -> None:
    assert told(mounted({"name": "x", "hostPath": {"path": "/srv/models/x"}})) == []
    (text,) = told(mounted({"name": "x", "hostPath": {"path": "/etc"}}))
    assert text.startswith("spec.decode.podTemplate.spec.volumes[0].hostPath.path: '/etc' is below")


@pytest.mark.parametrize("host_path", [{}, {"path": None}, {"path": 5}, "/etc", [], 0, False])
def test_a_folder_that_cannot_be_read_is_refused(host_path: object) -> None:
    assert len(told(mounted({"name": "x", "hostPath": host_path}))) == 1


def test_every_problem_is_told_at_once() -> None:
    assert len(told(cached("/etc"), Policy())) == 2
