"""The admin's policy: nothing is allowed unless the chart's values say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.admission import policy as admin
from moriio_operator.admission.policy import Policy
from pydantic import ValidationError

from unit.samples import POLICY, Json, laid_over, owner


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


HOST: Json = {"network": {"mode": "Host"}}


def test_the_host_network_needs_leave_of_its_own() -> None:
    without = Policy(privileged_namespaces=["team"])
    assert told(HOST, without) == [
        "spec.network.mode: namespace 'team' may not use the host network: the admin adds it to "
        "the chart value policy.hostNetworkNamespaces"
    ]
    both = Policy(privileged_namespaces=["team"], host_network_namespaces=["team"])
    assert told(HOST, both) == []


def images(*prefixes: str) -> Policy:
    return Policy(privileged_namespaces=["team"], image_prefixes=list(prefixes))


def test_without_prefixes_any_image_is_allowed() -> None:
    assert told(policy=images()) == []


@pytest.mark.parametrize("prefix", ["vllm", "vllm:", "vllm:1"])
def test_an_image_below_a_prefix_is_accepted(prefix: str) -> None:
    assert told(policy=images(prefix, "router:")) == []


@pytest.mark.parametrize("prefix", ["vll", "vllm/", "other", "vllm:1/"])
def test_an_image_elsewhere_is_refused_with_the_remedy(prefix: str) -> None:
    assert told(policy=images(prefix, "router")) == [
        f"spec.engine.image: image 'vllm:1' begins with none of the prefixes that the admin allows "
        f"({prefix}, router): use one of them, or the admin adds its prefix to the chart value "
        "policy.imagePrefixes"
    ]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"router": {"image": "evil/router"}}, "spec.router.image"),
        (
            {"decode": {"podTemplate": {"spec": {"containers": [{"image": "evil/x"}]}}}},
            "spec.decode.podTemplate.spec.containers[0].image",
        ),
        (mounted({"image": {"reference": "evil/x"}}), "spec.decode.podTemplate.spec.volumes[0]"),
        (mounted({"image": {}}), "spec.decode.podTemplate.spec.volumes[0]"),
        (mounted({"image": "evil/x"}), "spec.decode.podTemplate.spec.volumes[0]"),
    ],
    ids=str,
)
def test_no_image_comes_in_by_another_way(change: Json, path: str) -> None:
    (text,) = told(change, images("vllm", "router"))
    assert text.startswith(path)


def gpus(most: int | None) -> Policy:
    return Policy(privileged_namespaces=["team"], max_gpus=most)


def asking(prefill: Json, decode: Json, replicas: int = 1) -> Json:
    return {
        "prefill": {"devices": {"gpu": prefill}, "replicas": replicas},
        "decode": {"devices": {"gpu": decode}},
    }


COUNTED: Json = {"resourceName": "amd.com/gpu", "count": 2}


@pytest.mark.parametrize(
    ("change", "total"),
    [
        (asking(COUNTED, COUNTED), 4),
        (asking(COUNTED, COUNTED, replicas=3), 8),
        (asking({"visibleDevices": "0,1,2"}, {"visibleDevices": "0"}), 4),
        (asking({**COUNTED, "visibleDevices": "0"}, COUNTED), 4),
        (asking({**COUNTED, "visibleDevices": "0,1,2"}, COUNTED), 5),
        (asking({"visibleDevices": "0,0"}, COUNTED), 3),
    ],
    ids=str,
)
def test_gpus_are_counted_over_all_engines_by_their_widest_claim(change: Json, total: int) -> None:
    assert told(change, gpus(total)) == []
    assert told(change, gpus(total - 1)) == [
        f"spec: asks for {total} GPUs over all engines, and the admin allows {total - 1}: ask for "
        "fewer, or the admin raises the chart value policy.maxGpus"
    ]
    assert told(change, gpus(None)) == []


@pytest.mark.parametrize("gpu", [None, {}], ids=str)
def test_with_a_bound_every_role_says_how_many_it_uses(gpu: Json | None) -> None:
    change = {"prefill": {"devices": {"gpu": gpu}}, "decode": {"devices": {"gpu": COUNTED}}}
    assert told(change, gpus(100)) == [
        "spec.prefill.devices.gpu: is not given, and a privileged engine sees every GPU of its "
        "node: give count or visibleDevices, since the chart value policy.maxGpus bounds their "
        "number"
    ]


EIGHT: Json = {"limits": {"amd.com/gpu": "8"}}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"prefill": {"resources": EIGHT}}, "spec.prefill.resources.limits[amd.com/gpu]"),
        (
            {"decode": {"resources": {"requests": {"amd.com/gpu": "8"}}}},
            "spec.decode.resources.requests[amd.com/gpu]",
        ),
        ({"router": {"resources": EIGHT}}, "spec.router.resources.limits[amd.com/gpu]"),
        (
            {
                "decode": {
                    "podTemplate": {
                        "spec": {"containers": [{"name": "engine"}, {"resources": EIGHT}]}
                    }
                }
            },
            "spec.decode.podTemplate.spec.containers[1].resources.limits[amd.com/gpu]",
        ),
        (
            {
                "prefill": {
                    "devices": {"gpu": {"resourceName": "vendor/card", "count": 1}},
                    "resources": {"limits": {"vendor/card": "8"}},
                }
            },
            "spec.prefill.resources.limits[vendor/card]",
        ),
    ],
    ids=str,
)
def test_with_a_bound_gpus_are_asked_for_in_one_place_only(change: Json, path: str) -> None:
    whole = laid_over(asking({"visibleDevices": "0"}, {"visibleDevices": "0"}), change)
    assert told(whole, gpus(100)) == [
        f"{path}: GPUs are asked for in devices.gpu alone, where the chart value policy.maxGpus "
        "counts them: remove it"
    ]
    assert told(whole, gpus(None)) == []


@pytest.mark.parametrize(
    ("prefix", "image", "allowed"),
    [
        ("reg.example", "reg.example/vllm:1", True),
        ("reg.example", "reg.example:5000/vllm:1", False),
        ("reg.example:5000", "reg.example:5000/vllm:1", True),
        ("reg.example/team", "reg.example/team:1", True),
        ("reg.example/team", "reg.example/team@sha256:0", True),
        ("reg.example/team", "reg.example/teammate:1", False),
        ("vllm", "vllm:1", True),
    ],
)
def test_a_prefix_is_a_host_a_path_or_a_name_and_no_mere_text(
    prefix: str, image: str, *, allowed: bool
) -> None:
    assert (told({"engine": {"image": image}}, images(prefix, "router")) == []) is allowed


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "containers", "volumes", "image", "hostPath", "path", "name"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata"]), JUNK, max_size=2))
def test_a_template_of_any_shape_is_judged_and_never_breaks_the_judge(template: Json) -> None:
    strict = Policy(privileged_namespaces=["team"], image_prefixes=["vllm", "router"], max_gpus=8)
    for text in told({"decode": {"podTemplate": template}}, strict):
        assert text.startswith("spec")


def test_every_problem_is_told_at_once() -> None:
    assert len(told(cached("/etc"), Policy())) == 2
