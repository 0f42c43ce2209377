"""What pods take from Secrets: variables, and how images are pulled. We never see a value.

Without its Secret a container does not start, and its pod says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from moriio_operator.api.engine import Engine
from moriio_operator.api.model import SecretKeyRef
from moriio_operator.build.pod import ContainerPatch, Contribution


def variables(references: Mapping[str, SecretKeyRef]) -> Contribution:
    """Give the main container a variable from each reference."""
    sources = {n: {"name": r.name, "key": r.key} for n, r in references.items()}
    env = [{"name": n, "valueFrom": {"secretKeyRef": source}} for n, source in sources.items()]
    return Contribution("secret variables", main=ContainerPatch(env=env))


def pull_secrets(engine: Engine) -> Contribution:
    """Name the Secrets by which the kubelet pulls the images of a pod."""
    secrets = [{"name": secret.name} for secret in engine.image_pull_secrets]
    return Contribution("pull secrets", fields={"imagePullSecrets": secrets} if secrets else {})
