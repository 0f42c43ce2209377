"""kopf as the source of events, and nothing else: every event only makes a key due.

No change handlers, timers, daemons or indices, hence no annotation and no finalizer on users'
objects. The one module that imports kopf.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable
from typing import Any, cast

import kopf

from moriio_operator.api import names
from moriio_operator.api.kinds import PDDEPLOYMENT, WATCHED
from moriio_operator.control.child_cache import ObservedVersion
from moriio_operator.control.queue import Key
from moriio_operator.kube import kinds
from moriio_operator.kube.client import WATCH_S
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.objects import controller

Enqueue = Callable[[Key], None]
# Called with a child's version; returns whether that is news.
Invalidate = Callable[[Key, ObservedVersion], bool]


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf keeps no last-seen copy for us: nobody asks it for differences."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """kopf keeps no handler progress for us: no handler of ours is retried."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.persistence.progress_storage = _NoProgress()
    settings.persistence.finalizer = f"{names.GROUP}/finalizer"
    settings.peering.standalone = True
    # Events are posted by our own client, on transitions.
    settings.posting.enabled = False
    # Discovery of kinds at run time would need rights on CRDs and namespaces.
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = WATCH_S + 20
    settings.watching.connect_timeout = 30
    # Bookmarks come about once a minute: a watch without one is a dead connection.
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 500
    for kind in WATCHED:
        # A tuple: the text form of the key matches nothing, silently.
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = (
            names.OWNED_SELECTOR
        )
    # What becomes of router pods shows in their Deployment.
    pods = ("", kinds.POD.version, kinds.POD.plural)
    settings.watching.label_selectors[pods] = names.ENGINES_SELECTOR
    return settings


def _registry(enqueue: Enqueue, invalidate: Invalidate) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    # What was seen last of each object, by uid. A status write changes none of it: without this
    # each pass would be followed by one more, for its own echo.
    seen: dict[str, tuple[Any, ...]] = {}

    async def of_resource(
        type: str | None,  # noqa: A002 - kopf's name
        uid: str,
        meta: kopf.Meta,
        name: str,
        namespace: str | None,
        **_: Any,
    ) -> None:
        now = (meta.get("generation"), meta.get("deletionTimestamp"))
        if type == "DELETED":
            seen.pop(uid, None)
        elif type is not None and seen.get(uid) == now:
            return
        else:
            seen[uid] = now
        enqueue(Key(namespace or "", name))

    def of_child(kind: Kind) -> Any:
        async def handle(
            type: str | None,  # noqa: A002 - kopf's name
            labels: kopf.Labels,
            meta: kopf.Meta,
            name: str,
            uid: str,
            namespace: str | None,
            **_: Any,
        ) -> None:
            version = None if type == "DELETED" else meta.get("resourceVersion")
            for owner in _owners(labels, meta):
                key = Key(namespace or "", owner)
                if kind is kinds.POD or invalidate(
                    key, ObservedVersion(kind.kind, name, uid, version)
                ):
                    enqueue(key)

        return handle

    def on(kind: Kind, handler: Any) -> None:
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry)(handler)

    on(PDDEPLOYMENT, of_resource)
    for kind in WATCHED:
        on(kind, of_child(kind))

    kopf.on.login(registry=registry)(_login)
    return registry


def _owners(labels: kopf.Labels, meta: kopf.Meta) -> set[str]:
    """Name the PDDeployments that a child concerns.

    By its label, which anybody may have edited, and by its controller, which nobody edits by
    mistake.
    """
    owner = controller({"metadata": meta}) or {}
    named = {labels.get(names.LABEL_DEPLOYMENT)}
    if owner.get("kind") == names.KIND:
        named.add(owner["name"])
    return {name for name in named if name}


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Log in as the pod's service account, or with a kubeconfig outside of a cluster.

    Asked again when the API server answers 401, and so after each rotation of the token.
    """
    if "KUBECONFIG" in os.environ:
        return kopf.login_with_kubeconfig(**kwargs)
    info = kopf.login_with_service_account(**kwargs)
    if info is None:
        return None
    # kopf names the API server by a DNS name; the environment works while the cluster's DNS is out.
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return dataclasses.replace(
        info, server=f"https://{f'[{host}]' if ':' in host else host}:{port}"
    )


async def run(
    enqueue: Enqueue, invalidate: Invalidate, namespaces: list[str], ready: asyncio.Event
) -> None:
    """Watch until the process is told to stop; returning or raising ends the process."""
    await kopf.operator(
        registry=_registry(enqueue, invalidate),
        settings=_settings(),
        namespaces=namespaces,
        clusterwide=not namespaces,
        standalone=True,
        # Only peering would use it; unset, kopf asks for a user name, which a container lacks.
        identity=cast("Any", names.MANAGED_BY),
        ready_flag=ready,
    )
