"""A small Kubernetes client on dictionaries over the official asyncio client.

The official package brings configuration, TLS and token refresh; calls go out raw, because its
models drop fields that they do not know. Writes use strict field validation, so a mistake in a
template is an error and not a silently lost field.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client as official
from kubernetes.aio import config as official_config

from moriio_operator.kube.errors import ExpiredError, NotFoundError, UnreachableError, from_status
from moriio_operator.kube.kinds import CONTROLLER_REVISION, POD, Kind, kind_of
from moriio_operator.kube.objects import Object, as_applied
from moriio_operator.kube.wire import parse, parse_event, read_whole, split_lines

# Called after every call: verb, kind, HTTP status (0 = no answer), seconds.
CallObserver: TypeAlias = Callable[[str, str, int, float], None]
# Asked before each write; raises to forbid it.
WriteCheck: TypeAlias = Callable[[], None]

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_YAML = "application/yaml"
_JSON_PATCH = "application/json-patch+json"
_PAGE = 500
_TIMEOUT_S = 30
# A log comes from the pod's node, which may be gone.
_LOG_TIMEOUT_S = 5
_LOG_BYTES = 2**20
# The server ends a watch after this; a silent dead connection is given up a little later.
WATCH_S = 290


def _ignore(_verb: str, _kind: str, _status: int, _seconds: float) -> None:
    """Observe nothing."""


def _allow() -> None:
    """Let every write pass."""


def _selectors(labels: str, fields: str) -> dict[str, str]:
    """Give those parts of a query that select objects."""
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


class Kube:
    """The API as the operator uses it: get, list, watch, create, apply, delete."""

    def __init__(
        self,
        api: official.ApiClient,
        observe: CallObserver = _ignore,
        check: WriteCheck = _allow,
    ) -> None:
        self._api = api
        self._observe = observe
        self._check_write = check

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        observe: CallObserver = _ignore,
        check: WriteCheck = _allow,
    ) -> Kube:
        """Connect with a kubeconfig file, or from inside a pod when there is none.

        `check` is asked before each write, and raises to forbid it.
        """
        configuration = official.Configuration()
        if kubeconfig is None:
            official_config.load_incluster_config(client_configuration=configuration)
        else:
            await official_config.load_kube_config(
                config_file=kubeconfig, client_configuration=configuration
            )
        return cls(official.ApiClient(configuration), observe, check)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def serves(self, kind: Kind) -> bool:
        """Return whether the API server's discovery shows a kind (a CRD may come late)."""
        path = f"/apis/{kind.api_version}"
        try:
            found = await self._call("get", kind, "GET", path)
        except NotFoundError:
            return False
        return any(resource["name"] == kind.plural for resource in found["resources"])

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Read one object; None when it is not there."""
        try:
            return await self._call("get", kind, "GET", kind.path(namespace, name))
        except NotFoundError:
            return None

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """Read all objects of a kind, page by page, and the resource version to watch from.

        `selector` is one of labels, `fields` one of those fields that the API server indexes.
        """
        items: list[Object] = []
        query = {"limit": str(_PAGE), **_selectors(selector, fields)}
        while True:
            page = await self._call("list", kind, "GET", kind.path(namespace), query)
            try:
                items += page["items"]
                metadata = page["metadata"]
            except LookupError as error:
                # An answer of 200 that is no list: of a proxy, say.
                raise UnreachableError(error) from error
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        for item in items:
            # Items of a list come without the two fields that tell their kind.
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
        return items, metadata["resourceVersion"]

    async def create(self, obj: Object, manager: str, *, dry_run: bool = False) -> Object:
        """Create an object. With `dry_run` the server checks everything and stores nothing.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        kind = kind_of(obj)
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        path = kind.path(obj["metadata"]["namespace"])
        if kind != CONTROLLER_REVISION:
            return await self._call("create", kind, "POST", path, query, obj)
        # The API server keeps its data byte for byte and calls any other bytes a change, also those
        # that it makes itself when somebody edits a label: keys in order, no blanks. From YAML,
        # which JSON is, it makes them so from the start.
        return await self._call(
            "create", kind, "POST", path, query, json.dumps(obj), content_type=_YAML
        )

    async def apply(
        self,
        obj: Object,
        manager: str,
        subresource: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Object:
        """Apply an object server-side, taking over fields that others hold.

        A `metadata.resourceVersion` in the object is a precondition. With `dry_run` the server
        checks everything and stores nothing.

        Raises:
            ConflictError: the precondition does not hold.
        """
        kind = kind_of(obj)
        metadata = obj["metadata"]
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true"}
        if dry_run:
            query["dryRun"] = "All"
        path = kind.path(metadata["namespace"], metadata["name"], subresource)
        return await self._call("apply", kind, "PATCH", path, query, obj, content_type=_APPLY)

    async def update(self, obj: Object) -> Object:
        """Replace an object; its `metadata.resourceVersion` is the precondition.

        Raises:
            ConflictError: the object changed since.
        """
        kind, metadata = kind_of(obj), obj["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._call("update", kind, "PUT", path, {}, obj)

    async def own(self, kind: Kind, namespace: str, name: str, manager: str) -> None:
        """Make ready for its first apply an object that this manager created; see `ownership`.

        Raises:
            ConflictError: the object changed meanwhile.
        """
        live = await self.get(kind, namespace, name)
        fields = None if live is None else as_applied(live, manager)
        if live is None or fields is None:
            return
        version = live["metadata"]["resourceVersion"]
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        path = kind.path(namespace, name)
        await self._call("own", kind, "PATCH", path, {}, patch, content_type=_JSON_PATCH)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """Delete this very object, not a later one of its name; gone already is fine.

        Raises:
            ConflictError: the name belongs to an object of another uid.
        """
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._call("delete", kind, "DELETE", kind.path(namespace, name), {}, body)
        except NotFoundError:
            return

    async def log_tail(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Read the last lines of a container's log.

        Raises:
            ApiError: the pod's node does not answer, or has no log of it any more.
        """
        path = POD.path(namespace, pod, "log")
        query = {
            "container": container,
            "tailLines": str(lines),
            # A line may be of any length.
            "limitBytes": str(_LOG_BYTES),
        }
        response = await self._send("log", POD, "GET", path, query, None, _JSON, _LOG_TIMEOUT_S)
        data = await read_whole(response)
        if response.status >= 400:
            raise from_status(response.status, parse(data))
        return data.decode(errors="replace")

    async def watch(
        self, kind: Kind, namespace: str | None, selector: str, version: str, fields: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield events from a resource version on, bookmarks included, until the server ends.

        Selectors are those of `list`; without a namespace it spans all of them.

        Raises:
            ExpiredError: the version is too old; list again.
            UnreachableError: the connection broke, fell silent, or carried something else.
            ApiError: the API server refuses the watch, or ends it with another error.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S),
            **_selectors(selector, fields),
        }
        path = kind.path(namespace)
        response = await self._send("watch", kind, "GET", path, query, None, _JSON, WATCH_S + 20)
        try:
            if response.status >= 400:
                raise from_status(response.status, parse(await read_whole(response)))
            async for line in split_lines(response.response.content):
                yield parse_event(line)
        finally:
            response.response.close()

    async def _call(
        self,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Any = None,
        *,
        content_type: str = _JSON,
    ) -> Object:
        response = await self._send(
            verb, kind, method, path, query or {}, body, content_type, _TIMEOUT_S
        )
        parsed = parse(await read_whole(response))
        if response.status >= 400:
            raise from_status(response.status, parsed)
        return parsed

    async def _send(
        self,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any,
        content_type: str,
        timeout_s: float,
    ) -> Any:
        if method != "GET" and "dryRun" not in query:
            self._check_write()
        headers: dict[str, str] = {"Accept": f"{_JSON}, */*", "Content-Type": content_type}
        await self._authenticate(headers, path, method, body)
        url = self._api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        started, status = time.monotonic(), 0
        try:
            response = await self._api.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=timeout_s
            )
            status = response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachableError(error) from error
        finally:
            self._observe(verb, kind.kind, status, time.monotonic() - started)
        return response

    async def _authenticate(
        self, headers: dict[str, str], path: str, method: str, body: Any
    ) -> None:
        """Add the token; that of a pod's service account is read again when it is due."""
        try:
            await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        except (OSError, official_config.ConfigException) as error:
            # The kubelet is about to write it anew.
            raise UnreachableError(error) from error


__all__ = ["CallObserver", "ExpiredError", "Kube", "Object", "WriteCheck"]
