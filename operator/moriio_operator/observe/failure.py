"""Why an engine ended, or why it does not start: read from the status of its pod."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.reasons import (
    CONTAINER_FAILURES,
    PULL_FAILURES,
    UNSCHEDULABLE,
    Reason,
)
from moriio_operator.api.status import EngineState
from moriio_operator.stack.stack import Stack

# A container that waits for these reasons will not start without somebody's help.
_STUCK = frozenset({*PULL_FAILURES, *CONTAINER_FAILURES})
# Words that say no more than that a container ended; its log may tell what of.
_UNEXPLAINED = frozenset({"Completed", Reason.ENDED, "Error"})
# The scheduler's words, and the reason and words of a kubelet that refuses a pod.
_NO_FREE_PORTS, _NODE_PORTS = "didn't have free ports", "NodePorts"
_OURS = (names.CONTAINER_ENGINE, names.CONTAINER_PREFLIGHT)
_MESSAGE_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an engine ended, or why it does not start."""

    reason: str
    message: str


def failure_of(status: dict[str, Any], state: EngineState, stack: Stack) -> Failure | None:
    """Find out what is wrong with an engine; None when nothing is known to be."""
    if state is EngineState.ENDED:
        end, ended = _end(status), ended_container(status)
        # What a user's sidecar says on its way out is none of the engine's words.
        if ended is not None and ended["name"] not in _OURS:
            return end
        known = recognised(end, stack)
        # The preflight is ours, and says by its exit code what no stack need know.
        taken = known is end and ended is not None and _ports_taken(ended)
        return Failure(Reason.PORT_IN_USE, end.message) if taken else known
    if state is EngineState.READY:
        return None
    for container in _containers(status):
        found = _container_failure(container)
        if found is not None:
            return found
    address = status.get("podIP") or ""
    if ":" in address:
        text = (
            f"its address {address} is IPv6, and MORI takes IPv4 alone: use nodes and a pod "
            "network whose first address is IPv4"
        )
        return Failure(Reason.ADDRESS_NOT_IPV4, text)
    return _unscheduled(status)


def _ports_taken(ended: dict[str, Any]) -> bool:
    if ended["name"] != names.CONTAINER_PREFLIGHT:
        return False
    return bool(ended["state"]["terminated"].get("exitCode") == errno.EADDRINUSE)


def misses_ports(pod: dict[str, Any]) -> Failure | None:
    """Tell of an engine that no node takes because others hold its ports there; waiting is vain.

    A port of a container that a webhook added may be what is missing: no other block helps then.
    """
    for container in pod["spec"]["containers"]:
        shared = any("hostPort" in port for port in container.get("ports") or [])
        if shared and container["name"] != names.CONTAINER_ENGINE:
            return None
    found = _unscheduled(pod.get("status") or {})
    if found is None or _NO_FREE_PORTS not in found.message:
        return None
    return Failure(Reason.HOST_PORT_TAKEN, found.message)


def recognised(failure: Failure, stack: Stack) -> Failure:
    """Name what the termination message of an engine stands for, with its remedy."""
    if failure.reason == _NODE_PORTS:
        return Failure(Reason.HOST_PORT_TAKEN, failure.message)
    signature = stack.recognise(failure.message) if failure.reason in _UNEXPLAINED else None
    if signature is None:
        return failure
    return Failure(signature.reason, f"{signature.remedy}; {failure.message}")


def with_log(failure: Failure, log: str, stack: Stack | None) -> Failure:
    """Add the end of a log to what is known; without a stack it is the log of somebody else."""
    known = Failure(failure.reason, f"{failure.message}; its log ends: {tail(log)}")
    return known if stack is None else recognised(known, stack)


def silent_container(status: dict[str, Any]) -> str | None:
    """Name the container that ended without a message.

    vLLM exits with 0 when its engine core dies, and the kubelet keeps the log's end of failures
    only.
    """
    container = ended_container(status)
    if container is None or container["state"]["terminated"].get("message"):
        return None
    return str(container["name"])


def ended_container(status: dict[str, Any]) -> dict[str, Any] | None:
    """Find a container that ended, the engine first: none starts again, so the pod is at its end.

    The pod's phase does not tell: while another container lives it stays Running.
    """
    ended = [
        container
        for container in status.get("containerStatuses") or []
        if "terminated" in (container.get("state") or {})
    ]
    if status.get("phase") == "Failed":
        # An init container that fails takes the pod with it; a sidecar that does comes back.
        ended += [
            container
            for container in status.get("initContainerStatuses") or []
            if ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        ]
    ended.sort(key=lambda container: container["name"] != names.CONTAINER_ENGINE)
    return ended[0] if ended else None


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """Find a condition of a pod; empty if it has none of that type."""
    for found in status.get("conditions") or []:
        if found["type"] == kind:
            return dict(found)
    return {}


def tail(text: str) -> str:
    """Keep the end of a long text, where programs say why they stop."""
    text = text.strip()
    return text if len(text) <= _MESSAGE_LENGTH else "..." + text[-_MESSAGE_LENGTH:]


def _containers(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _unscheduled(status: dict[str, Any]) -> Failure | None:
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    reason = scheduled.get("reason", UNSCHEDULABLE)
    return Failure(reason, tail(scheduled.get("message", "")))


def _container_failure(container: dict[str, Any]) -> Failure | None:
    """Find out why a container does not start."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in _STUCK:
        return None
    return Failure(waiting["reason"], _of(container) + tail(waiting.get("message", "")))


def _of(container: dict[str, Any]) -> str:
    """Name the container, unless it is the one that everybody expects."""
    name = container["name"]
    return "" if name == names.CONTAINER_ENGINE else f"container {name}: "


def _end(status: dict[str, Any]) -> Failure:
    container = ended_container(status)
    ended = container["state"]["terminated"] if container else None
    words = _of(container) + _words(ended) if container and ended else ""
    if status.get("reason"):
        # Evicted, or refused by the kubelet: the pod tells why, the container only how.
        parts = [tail(status.get("message") or ""), words]
        return Failure(status["reason"], "; ".join(filter(None, parts)))
    if ended is None:
        return Failure(Reason.ENDED, "")
    return Failure(ended.get("reason") or "Error", words)


def _words(ended: dict[str, Any]) -> str:
    last = tail(ended.get("message") or "")
    text = f"exit code {ended.get('exitCode')}"
    return f"{text}; its log ends: {last}" if last else text
