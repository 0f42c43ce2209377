"""What an engine tells of its model once it has loaded it: by its handshake, and by its log.

Nothing of it is asked for a decision; it is held against what a user stated, since rules that were
checked against a wrong fact were not checked.

Sources: `moriio_common.MoRIIOAgentMetadata` (vLLM 0.20.0 to 0.33.0; `kv_head_layouts` and
`mamba_state_layouts` since 0.33.0), `v1/engine/core.py` for the line of the log (0.20.0 to 0.33.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgpack

from moriio_operator.api.model import Facts
from moriio_operator.facts.models import STATE_LAYERS
from moriio_operator.facts.terms import Attention, Layer
from moriio_operator.facts.versions import Version, parse

# Sent by a DEALER to any rank's handshake port; the answer is two messages, this and the memory.
HANDSHAKE_REQUEST = b"get_meta_msg"

# What a registrar's log calls it.
DESCRIBED = "engine described"
# The first words of a line are the log's own; what others said stands behind them, in quotes.
_EVENT = re.compile(rf'^[^"]*event="{DESCRIBED}" ')
_WORD = re.compile(r"(?P<key>[a-z_]+)=(?P<value>[^\s\"]*)")
_VERSION_LINE = re.compile(r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\)")


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of a loaded model; None where it was not told."""

    attention: Attention | None = None
    # Over all ranks.
    kv_heads: int | None = None
    # Whether there are layers whose state is of one size.
    state: bool | None = None


def from_handshake(metadata: bytes, tensor: int) -> Description:
    """Read the first of the two messages of an engine's first rank.

    Raises:
        ValueError: it is no such message.
    """
    try:
        return _described(msgpack.unpackb(metadata, raw=True, strict_map_key=False), tensor)
    except (msgpack.UnpackException, LookupError, TypeError, ValueError, AttributeError) as error:
        # Without its words, which are the peer's bytes.
        raise ValueError(f"no metadata of a handshake ({type(error).__name__})") from None


def _described(told: Any, tensor: int) -> Description:
    backend = told[b"attn_backend_name"].decode()
    attention = Attention.MLA if "MLA" in backend.upper() else Attention.GQA
    heads, states = told.get(b"kv_head_layouts") or {}, told.get(b"mamba_state_layouts") or {}
    if not heads and not states:
        # An older vLLM, or latents alone: nothing is told of heads or of other layers.
        return Description(attention)
    return Description(attention, _heads(heads, tensor, attention), state=bool(states))


def words(told: Description) -> dict[str, str]:
    """Give it as words of a log line, by which it comes from the registrar to the operator."""
    state = "" if told.state is None else str(told.state)
    return {
        "attention": told.attention or "",
        "kv_heads": str(told.kv_heads or ""),
        "state": state,
    }


def of_line(line: str) -> tuple[str, Description] | None:
    """Read a line of a registrar's log: whose it is, as a pod's uid, and what was told."""
    event = _EVENT.search(line)
    if event is None:
        return None
    found = dict(_WORD.findall(line[event.end() :]))
    uid, attention = found.get("pod_uid"), found.get("attention")
    if not uid or attention not in {"", *Attention}:
        return None
    heads, state = found.get("kv_heads", ""), found.get("state", "")
    return uid, Description(
        Attention(attention) if attention else None,
        int(heads) if heads.isdecimal() else None,
        state == str(True) if state else None,
    )


def version_of_log(text: str) -> Version | None:
    """Find the version by which an engine introduces itself."""
    found = _VERSION_LINE.search(text)
    return None if found is None else parse(found["version"])


def differences(facts: Facts, told: Description) -> list[str]:
    """Name the facts that are stated otherwise than an engine tells them, each with the remedy."""
    found = []
    if facts.attention is not None and told.attention not in (None, facts.attention):
        found.append(_differs("attention", facts.attention, told.attention))
    if facts.kv_heads is not None and told.kv_heads not in (None, facts.kv_heads):
        found.append(_differs("kvHeads", facts.kv_heads, told.kv_heads))
    if facts.layers is not None and told.state is not None:
        stated = bool(STATE_LAYERS & set(facts.layers))
        if stated != told.state:
            layers = ", ".join(facts.layers)
            kinds = f"{Layer.STATE_SPACE} or {Layer.LINEAR_ATTENTION}"
            told_text = f"layers that keep a state ({kinds})" if told.state else "none of those"
            found.append(_differs("layers", layers, told_text))
    return found


def _differs(field: str, stated: object, told: object) -> str:
    path = f"spec.model.facts.{field}"
    return f"{path} is stated as {stated}, and the engine tells {told}: correct it"


def _heads(layouts: dict[Any, Any], tensor: int, attention: Attention) -> int | None:
    """Count the KV heads over all ranks; with one a rank, ranks may hold copies of the same."""
    counts = {int(layout[0]) for layout in layouts.values()}
    if attention is Attention.MLA or len(counts) != 1:
        return None
    [count] = counts
    return None if count == 1 and tensor > 1 else count * tensor
