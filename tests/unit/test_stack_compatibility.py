"""A spec is held against what vLLM of its version can do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.model import Architecture
from moriio_operator.facts.terms import Attention, Layer, Mode
from moriio_operator.facts.versions import KNOWN, NEWEST, Version
from moriio_operator.stack.stack import Assessment
from moriio_operator.stack.vllm_moriio.compatibility import assess

from unit.samples import FULL, Json, laid_over, spec

STATED: Json = {
    "model": {"config": {"architecture": "Dense", "attention": "MLA", "layers": ["FullAttention"]}}
}
MOE: Json = {"model": {"config": {"architecture": "MoE"}}}
STATE: Json = {
    "model": {"config": {"layers": ["FullAttention", "StateSpace"]}},
    **{
        role: {"env": [{"name": "VLLM_SSM_CONV_STATE_LAYOUT", "value": "DS"}]}
        for role in ("prefill", "decode")
    },
}
SLIDING: Json = {"model": {"config": {"layers": ["FullAttention", "SlidingWindow"]}}}
HYBRID = "--disable-hybrid-kv-cache-manager"


def assessed(*changes: Json, version: str = "0.33.0") -> Assessment:
    made: Json = {"engine": {"version": version}}
    for change in (STATED, *changes):
        made = laid_over(made, change)
    return assess(spec(made))


def told(*changes: Json, version: str = "0.33.0") -> str:
    return "\n".join(str(problem) for problem in assessed(*changes, version=version).problems)


def mode(name: str) -> Json:
    return {"connector": {"mode": name}}


def tensors(prefill: int, decode: int, **facts: Any) -> Json:
    return {
        "model": {"config": facts},
        "prefill": {"parallelism": {"tensor": prefill}},
        "decode": {"parallelism": {"tensor": decode}},
    }


def args(role: str, *given_args: str) -> Json:
    return {role: {"args": list(given_args)}}


def env(role: str, name: str, value: str) -> Json:
    return {role: {"env": [{"name": name, "value": value}]}}


def xgmi(prefill: str | None = None, decode: str | None = None) -> Json:
    made: Json = {"connector": {"backend": "XGMI"}, "network": {"mode": "Host"}}
    for role, devices in (("prefill", prefill), ("decode", decode)):
        if devices is not None:
            made[role] = {"devices": {"gpu": {"visibleDevices": devices}}}
    return made


def test_a_spec_within_the_contract_has_no_problem_and_nothing_unchecked() -> None:
    assert assessed() == Assessment(NEWEST)


WORKING = [version for version in KNOWN if version >= Version(0, 23)]


@pytest.mark.parametrize("version", WORKING, ids=str)
@pytest.mark.parametrize("name", ["Read", "Write"])
def test_a_plain_model_is_served_in_both_modes(version: Version, name: str) -> None:
    found = assessed(mode(name), version=str(version))
    assert (found.version, found.problems) == (version, ())
    assert not found.newer
    assert not found.unknown


@pytest.mark.parametrize("version", sorted({*KNOWN} - {*WORKING}), ids=str)
@pytest.mark.parametrize("name", ["Read", "Write"])
def test_no_mode_works_before_its_messages_were_mended(version: Version, name: str) -> None:
    [problem] = assessed(mode(name), version=str(version)).problems
    assert (problem.reason, problem.path) == ("OutsideContract", "spec.connector.mode")
    assert f"{name} mode of vLLM {version}" in problem.text
    assert "use vLLM 0.23 or newer" in problem.text


@pytest.mark.parametrize(
    ("engine", "path"),
    [
        ({"image": "vllm:v0.19.1"}, "spec.engine.image"),
        ({"image": "vllm:latest", "version": "0.19.1"}, "spec.engine.version"),
    ],
)
def test_a_version_that_is_too_old_is_refused_where_it_is_told(engine: Json, path: str) -> None:
    [problem] = assess(spec({"engine": engine})).problems
    assert (problem.reason, problem.path) == ("VersionTooOld", path)
    assert "vLLM 0.19.1 is older than 0.20.0" in problem.text


@pytest.mark.parametrize(
    ("image", "newer", "unknown"),
    [
        ("vllm:v0.33.0", False, False),
        ("vllm:v0.34.0", True, False),
        ("vllm:v0.33.1", True, False),
        ("vllm:latest", False, True),
    ],
)
def test_a_newer_or_unknown_version_gets_the_newest_rules(
    image: str, *, newer: bool, unknown: bool
) -> None:
    found = assess(spec(laid_over(STATED, {"engine": {"image": image}})))
    assert (found.version, found.newer, found.unknown) == (NEWEST, newer, unknown)
    assert found.problems == ()


# The change, the version, the path of the problem, and what its text says.
REFUSED: list[tuple[list[Json], str, str, list[str]]] = [
    (
        [xgmi(), tensors(2, 4)], "0.33.0", "spec.decode.parallelism.tensor",
        ["4 is larger than 2 of spec.prefill.parallelism.tensor", "use at most 2"],
    ),
    (
        [xgmi("0,1", "2,3")], "0.33.0", "spec.decode.devices.gpu.visibleDevices",
        ["0,1 in spec.prefill.devices.gpu.visibleDevices", "2,3 here", "must see all GPUs"],
    ),
    (
        [xgmi("0,1")], "0.33.0", "spec.decode.devices.gpu.visibleDevices",
        ["0,1 in spec.prefill", "none here", "list the same ones in both"],
    ),
    (
        [xgmi("0,1", "0,1")], "0.33.0", "spec.decode.devices.gpu.visibleDevices",
        ["begin alike", "both would use 0", "own first"],
    ),
    (
        [{"decode": {"parallelism": {"dataLocal": 2}}}], "0.33.0",
        "spec.decode.parallelism.dataLocal",
        ["2 must be 1 for a dense model", "use spec.decode.replicas"],
    ),
    (
        [{"prefill": {"parallelism": {"expert": "Enabled"}}}], "0.33.0",
        "spec.prefill.parallelism.expert", ["Enabled", "has no experts", "set it to Disabled"],
    ),
    (
        [mode("Write")], "0.22.1", "spec.connector.mode",
        ["Write mode of vLLM 0.22.1", "sends the list of its blocks to itself", "use vLLM 0.23"],
    ),
    (
        [mode("Write"), tensors(2, 2)], "0.26.0", "spec.prefill.parallelism.tensor",
        ["writes into the first decode rank", "vLLM 0.27 or newer"],
    ),
    (
        [MOE, {"prefill": {"parallelism": {"dataLocal": 2}}}], "0.27.1",
        "spec.prefill.parallelism.dataLocal",
        ["reads from the first data parallel rank", "use Write, dataLocal 1 and more replicas"],
    ),
    (
        [tensors(4, 2)], "0.24.0", "spec.decode.parallelism.tensor",
        ["tensor 4 (prefill) and 2 (decode) must be equal in Read mode of vLLM 0.24.0"],
    ),
    (
        [mode("Write"), tensors(4, 2)], "0.32.0", "spec.decode.parallelism.tensor",
        ["must be equal in Write mode of vLLM 0.32.0", "or equal"],
    ),
    (
        [tensors(4, 2, attention="GQA", kvHeads=8)], "0.33.0", "spec.decode.parallelism.tensor",
        ["do not fit 8 KV heads", "neither may be smaller", "make spec.prefill.parallelism.tensor"],
    ),
    (
        [mode("Write"), tensors(4, 6)], "0.33.0", "spec.decode.parallelism.tensor",
        ["one must be a multiple of the other"],
    ),
    (
        [STATE, tensors(4, 2)], "0.33.0", "spec.decode.parallelism.tensor",
        ["2 differs from 4", "layers with a state", "between equal sizes only", "make them equal"],
    ),
    (
        [STATE], "0.30.0", "spec.model.config.layers",
        ["StateSpace in Read mode of vLLM 0.30.0", "use vLLM 0.31"],
    ),
    (
        [STATE, mode("Write")], "0.32.0", "spec.model.config.layers",
        ["in Read mode only", "set spec.connector.mode to Read"],
    ),
    (
        [SLIDING, mode("Write")], "0.33.0", "spec.model.config.layers",
        ["SlidingWindow in Write mode", "set spec.connector.mode to Read", HYBRID],
    ),
    (
        [SLIDING, args("prefill", HYBRID)], "0.33.0", "spec.decode.args",
        [HYBRID, "in spec.prefill.args and not in spec.decode.args", "to both or to neither"],
    ),
    (
        [SLIDING, args("decode", HYBRID)], "0.33.0", "spec.prefill.args",
        ["in spec.decode.args and not in spec.prefill.args"],
    ),
    (
        [STATE, {"decode": {"env": []}}], "0.33.0", "spec.decode.env",
        ["VLLM_SSM_CONV_STATE_LAYOUT is not set and must be DS", "add it with the value DS"],
    ),
    (
        [STATE, env("prefill", "VLLM_SSM_CONV_STATE_LAYOUT", "SD")], "0.31.0", "spec.prefill.env",
        ["VLLM_SSM_CONV_STATE_LAYOUT is SD and must be DS"],
    ),
    (
        [args("decode", "--spec-method", "ngram")], "0.30.0", "spec.decode.args",
        ["speculative decoding (ngram) does not work in Read mode of vLLM 0.30.0", "0.31.0"],
    ),
    (
        [mode("Write"), args("prefill", "--speculative-config={}")], "0.31.0", "spec.prefill.args",
        ["speculative decoding does not work in Write mode of vLLM 0.31.0", "remove it"],
    ),
    (
        [STATE, args("decode", "--spec-method", "dspark")], "0.31.0", "spec.decode.args",
        ["speculative decoding (dspark)", "no speculative decoding before vLLM 0.32", "remove it"],
    ),
    (
        [STATE, args("decode", '--speculative-config={"method":"eagle"}')], "0.33.0",
        "spec.decode.args", ["speculative decoding (eagle)", "goes with the method dspark only"],
    ),
    (
        [args("decode", "--enable-prefix-caching")], "0.30.0", "spec.decode.args",
        ["--enable-prefix-caching does not work in Read mode of vLLM 0.30.0", "vLLM 0.31.0 or"],
    ),
    (
        [args("decode", "--enable_sleep_mode")], "0.33.0", "spec.decode.args",
        ["vLLM 0.33.0 refuses --enable-sleep-mode beside a KV connector", "remove it"],
    ),
    (
        [args("prefill", "--enable-return-routed-experts")], "0.23.0", "spec.prefill.args",
        ["refuses --enable-return-routed-experts"],
    ),
    (
        [args("prefill", "--use-replayssm")], "0.27.1", "spec.prefill.args",
        ["refuses --use-replayssm"],
    ),
    (
        [env("decode", "PYTORCH_CUDA_ALLOC_CONF", "a:1,expandable_segments:True")], "0.33.0",
        "spec.decode.env", ["PYTORCH_CUDA_ALLOC_CONF holds expandable_segments:True", "remove it"],
    ),
    (
        [args("prefill", "--block-size", "64"), args("decode", "--block-size=32")], "0.33.0",
        "spec.decode.args",
        ["--block-size is 64 in spec.prefill.args and 32 in spec.decode.args", "both roles"],
    ),
    (
        [args("prefill", "--kv-cache-dtype", "fp8")], "0.33.0", "spec.decode.args",
        ["--kv-cache-dtype is fp8 in spec.prefill.args and none in spec.decode.args"],
    ),
    (
        [args("decode", "--dtype", "float32")], "0.33.0", "spec.decode.args",
        ["--dtype is none in spec.prefill.args and float32 in spec.decode.args"],
    ),
    (
        [args("decode", "--attention-backend", "TRITON_ATTN")], "0.33.0", "spec.decode.args",
        ["--attention-backend is none in spec.prefill.args and TRITON_ATTN"],
    ),
    (
        [STATE, args("decode", "--mamba-cache-mode", "align")], "0.33.0", "spec.decode.args",
        ["--mamba-cache-mode is none in spec.prefill.args and align"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "version", "path", "fragments"), REFUSED)
def test_what_cannot_work_is_refused_with_its_remedy(
    changes: list[Json], version: str, path: str, fragments: list[str]
) -> None:
    [problem] = assessed(*changes, version=version).problems
    assert (problem.reason, problem.path) == ("OutsideContract", path)
    assert [fragment for fragment in fragments if fragment not in problem.text] == []


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ([xgmi()], "0.23.0"),
        ([xgmi("0,1", "1,0")], "0.33.0"),
        ([xgmi(), tensors(4, 2)], "0.33.0"),
        ([MOE, {"prefill": {"parallelism": {"dataLocal": 2}}}], "0.28.0"),
        ([MOE, mode("Write"), {"prefill": {"parallelism": {"dataLocal": 2}}}], "0.27.1"),
        ([MOE, {"decode": {"parallelism": {"dataLocal": 2, "expert": "Enabled"}}}], "0.23.0"),
        ([mode("Write")], "0.23.0"),
        ([tensors(4, 2)], "0.25.1"),
        ([mode("Write"), tensors(4, 2)], "0.33.0"),
        ([mode("Write"), tensors(2, 16, attention="GQA", kvHeads=8)], "0.33.0"),
        ([STATE], "0.31.0"),
        ([STATE, mode("Write"), tensors(4, 2)], "0.33.0"),
        ([SLIDING, mode("Write")], "0.29.0"),
        ([SLIDING], "0.30.0"),
        ([SLIDING, mode("Write"), args("prefill", HYBRID), args("decode", HYBRID)], "0.33.0"),
        ([args("prefill", HYBRID)], "0.33.0"),
        ([args("decode", "--enable-prefix-caching")], "0.31.0"),
        ([args("prefill", "--enable-prefix-caching")], "0.30.0"),
        ([args("decode", "--no-enable-prefix-caching")], "0.30.0"),
        ([args("decode", "--enable-sleep-mode")], "0.32.0"),
        ([args("decode", "--no-enable-sleep-mode")], "0.33.0"),
        ([env("decode", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False")], "0.33.0"),
        (
            [
                env("decode", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
                args("decode", "--enable-cumem-allocator"),
            ],
            "0.33.0",
        ),
        ([args("prefill", "--kv-cache-dtype", "auto")], "0.33.0"),
        ([args("prefill", "--block-size=32"), args("decode", "--block_size", "32")], "0.33.0"),
        ([args("prefill", "--max-model-len", "4096")], "0.33.0"),
        ([args("decode", "--mamba-cache-mode", "align")], "0.33.0"),
        ([STATE, args("decode", "--spec-method", "dspark")], "0.33.0"),
    ],
)
def test_what_works_is_not_refused(changes: list[Json], version: str) -> None:
    assert told(*changes, version=version) == ""


def test_xgmi_is_refused_before_it_came() -> None:
    text = told(xgmi(), version="0.21.0")
    assert "spec.connector.backend: XGMI needs vLLM 0.22.0 or newer" in text
    assert "the image has 0.21.0: use RDMA" in text
    assert "spec.connector.backend" not in told(xgmi(), version="0.22.0")


@pytest.mark.parametrize(
    ("flag", "prefill", "decode"),
    [("--dtype", "half", "float16"), ("--kv-cache-dtype", "fp8_e4m3", "FP8")],
)
def test_spellings_of_one_value_agree(flag: str, prefill: str, decode: str) -> None:
    assert told(args("prefill", flag, prefill), args("decode", f"{flag}={decode}")) == ""


def test_with_xgmi_null_may_not_take_the_affinity_away() -> None:
    text = told(xgmi(), {"prefill": {"podTemplate": {"spec": {"affinity": None}}}})
    assert "spec.prefill.podTemplate.spec.affinity.podAffinity: with XGMI" in text


def test_a_tag_that_may_be_somebodys_own_count_has_a_way_out() -> None:
    [problem] = assess(spec({"engine": {"image": "me/vllm:0.1.5"}})).problems
    assert str(problem).startswith("spec.engine.image: vLLM 0.1.5 is older than 0.20.0")
    assert str(problem).endswith("or state vLLM's version in spec.engine.version")


def test_with_xgmi_a_pod_template_may_not_move_engines_apart() -> None:
    apart: Json = {"spec": {"affinity": {"podAffinity": {}}}}
    text = told(xgmi(), {"decode": {"podTemplate": apart}})
    assert "spec.decode.podTemplate.spec.affinity.podAffinity: with XGMI the operator keeps" in text
    assert told({"decode": {"podTemplate": apart}}) == ""


def test_memory_that_moves_is_refused_since_vllm_refuses_it() -> None:
    moves = env("decode", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    assert "spec.decode.env" in told(moves, version="0.21.0")
    assert "spec.decode.env" not in told(moves, version="0.20.2")


def test_a_kda_model_may_replay_its_states_while_it_speculates() -> None:
    kda = laid_over(STATE, {"model": {"config": {"layers": ["FullAttention", "LinearAttention"]}}})
    replays = args("decode", "--use-replayssm", "--spec-method", "dspark")
    assert told(kda, replays) == ""
    assert "--use-replayssm" in told(kda, args("decode", "--use-replayssm"))


def test_a_variable_of_the_pod_template_counts() -> None:
    container = {
        "name": "engine",
        "env": [{"name": "VLLM_SSM_CONV_STATE_LAYOUT", "value": "DS"}],
    }
    template = {"podTemplate": {"spec": {"containers": [container]}}, "env": []}
    assert told(STATE, {"decode": template}) == ""


def test_all_problems_are_told_at_once() -> None:
    found = assessed(
        mode("Write"), tensors(4, 2), SLIDING, args("decode", "--dtype=float32"), version="0.32.0"
    )
    assert [problem.path for problem in found.problems] == [
        "spec.decode.parallelism.tensor",
        "spec.model.config.layers",
        "spec.decode.args",
    ]


@pytest.mark.parametrize(
    ("change", "notes"),
    [
        ({}, ["spec.model.config.layers is not stated: whether vLLM can carry them"]),
        (
            {"prefill": {"parallelism": {"dataLocal": 2}}},
            [
                "spec.model.config.layers is not stated",
                "spec.model.config.architecture is not stated: whether "
                "spec.prefill.parallelism.dataLocal 2 fits the model is not checked",
            ],
        ),
        (
            {"decode": {"parallelism": {"expert": "Enabled"}}},
            [
                "spec.model.config.layers is not stated",
                "spec.model.config.architecture is not stated: whether the model has experts for "
                "spec.decode.parallelism.expert is not checked",
            ],
        ),
        (
            tensors(8, 4, attention="GQA"),
            [
                "spec.model.config.layers is not stated",
                "spec.model.config.kvHeads is not stated: whether tensor 8 and 4 fit together is "
                "not checked",
            ],
        ),
        (
            tensors(8, 4),
            [
                "spec.model.config.layers is not stated",
                "spec.model.config.attention and spec.model.config.kvHeads are not stated",
            ],
        ),
        (
            args("decode", "--spec-method=ngram"),
            [
                "spec.model.config.layers is not stated",
                "speculative decoding is asked for in spec.decode.args alone",
            ],
        ),
        (
            xgmi(),
            [
                "spec.model.config.layers is not stated",
                "spec.<role>.devices.gpu.visibleDevices is not stated",
            ],
        ),
        (
            laid_over(xgmi("0,1,2", "2,1,0"), {"prefill": {"parallelism": {"dataLocal": 2}}}),
            [
                "spec.model.config.layers is not stated",
                "spec.model.config.architecture is not stated",
                "spec.prefill.parallelism.dataLocal is 2: whether each rank can open XGMI sessions",
            ],
        ),
    ],
)
def test_what_nobody_stated_is_named(change: Json, notes: list[str]) -> None:
    found = assess(spec(change)).unchecked
    assert len(found) == len(notes)
    assert all(note in text for note, text in zip(notes, found, strict=True))


def test_the_larger_sample_is_within_the_contract() -> None:
    equal = {"decode": {"parallelism": {"tensor": 2}}}
    assert assess(spec(equal, FULL)).problems == ()


ARGUMENTS = st.lists(
    st.sampled_from(
        [
            HYBRID,
            "--block-size=32",
            "--enable-prefix-caching",
            "--enable-sleep-mode",
            "--spec-method",
            "--speculative-config",
            "--use-replayssm",
            "{",
            "{}",
            '{"method": 1}',
        ]
    )
    | st.text(min_size=1),
    max_size=4,
)
ROLES = st.fixed_dictionaries(
    {
        "parallelism": st.sampled_from(
            [{"tensor": 1}, {"tensor": 3}, {"tensor": 8}, {"dataLocal": 4, "expert": "Enabled"}]
        ),
        "args": ARGUMENTS,
        "podTemplate": st.none()
        | st.dictionaries(
            st.just("spec"),
            st.none() | st.lists(st.none()) | st.dictionaries(st.just("containers"), st.none()),
        ),
    }
)
SPECS = st.fixed_dictionaries(
    {
        "engine": st.fixed_dictionaries(
            {
                "image": st.sampled_from(["vllm", "vllm:latest", "vllm:v0.1.0"])
                | st.sampled_from(KNOWN).map("vllm:v{}".format)
            }
        ),
        "connector": st.fixed_dictionaries(
            {"mode": st.sampled_from(Mode), "backend": st.sampled_from(["RDMA", "XGMI"])}
        ),
        "prefill": ROLES,
        "decode": ROLES,
        "model": st.fixed_dictionaries(
            {
                "config": st.fixed_dictionaries(
                    {
                        "architecture": st.none() | st.sampled_from(Architecture),
                        "attention": st.none() | st.sampled_from(Attention),
                        "kvHeads": st.none() | st.integers(1, 128),
                        "layers": st.none()
                        | st.lists(st.sampled_from(Layer), min_size=1, unique=True),
                    }
                )
            }
        ),
    }
)


@given(SPECS)
def test_every_spec_can_be_assessed_and_is_assessed_alike(change: Json) -> None:
    made = spec(change)
    found = assess(made)
    assert found == assess(made)
    assert all(problem.path.startswith("spec.") and problem.text for problem in found.problems)
    assert len(set(found.problems)) == len(found.problems)


@given(SPECS)
def test_facts_that_are_stated_are_not_said_to_be_missing(change: Json) -> None:
    for note in assess(spec(change)).unchecked:
        for name, value in change["model"]["config"].items():
            assert value is None or f"facts.{name} is not stated" not in note
