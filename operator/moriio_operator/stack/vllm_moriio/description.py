"""What an engine reports of itself once it serves: its version by HTTP, its model by the handshake.

Nothing of it is used for a decision; it is compared with what a user declared, since rules that
were checked against a wrong fact were not checked.

Sources: `entrypoints/serve/instrumentator/basic.py` (`/version`), and the middleware that asks for
the API key below `/v1` alone; `moriio_common.MoRIIOAgentMetadata`, with `kv_head_layouts` and
`mamba_state_layouts` since 0.33.0 (all of vLLM 0.20.0 to 0.33.0).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgpack

from moriio_operator.facts.terms import Attention

# Asked of an engine's HTTP port; the API key is not needed there.
VERSION_PATH = "/version"
# Sent by a DEALER to any rank's handshake port; the answer is two messages, this and the memory.
HANDSHAKE_REQUEST = b"get_meta_msg"


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of a loaded model; None where it was not reported."""

    attention: Attention | None = None
    # Over all ranks.
    kv_heads: int | None = None
    # Whether there are layers that keep a state of one size, however long the text.
    recurrent_state: bool | None = None


def version_from_answer(body: bytes) -> str:
    """Read the answer to a request for the version.

    Raises:
        ValueError: it is no such answer.
    """
    try:
        return str(json.loads(body)["version"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"no answer about a version ({type(error).__name__})") from None


def from_handshake(metadata: bytes, tensor: int) -> Description:
    """Read the first of the two messages of an engine's first rank.

    Raises:
        ValueError: it is no such message.
    """
    try:
        return _described(msgpack.unpackb(metadata, raw=True, strict_map_key=False), tensor)
    except (
        msgpack.UnpackException, LookupError, TypeError, ValueError, AttributeError, OverflowError,
    ) as error:  # fmt: skip
        # Without its words, which are the peer's bytes.
        raise ValueError(f"no metadata of a handshake ({type(error).__name__})") from None


def _described(metadata: Any, tensor: int) -> Description:
    backend = metadata[b"attn_backend_name"].decode()
    attention = Attention.MLA if "MLA" in backend.upper() else Attention.GQA
    heads = metadata.get(b"kv_head_layouts") or {}
    states = metadata.get(b"mamba_state_layouts") or {}
    if not heads and not states:
        # An older vLLM, or latents alone: nothing is reported of heads or of other layers.
        return Description(attention)
    return Description(attention, _heads(heads, tensor, attention), recurrent_state=bool(states))


def _heads(layouts: dict[Any, Any], tensor: int, attention: Attention) -> int | None:
    """Count the KV heads over all ranks; with one a rank, ranks may hold copies of the same."""
    counts = {int(layout[0]) for layout in layouts.values()}
    if attention is Attention.MLA or len(counts) != 1:
        return None
    [count] = counts
    return None if count == 1 and tensor > 1 else count * tensor
