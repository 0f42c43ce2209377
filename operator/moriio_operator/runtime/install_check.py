"""What `helm test` runs: ask the API server, by dry-run, whether it takes a PDDeployment.

The answer covers what an installation can lack: the CustomResourceDefinition, or one as new as this
program; admission rules of the cluster that refuse the kind; a network on which the API server
answers. Nothing is stored, so no operator sees the object.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from moriio_operator.api import names
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import (
    ApiError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnreachableError,
)
from moriio_operator.kube.objects import Object

# A pod's network may come a moment after the pod.
_TRIES = 5
_PAUSE_S = 2.0


def run(environment: Mapping[str, str]) -> int:
    """Check this pod's namespace, print the result, and give the exit code."""
    namespace = environment.get("POD_NAMESPACE")
    if not namespace:
        return _say("POD_NAMESPACE is not set: the check runs in a pod, by `helm test`", 2)
    return asyncio.run(_connect_and_try(environment.get("KUBECONFIG"), namespace))


async def _connect_and_try(kubeconfig: str | None, namespace: str) -> int:
    kube = await Kube.connect(kubeconfig)
    try:
        return await attempt(kube, namespace)
    finally:
        await kube.close()


async def attempt(kube: Kube, namespace: str, *, pause_s: float = _PAUSE_S) -> int:
    """Create a PDDeployment by dry-run, say how it went, and give the exit code."""
    refusal = await _refusal(kube, namespace)
    for _ in range(_TRIES - 1):
        if not isinstance(refusal, UnreachableError):
            break
        await asyncio.sleep(pause_s)
        refusal = await _refusal(kube, namespace)
    if refusal is None:
        return _say(f"the API server takes a {names.KIND} in namespace {namespace}", 0)
    return _say(f"{_cause(refusal, namespace)}\nthe API server: {refusal}", 1)


async def _refusal(kube: Kube, namespace: str) -> ApiError | None:
    try:
        await kube.create(manifest(namespace), names.FIELD_MANAGER, dry_run=True)
    except ApiError as error:
        return error
    return None


def manifest(namespace: str) -> Object:
    """Give a PDDeployment with what every one has, and nothing else."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        # A user's object of any name is in nobody's way.
        "metadata": {"generateName": "install-check-", "namespace": namespace},
        "spec": {
            "model": {"name": "org/model", "servedName": "model"},
            "engine": {"image": "engine:install-check"},
            "connector": {"mode": "Read"},
            "prefill": {},
            "decode": {},
            "devices": {"fabric": "InfiniBand"},
            "router": {"image": "router:install-check"},
            "network": {"mode": "Pod"},
        },
    }


def _cause(refusal: ApiError, namespace: str) -> str:
    """Say what is wrong, and the remedy."""
    definition = f"CustomResourceDefinition {names.PLURAL}.{names.GROUP}"
    admission = (
        f"a {names.KIND} is refused in namespace {namespace}: an admission policy or a quota of "
        "the cluster, which must admit it, or a right that the chart grants"
    )
    match refusal:
        # A policy may refuse with any status; these are the words of both kinds.
        case ApiError(message=message) if " denied request" in message or " denied the " in message:
            return admission
        case NotFoundError():
            return f"the {definition} is missing: set crds.install to true, or apply the file"
        case ForbiddenError():
            return admission
        case InvalidError():
            return f"the {definition} is not of this operator's version: apply the newer one"
        case UnreachableError():
            return "the API server does not answer: look for a NetworkPolicy in its way"
        case _:
            return "the API server could not decide: it, or an admission webhook, is in trouble"


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr if code else sys.stdout)
    return code
