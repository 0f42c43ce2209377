"""The engines of a PDDeployment, read from its pods.

A pod that does not read as an engine was taken aside, as Kubernetes has it for pods of any
controller: it is left alone, and another takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from moriio_operator.api.status import Status
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine, from_pod, of_no_revision
from moriio_operator.stack.stack import Stack


def read_engines(
    pods: Iterable[Object], status: Status, known: Collection[str], asked: str, stack: Stack
) -> list[Engine]:
    """Give the engines.

    `known` are the revisions of which templates are stored, `asked` is the one that the spec asks
    for. An engine of any other revision has an edited label, unless the status recorded it so: then
    the templates of its revision were lost. `stack` knows what their last words stand for.
    """
    recorded = {engine.pod: engine.revision for engine in status.engines}
    found = []
    for engine in (from_pod(pod, stack) for pod in pods):
        if engine is None:
            continue
        if engine.revision in (asked, *known, recorded.get(engine.pod)):
            found.append(engine)
        else:
            found.append(of_no_revision(engine, recorded.get(engine.pod, asked)))
    return found
