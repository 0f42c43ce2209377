"""Versions of vLLM: which ones the tables were checked against, and which one an image is.

A version is read from the image's tag, or stated in the resource. One newer than all that are known
gets the newest rules, since it is likelier to keep them than to break them; one older than the
oldest has no rules at all. In the tables a change begins with the first known version that has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A release of vLLM."""

    major: int
    minor: int
    patch: int = 0

    @property
    def minor_release(self) -> tuple[int, int]:
        """The release without its patches."""
        return (self.major, self.minor)

    def __str__(self) -> str:
        """Give it as vLLM writes it."""
        return f"{self.major}.{self.minor}.{self.patch}"


# The first that reads the address of its peer from the request id as vllm-router 0.1.17 writes it
# (`moriio_common.get_peer_zmq_from_request_id`); before it the registration has another form, too.
# What it has rules for need not work: see `topology.DEFECTS` for what is broken up to 0.22.
OLDEST = Version(0, 20)
NEWEST = Version(0, 33)

# Every row of the tables was compared with the sources of these (the source distributions on PyPI).
KNOWN: tuple[Version, ...] = (
    OLDEST,
    Version(0, 20, 1),
    Version(0, 20, 2),
    Version(0, 21),
    Version(0, 22),
    Version(0, 22, 1),
    Version(0, 23),
    Version(0, 24),
    Version(0, 25),
    Version(0, 25, 1),
    Version(0, 26),
    Version(0, 27),
    Version(0, 27, 1),
    Version(0, 28),
    Version(0, 29),
    Version(0, 30),
    Version(0, 31),
    Version(0, 32),
    NEWEST,
)

_NUMBERS = r"([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?(?![0-9])"
_VERSION = re.compile(f"v?{_NUMBERS}.*", re.DOTALL)
# Tags of rocm/vllm begin with the version of ROCm: rocm7.0.0_vllm_0.24.0_20260701.
_NAMED = re.compile(f"vllm[-_.]?v?{_NUMBERS}")


def parse(text: str) -> Version | None:
    """Read a version; whatever follows its numbers, such as `rc1` or `-rocm72`, is left aside."""
    return _version(_VERSION.fullmatch(text))


def of_image(image: str) -> Version | None:
    """Read the version from an image's tag, if it has one that tells it.

    The tag of an image that is not named after vLLM counts somebody's own releases.
    """
    folder, _, reference = image.split("@", 1)[0].rpartition("/")
    name, _, tag = reference.partition(":")
    found = _version(_NAMED.search(tag))
    return parse(tag) if found is None and "vllm" in f"{folder}/{name}" else found


def declared(image: str, version: str | None) -> Version | None:
    """Give the version that a resource declares: in its field, else by the image's tag."""
    return of_image(image) if version is None else parse(version)


def ruling(version: Version | None) -> Version:
    """Give the version whose rules apply to an engine that declares this one, or none."""
    return NEWEST if version is None else min(version, NEWEST)


def _version(match: re.Match[str] | None) -> Version | None:
    if match is None:
        return None
    major, minor, patch = match.groups()
    return Version(int(major), int(minor), int(patch or 0))
