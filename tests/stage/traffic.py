"""Prompts over HTTP, and vLLM's own counters of where prompt tokens came from."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from stage.service import Service, ports

ROUTER_PORT = 8000
_TIMEOUT_S = 60

PROMPTS = tuple(
    f"{index}. {text}"
    for index, text in enumerate(
        (
            "The cache of keys and values is computed once and then carried across",
            "A decode engine that never saw the prompt must answer as if it had",
            "Two nodes, one prompt: whatever was lost on the way shows in the tokens",
            "Ports are handed out in blocks and never come back while a peer remembers",
        )
        * 4
    )
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a completion gave."""

    status: int
    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


def complete(address: str, prompt: str, *, tokens: int = 24) -> Answer:
    """Ask for a completion at `HOST:PORT`; an HTTP error is an answer too."""
    wish = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    request = urllib.request.Request(
        f"http://{address}/v1/completions",
        json.dumps({**wish, "ignore_eos": True}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            body: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode(errors="replace"))
    usage = body["usage"]
    return Answer(
        200, body["choices"][0]["text"], usage["prompt_tokens"], usage["completion_tokens"]
    )


def router_address(service: Service) -> str:
    """Give where the router of a service listens."""
    return f"{service.router_pod()['status']['podIP']}:{ROUTER_PORT}"


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Where an engine had its prompt tokens from."""

    local_compute: int
    external_kv_transfer: int

    @classmethod
    def summed(cls, parts: Iterable[PromptTokens]) -> PromptTokens:
        """Add up what several had."""
        counted = list(parts)
        return cls(
            sum(part.local_compute for part in counted),
            sum(part.external_kv_transfer for part in counted),
        )

    def __sub__(self, before: PromptTokens) -> PromptTokens:
        """Give what came in between."""
        return PromptTokens(
            self.local_compute - before.local_compute,
            self.external_kv_transfer - before.external_kv_transfer,
        )

    @property
    def all(self) -> int:
        """Tokens from either source."""
        return self.local_compute + self.external_kv_transfer


def engine_address(pod: dict[str, Any]) -> str:
    """Give where an engine itself listens."""
    return f"{pod['status']['podIP']}:{ports(pod)['http']}"


def metrics(pod: dict[str, Any]) -> str:
    """Read an engine's metrics, as text."""
    url = f"http://{engine_address(pod)}/metrics"
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
        text: str = response.read().decode()
    return text


def prompt_tokens_by_rank(pod: dict[str, Any]) -> dict[int, PromptTokens]:
    """Read an engine's counters of each of its data parallel ranks."""
    counts: dict[int, dict[str, int]] = {}
    for family in text_string_to_metric_families(metrics(pod)):
        for sample in family.samples:
            if sample.name == "vllm:prompt_tokens_by_source_total":
                rank = counts.setdefault(int(sample.labels["engine"]), {})
                rank[sample.labels["source"]] = int(sample.value)
    return {
        rank: PromptTokens(by["local_compute"], by["external_kv_transfer"])
        for rank, by in counts.items()
    }


def prompt_tokens(pod: dict[str, Any]) -> PromptTokens:
    """Read an engine's counters, of all its ranks together."""
    return PromptTokens.summed(prompt_tokens_by_rank(pod).values())
