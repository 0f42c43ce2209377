"""What was rendered stays: templates are kept whole, and make the same pods under any operator."""

from __future__ import annotations

import copy

import pytest
from moriio_operator import __version__
from moriio_operator.build import revision_template
from moriio_operator.build.engine_pod import block_size, engine_pod_of, port_names
from moriio_operator.build.engine_template import engine_template
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.stack.vllm_moriio import ports

from unit.samples import FULL, IMAGE, INSTALLATION, MINIMAL, REVISION, Json, owner

BOTH = pytest.mark.parametrize("base", [MINIMAL, FULL], ids=["minimal", "full"])


@BOTH
def test_templates_are_read_back_as_they_were_rendered(base: Json) -> None:
    whose = owner({}, base=base)
    for made in (
        revision_template.render_engines(whose, REVISION, IMAGE),
        revision_template.render_router(whose, REVISION, INSTALLATION.registrar_image),
    ):
        assert revision_template.read(revision_template.controller_revision(whose, made)) == made
        assert (made.revision, made.rendered_by) == (REVISION, __version__)


@BOTH
def test_engines_and_routers_are_told_apart(base: Json) -> None:
    whose = owner({}, base=base)
    assert not revision_template.render_engines(whose, REVISION, IMAGE).of_router
    assert revision_template.render_router(whose, REVISION, "registrar:1").of_router


@pytest.mark.parametrize("ranks", [1, 2, 16])
def test_a_template_tells_how_its_block_is_laid_out(ranks: int) -> None:
    whose = owner({"decode": {"parallelism": {"tensor": ranks}}})
    template = engine_template(whose, Role.DECODE, REVISION, IMAGE)
    assert block_size(template) == len(ports.layout(ranks))
    assert port_names(template) == list(ports.layout(ranks))


@BOTH
@pytest.mark.parametrize("role", ROLES)
def test_an_incarnation_has_its_own_name_ports_and_arguments_and_nothing_else(
    base: Json, role: Role
) -> None:
    whose = owner({}, base=base)
    template = engine_template(whose, role, REVISION, IMAGE)
    before = copy.deepcopy(template)
    one, other = (engine_pod_of(whose, f"llm-{role}-{n}", template, 20_000 + n) for n in (0, 100))
    assert template == before
    for pod in (one, other):
        engine = pod["spec"]["containers"][0]
        assert "$(PORT" not in str(engine["args"])
        del pod["metadata"]["name"], engine["args"], engine["ports"]
        del pod["metadata"]["annotations"]["moriio.dev/ports"]
    assert one == other


def test_a_layout_of_another_version_is_kept() -> None:
    # One with a port more, as a later operator may have, and a host port beside each.
    template = engine_template(owner(), Role.DECODE, REVISION, IMAGE)
    engine = template["spec"]["containers"][0]
    engine["ports"].append({"name": "later", "containerPort": 5, "protocol": "TCP"})
    for port in engine["ports"]:
        port["hostPort"] = port["containerPort"]
    engine["args"].append("--later-port=$(PORT_LATER)")
    made = engine_pod_of(owner(), "llm-decode-0", template, 20_000)["spec"]["containers"][0]
    assert block_size(template) == 5
    assert [port["containerPort"] for port in made["ports"]] == list(range(20_000, 20_005))
    assert [port["hostPort"] for port in made["ports"]] == list(range(20_000, 20_005))
    assert made["args"][-1] == "--later-port=20004"


@BOTH
def test_the_block_is_written_on_the_pod_and_not_in_the_template(base: Json) -> None:
    template = engine_template(owner({}, base=base), Role.PREFILL, REVISION, IMAGE)
    assert "moriio.dev/ports" not in str(template)
    made = engine_pod_of(owner({}, base=base), "llm-prefill-0", template, 20_010)
    last = 20_010 + block_size(template) - 1
    assert made["metadata"]["annotations"]["moriio.dev/ports"] == f"20010-{last}"
