"""The check of an installation: what it requests, and what it prints for each answer."""

from __future__ import annotations

import pytest
from moriio_operator.api.deployment import Spec
from moriio_operator.runtime import install_check

from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, Stream, error, serving

# A connection that ends before its answer.
_BROKEN = Stream([], "breaks")


async def tried(*answers: Answer | Stream) -> tuple[int, ScriptedApi]:
    api = ScriptedApi()
    api.add(*answers)
    async with serving(api) as kube:
        return await install_check.attempt(kube, "moriio-system", pause_s=0), api


async def test_it_stores_nothing_and_lets_the_server_check_everything() -> None:
    _, api = await tried(Answer({}, 201))
    (call,) = api.calls
    assert call.path == "/apis/moriio.dev/v1alpha1/namespaces/moriio-system/pddeployments"
    assert (call.query["dryRun"], call.query["fieldValidation"]) == ("All", "Strict")
    assert call.body == install_check.manifest("moriio-system")


def test_what_it_asks_for_is_a_pddeployment() -> None:
    made: Json = install_check.manifest("moriio-system")
    assert Spec.model_validate(made["spec"]).model.name == "org/model"
    assert "name" not in made["metadata"], "a user's object of that name would fail the check"


async def test_a_server_that_takes_it_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = await tried(Answer({}, 201))
    assert code == 0
    shown = capsys.readouterr()
    assert shown.out == "the API server takes a PDDeployment in namespace moriio-system\n"
    assert shown.err == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error(404, "NotFound"), "pddeployments.moriio.dev is missing: set crds.install to true"),
        (error(403, "Forbidden", "quota"), "an admission policy or a quota of the cluster"),
        (
            error(
                422, "Invalid", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
            ),
            "an admission policy or a quota",
        ),
        (
            error(400, "Unknown", 'admission webhook "w" denied the request: no'),
            "an admission policy or a quota",
        ),
        (error(422, "Invalid", "spec.x"), "not of this operator's version: apply the newer one"),
        (error(400, "BadRequest", "spec.y"), "not of this operator's version"),
        (error(500, "InternalError", "webhook"), "it, or an admission webhook, is in trouble"),
    ],
)
async def test_a_refusal_is_told_with_its_remedy_and_in_the_servers_words(
    answer: Answer, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, api = await tried(answer)
    assert (code, len(api.calls)) == (1, 1)
    shown = capsys.readouterr().err
    assert told in shown
    assert f"the API server: {answer.status} {answer.body['reason']}" in shown


async def test_a_server_that_does_not_answer_is_asked_again_and_then_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, api = await tried(*(5 * [_BROKEN]))
    assert (code, len(api.calls)) == (1, 5)
    assert "does not answer: look for a NetworkPolicy" in capsys.readouterr().err


async def test_a_network_that_comes_late_is_waited_for() -> None:
    code, api = await tried(_BROKEN, _BROKEN, Answer({}, 201))
    assert (code, len(api.calls)) == (0, 3)


@pytest.mark.parametrize("environment", [{}, {"POD_NAMESPACE": ""}])
def test_outside_of_a_pod_it_says_how_it_is_meant(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert install_check.run(environment) == 2
    assert "by `helm test`" in capsys.readouterr().err
