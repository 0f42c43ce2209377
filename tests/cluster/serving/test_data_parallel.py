"""Data parallel ranks with real engines: each has ports of its own, and any pulls from any.

A model of experts over two ranks an engine, expert parallelism among them; the router chooses a
rank on either side for every request. The tests stand in the order of the deployment's life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from moriio_operator.facts.terms import ROLES
from stage import alone
from stage.deployments import EXPERTS, experts
from stage.handshake import handshake
from stage.service import Service, blocks, ports
from stage.traffic import (
    PROMPTS,
    Answer,
    PromptTokens,
    complete,
    prompt_tokens_by_rank,
    router_address,
)

pytestmark = pytest.mark.load(3)

RANKS = 2
# By chance all of them leave out a rank once in four million runs.
MORE = 8
ASKED = (*PROMPTS, *PROMPTS[:MORE])


@pytest.fixture(scope="module")
def home(new_namespace: Callable[[], str]) -> str:
    """The namespace of all of it."""
    return new_namespace()


@pytest.fixture(scope="module")
def of_one_rank(operator: Bed, home: str) -> list[Answer]:
    """What the model says when one rank serves it alone."""
    found = alone.answers(operator, home, EXPERTS)
    assert len({answer.text for answer in found}) == len(PROMPTS)
    return found


@pytest.fixture(scope="module", params=["Read", "Write"])
def service(
    request: pytest.FixtureRequest, operator: Bed, home: str, of_one_rank: list[Answer]
) -> Iterator[Service]:
    """One prefill and one decode engine of two ranks each, on different nodes, serving."""
    assert of_one_rank, "asked before, as this machine has no room for both"
    manifest = experts(home, f"experts-{request.param.lower()}", request.param)
    manifest["spec"]["router"]["policy"] = "Random"
    made = Service.apply(operator, manifest)
    made.wait_settled()
    yield made
    made.delete_and_wait()


@pytest.fixture
def namespace(home: str) -> str:
    """The namespace that a failing test reports on."""
    return home


@pytest.mark.usefixtures("namespace")
def test_each_data_parallel_rank_has_a_handshake_and_a_notify_port(service: Service) -> None:
    for pod in service.pods():
        (block,) = blocks([pod])
        named = ports(pod)
        assert [named["handshake"], named["handshake-1"]] == [block.start + 2, block.start + 3]
        assert [named["notify"], named["notify-1"]] == [block.start + 4, block.start + 5]
        told = handshake(pod)
        assert len({rank.descriptors for rank in told}) == RANKS


def of_ranks(service: Service, role: str) -> list[PromptTokens]:
    """Read where the ranks of the one engine of a role had their prompt tokens from."""
    (pod,) = service.pods(role)
    counted = prompt_tokens_by_rank(pod)
    return [counted[rank] for rank in range(RANKS)]


@pytest.mark.usefixtures("namespace")
def test_every_rank_takes_part_and_the_tokens_are_right(
    service: Service, of_one_rank: list[Answer]
) -> None:
    before: dict[str, list[PromptTokens]] = {role: of_ranks(service, role) for role in ROLES}
    answers = [complete(router_address(service), prompt) for prompt in ASKED]
    assert [a.text for a in answers] == [e.text for e in (*of_one_rank, *of_one_rank[:MORE])]

    def gained(role: str) -> list[PromptTokens]:
        return [now - was for now, was in zip(of_ranks(service, role), before[role], strict=True)]

    def all_counted(role: str) -> bool:
        return PromptTokens.summed(gained(role)).all == sum(a.prompt_tokens for a in answers)

    for role in ROLES:
        # vLLM counts a moment after it has answered.
        wait_until(partial(all_counted, role), timeout_s=30, what=f"{role} to count every token")
    assert all(rank.local_compute for rank in gained("prefill")), "a rank computed nothing"
    assert all(rank.external_kv_transfer for rank in gained("decode")), "a rank pulled nothing"
    # Decode computes the last token of a prompt, at most; all others came over.
    assert PromptTokens.summed(gained("decode")).local_compute <= len(answers)


# Found by its title; the image has no tool for that.
_KILL_A_RANK = """
import contextlib, os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(OSError):
        if (process / "cmdline").read_bytes().startswith(b"VLLM::EngineCore_DP1"):
            os.kill(int(process.name), signal.SIGKILL)
            print("killed")
"""


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("service", ["Read"], indirect=True)
def test_an_engine_that_lost_a_rank_is_replaced_whole(
    service: Service, of_one_rank: list[Answer]
) -> None:
    (victim,) = service.pods("prefill")
    name = victim["metadata"]["name"]
    where = ("-n", service.namespace, "exec", name, "-c", "engine", "--", "python3", "-c")
    assert service.bed.kubectl(*where, _KILL_A_RANK) == "killed\n"

    service.wait_successor(victim)
    service.wait_settled()
    (block,), (old,) = blocks(service.pods("prefill")), blocks([victim])
    assert not set(block) & set(old)
    answers = [complete(router_address(service), prompt) for prompt in PROMPTS[:MORE]]
    assert [a.text for a in answers] == [e.text for e in of_one_rank[:MORE]]
