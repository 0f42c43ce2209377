"""What a person would look at first when a test failed in a namespace.

Conditions of the namespace's PDDeployments, its pods and why they do not run, its events in the
order of time, and the last lines of every container, also of the run before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bed.client import Client
from bed.errors import BedError

_LOG_LINES = "40"
_RESOURCE = "pddeployments.moriio.dev"

Object = dict[str, Any]


def conditions(deployment: Object) -> list[str]:
    """Return one line a condition of a custom resource."""
    name = deployment["metadata"]["name"]
    return [
        f"{name}: {c.get('type')}={c.get('status')} {c.get('reason', '')}: {c.get('message', '')}"
        for c in deployment.get("status", {}).get("conditions", [])
    ] or [f"{name}: no conditions"]


def _state(status: Object) -> str:
    for kind, detail in status.get("state", {}).items():
        told = [str(detail[key]) for key in ("reason", "exitCode", "message") if key in detail]
        return " ".join([kind, *told])
    return "unknown"


def pod(pod_object: Object) -> list[str]:
    """Return a pod's place and phase, its unfulfilled conditions and its containers' states."""
    metadata, status = pod_object["metadata"], pod_object.get("status", {})
    node = pod_object.get("spec", {}).get("nodeName", "no node")
    leaving = ", being deleted" if "deletionTimestamp" in metadata else ""
    lines = [f"{metadata['name']}: {status.get('phase')} on {node}{leaving}"]
    for condition in status.get("conditions", []):
        if condition["status"] != "True":
            why = f"{condition.get('reason', '')} {condition.get('message', '')}"
            lines.append(f"  not {condition['type']}: {why}")
    for container in _container_statuses(pod_object):
        ready = "ready" if container.get("ready") else "not ready"
        restarts = container.get("restartCount", 0)
        lines.append(f"  {container['name']}: {ready}, {_state(container)}, {restarts} restarts")
    return lines


def event(event_object: Object) -> str:
    """Return an event as one line."""
    about = event_object.get("involvedObject", {})
    when = event_object.get("lastTimestamp") or event_object.get("eventTime") or "-"
    count = event_object.get("count") or 1
    head = f"{when} {event_object.get('type')} {about.get('kind')}/{about.get('name')}"
    return f"{head} {event_object.get('reason')} (x{count}): {event_object.get('message')}"


def _container_statuses(pod_object: Object) -> list[Object]:
    status = pod_object.get("status", {})
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def report(client: Client, namespace: str) -> str:
    """Return all of it as text. What cannot be had does not keep the rest from being told."""
    pods = _items(client, namespace, "pods")
    sections = {
        "PDDeployments": [
            line for d in _items(client, namespace, _RESOURCE) for line in conditions(d)
        ],
        "Pods": [line for p in pods for line in pod(p)],
        "Events": sorted(event(e) for e in _items(client, namespace, "events")),
        "Logs": list(_logs(client, namespace, pods)),
    }
    return "\n".join(
        f"--- {title} of {namespace}\n" + ("\n".join(lines) or "(none)")
        for title, lines in sections.items()
    )


def _items(client: Client, namespace: str, kind: str) -> list[Object]:
    try:
        listed: list[Object] = client.kubectl_json("-n", namespace, "get", kind)["items"]
    except BedError:
        return []  # the kind is not installed, or the API server is what the test killed
    return listed


def _logs(client: Client, namespace: str, pods: Sequence[Object]) -> Iterator[str]:
    for pod_object in pods:
        name = pod_object["metadata"]["name"]
        for container in _container_statuses(pod_object):
            before = [(" (run before)", ["--previous"])] * bool(container.get("restartCount"))
            for which, flags in [*before, ("", [])]:
                yield f"{name}/{container['name']}{which}:"
                argv = ["logs", name, "-c", container["name"], f"--tail={_LOG_LINES}", *flags]
                try:
                    yield client.kubectl("-n", namespace, *argv).rstrip() or "  (nothing)"
                except BedError as error:
                    yield f"  no log: {error}"
