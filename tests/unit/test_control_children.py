"""Children are created, mended, given back their labels and pruned; a stranger's object is not."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable

import pytest
from moriio_operator.control.engine_pods import HELD_RETRY_S
from moriio_operator.control.reconcile import REFUSED_RETRY_S
from moriio_operator.kube.errors import ApiError, ConflictError, ForbiddenError, InvalidError
from moriio_operator.kube.objects import Object

from unit.memory_kube import CrashError, MemoryKube
from unit.passes import (
    WEBHOOK,
    dies,
    living,
    refuse,
    serving,
    told,
)
from unit.played import Operator
from unit.samples import (
    INSTALLATION,
    resource,
)


async def test_children_of_an_old_revision_are_pruned() -> None:
    operator = await serving()
    before = operator.status.revision or ""
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.settle()
    names = [name for _, name in operator.kube.objects]
    assert not [name for name in names if before in name]
    assert sum(1 for kind, _ in operator.kube.objects if kind == "Deployment") == 1


async def test_a_child_that_may_not_be_deleted_is_told_and_keeps_nothing_waiting() -> None:
    operator = await serving()
    operator.kube.refuse = refuse(
        "delete", "Deployment", ForbiddenError(403, "Forbidden", "protected")
    )
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.settle()
    assert len(operator.pods()) == 2
    assert operator.condition("Ready").status == "True"
    accepted = operator.condition("Accepted")
    assert (accepted.status, accepted.reason) == ("False", "ChildRefused")
    assert "the API server does not let go of Deployment llm-router-sgntrwxt" in accepted.message


async def test_a_webhook_that_does_not_answer_for_a_child_is_told_and_what_lives_is_healed() -> (
    None
):
    operator = await serving()
    operator.kube.remove("Service", "llm")
    operator.kube.refuse = refuse("create", "Service", WEBHOOK)
    dies(operator, "llm-decode-4")
    assert await operator.step() == REFUSED_RETRY_S
    assert told(operator) == ("False", "AdmissionFailed")
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]


@pytest.mark.parametrize("label", ["moriio.dev/revision", "moriio.dev/deployment"])
async def test_a_template_that_lost_a_label_is_given_it_back_and_kept_as_it_is(label: str) -> None:
    operator = await serving()
    kept = operator.kube.one("ControllerRevision", "llm-sgntrwxt")
    data = copy.deepcopy(kept["data"])
    del kept["metadata"]["labels"][label]
    for _ in range(2):
        with contextlib.suppress(ConflictError):
            await operator.step()
    assert operator.kube.one("ControllerRevision", "llm-sgntrwxt")["data"] == data
    assert label in operator.kube.one("ControllerRevision", "llm-sgntrwxt")["metadata"]["labels"]
    operator.kube.writes.clear()
    await operator.step()
    assert operator.kube.writes == []


async def test_a_service_that_a_stranger_holds_is_not_adopted() -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llm", "namespace": "team"},
        "spec": {"selector": {"app": "web"}},
    }
    operator = Operator(MemoryKube(resource(), stranger))
    assert await operator.step() == HELD_RETRY_S
    assert operator.kube.one("Service", "llm")["spec"] == {"selector": {"app": "web"}}
    accepted = operator.condition("Accepted")
    assert accepted.reason == "NameTaken"
    assert accepted.message == (
        "metadata.name: Service llm exists and does not belong to this PDDeployment: delete it, or "
        "give the PDDeployment another name"
    )


async def test_an_heirloom_of_the_same_name_is_waited_for() -> None:
    # Deleted and made again at once: the garbage collector has not come round yet.
    operator = await serving()
    again = resource()
    again["metadata"]["uid"] = "uid-of-the-second"
    operator.kube.put(again)
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("Accepted").message == (
        "metadata.name: ControllerRevision llm-sgntrwxt is still there from an earlier "
        "PDDeployment of this name: wait"
    )
    for kind, name in list(operator.kube.objects):
        if kind not in ("PDDeployment", "Pod", "Event"):
            operator.kube.remove(kind, name)
    await operator.settle()
    assert operator.condition("Ready").status == "True"


async def test_a_foreign_edit_of_a_child_is_undone() -> None:
    operator = await serving()
    service = operator.kube.one("Service", "llm")
    service["spec"]["selector"]["extra"] = "x"
    await operator.step()
    assert operator.kube.writes == ["apply Service llm"]
    assert "extra" not in operator.kube.one("Service", "llm")["spec"]["selector"]


async def test_a_child_that_vanished_comes_back() -> None:
    operator = await serving()
    operator.kube.remove("Service", "llm")
    await operator.step()
    assert operator.kube.writes == ["create Service llm"]


async def test_a_child_of_ours_that_lost_its_labels_is_taken_back() -> None:
    operator = await serving()
    operator.kube.one("Service", "llm")["metadata"]["labels"] = {}
    await operator.step()
    assert operator.kube.writes == ["apply Service llm"]
    assert operator.condition("Accepted").status == "True"


def immutable_role_refs(operator: Operator) -> Callable[[str, Object], ApiError | None]:
    """Refuse to apply another roleRef over a live one, as the API server does."""

    def refusal(verb: str, obj: Object) -> ApiError | None:
        live = operator.kube.objects.get((obj["kind"], obj["metadata"].get("name", "")))
        if verb != "apply" or live is None or live.get("roleRef") == obj.get("roleRef"):
            return None
        return InvalidError(422, "Invalid", "roleRef: cannot change roleRef")

    return refusal


async def test_a_binding_to_the_role_of_another_release_is_made_anew() -> None:
    # helm uninstall, and install under another name: roleRef is immutable.
    operator = await serving()
    (binding,) = operator.kube.of_kind("RoleBinding")
    name, uid = binding["metadata"]["name"], binding["metadata"]["uid"]
    wish = dict(binding["roleRef"])
    binding["roleRef"]["name"] = "other-registrar"
    operator.kube.refuse = immutable_role_refs(operator)
    await operator.step()
    assert operator.kube.writes == [f"delete RoleBinding {name}", f"create RoleBinding {name}"]
    (made,) = operator.kube.of_kind("RoleBinding")
    assert made["roleRef"] == wish
    assert made["metadata"]["uid"] != uid
    assert operator.condition("Accepted").status == "True"


async def test_a_binding_that_is_edited_elsewhere_is_mended_in_place() -> None:
    operator = await serving()
    (binding,) = operator.kube.of_kind("RoleBinding")
    name = binding["metadata"]["name"]
    binding["subjects"] = []
    await operator.step()
    assert operator.kube.writes == [f"apply RoleBinding {name}"]


@pytest.mark.parametrize("answered", [True, False], ids=["before", "after"])
async def test_a_crash_between_a_bindings_end_and_its_return_is_made_good(
    *, answered: bool
) -> None:
    operator = await serving()
    (binding,) = operator.kube.of_kind("RoleBinding")
    binding["roleRef"]["name"] = "other-registrar"
    operator.kube.refuse = immutable_role_refs(operator)
    operator.kube.crash_at(2, answered=answered)
    with pytest.raises(CrashError):
        await operator.step()
    await operator.settle()
    (made,) = operator.kube.of_kind("RoleBinding")
    assert made["roleRef"]["name"] == INSTALLATION.registrar_role
