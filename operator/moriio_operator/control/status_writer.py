"""The stored status of one PDDeployment, and the precondition that its conditional write is.

A Lease does not stop a leader that was paused past it. What stops it is that every pass writes the
status first, under the condition that nobody wrote it, or the spec, since the pass read it.
"""

from __future__ import annotations

from moriio_operator.api import names
from moriio_operator.api.status import Status
from moriio_operator.kube.client import Kube
from moriio_operator.kube.objects import Object


class StatusWriter:
    """The status as this pass knows it."""

    def __init__(self, kube: Kube, resource: Object) -> None:
        self._kube = kube
        self._metadata = resource["metadata"]
        # The version of the object as this pass leaves it.
        self.version: str = self._metadata["resourceVersion"]
        self._stored: Object = resource.get("status") or {}
        self._asserted = False

    async def write(self, status: Status) -> bool:
        """Store the status if it is another; return whether it was.

        Raises:
            ConflictError: the object was changed since it was read.
        """
        desired = status.to_object()
        if desired == self._stored:
            return False
        await self._apply(desired)
        return True

    async def assert_unchanged(self) -> None:
        """Make sure that nobody changed the object since it was read; asked again, it holds.

        Raises:
            ConflictError: somebody did.
        """
        if not self._asserted:
            # The API server checks the condition and stores nothing: no new version, no event.
            await self._apply(self._stored)

    async def _apply(self, status: Object) -> None:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "name": self._metadata["name"],
                "namespace": self._metadata["namespace"],
                "resourceVersion": self.version,
            },
            "status": status,
        }
        made = await self._kube.apply(body, names.STATUS_MANAGER, "status")
        self.version = made["metadata"]["resourceVersion"]
        self._stored, self._asserted = status, True
