"""Plays a deployment to rest, and tells what happened to engines, pass by pass.

A pass is written as what it created and deleted: `+prefill-0`, `-decode-4`. Between two passes the
cluster does its part: what was created becomes ready, what was deleted goes.
"""

from __future__ import annotations

from unit.played import Operator

MOST_PASSES = 20


async def played(operator: Operator) -> list[str]:
    """Play until nothing is written any more; give what each pass did to engines."""
    story = []
    for _ in range(MOST_PASSES):
        before = len(operator.kube.writes)
        await operator.step()
        written = operator.kube.writes[before:]
        if done := " ".join(filter(None, map(_engine, written))):
            story.append(done)
        changed = _kubelets(operator)
        if not written and not changed:
            return story
    raise AssertionError(f"not at rest: {story[-3:]}")


def _kubelets(operator: Operator) -> bool:
    before = dict(operator.kube.objects)
    operator.kubelets()
    return before != operator.kube.objects


def _engine(write: str) -> str:
    verb, kind, name = write.split()
    if kind != "Pod":
        return ""
    return ("+" if verb == "create" else "-") + name.removeprefix("llm-")
