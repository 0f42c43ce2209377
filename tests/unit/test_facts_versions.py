"""A version is read from a field or a tag, and rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.engine import Engine
from moriio_operator.facts import versions
from moriio_operator.facts.versions import KNOWN, NEWEST, OLDEST, Version


def engine(image: str, version: str | None = None) -> Engine:
    return Engine(image=image, version=version)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.33.0", Version(0, 33, 0)),
        ("v0.32.0", Version(0, 32, 0)),
        ("0.32", Version(0, 32, 0)),
        ("0.32.0-rocm72", Version(0, 32, 0)),
        ("0.33.0rc1", Version(0, 33, 0)),
        ("0.22.1.dev7+g0123abc", Version(0, 22, 1)),
        ("v0.100.12", Version(0, 100, 12)),
        ("latest", None),
        ("nightly", None),
        ("nightly-0123abcd", None),
        ("1", None),
        ("rocm6.4", None),
        ("", None),
        ("0.123456789", None),
    ],
)
def test_a_version_is_its_numbers(text: str, version: Version | None) -> None:
    assert versions.parse(text) == version


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai-rocm:v0.33.0", Version(0, 33, 0)),
        ("vllm/vllm-openai-rocm:v0.33.0-rocm72", Version(0, 33, 0)),
        ("registry.example:5000/vllm/vllm-openai-rocm:v0.31.0", Version(0, 31, 0)),
        ("registry.example:5000/vllm/vllm-openai-rocm", None),
        ("registry.example:5000/v0.31.0", None),
        ("vllm/vllm-openai-rocm:v0.33.0@sha256:" + "0" * 64, Version(0, 33, 0)),
        ("vllm/vllm-openai-rocm@sha256:" + "0" * 64, None),
        ("rocm/vllm:rocm7.0.0_vllm_0.24.0_20260701", Version(0, 24, 0)),
        ("rocm/vllm:7.2.1-vllm-v0.30", Version(0, 30, 0)),
        ("vllm/vllm-openai-rocm:latest", None),
        # Somebody's own releases, of an image that is not named after vLLM.
        ("registry/llm:0.1.5", None),
        ("registry/team/inference:2026.11.30", None),
        ("registry/vllm/serving:0.31.0", Version(0, 31)),
        ("registry/llm:3-vllm0.30.0", Version(0, 30)),
        ("vllm", None),
    ],
)
def test_an_image_tells_its_version_by_its_tag_alone(image: str, version: Version | None) -> None:
    assert versions.of_image(image) == version


def test_the_stated_version_wins_over_the_tag() -> None:
    assert engine("vllm:v0.30.0", "v0.31").declared_version == Version(0, 31)
    assert engine("vllm:v0.30.0").declared_version == Version(0, 30)
    assert engine("vllm:latest").declared_version is None


def test_a_newer_or_unknown_version_gets_the_newest_rules() -> None:
    assert engine("vllm:latest").ruling_version == NEWEST
    assert engine("vllm:v1.2.3").ruling_version == NEWEST
    assert engine("vllm:v0.33.1").ruling_version == NEWEST
    assert engine("vllm:v0.33.0").ruling_version == NEWEST
    assert engine("vllm:v0.20.2").ruling_version == Version(0, 20, 2)


def test_the_known_versions_rise_from_the_oldest_to_the_newest() -> None:
    assert list(KNOWN) == sorted(set(KNOWN))
    assert (KNOWN[0], KNOWN[-1]) == (OLDEST, NEWEST)


@given(st.builds(Version, *[st.integers(0, 9999)] * 3), st.sampled_from(["", "v"]))
def test_what_is_written_is_read(version: Version, prefix: str) -> None:
    assert versions.parse(f"{prefix}{version}") == version


@given(st.text())
def test_any_text_is_read_or_left(text: str) -> None:
    versions.parse(text)
    versions.of_image(text)
