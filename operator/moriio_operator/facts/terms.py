"""The terms in which the tables speak: roles, modes, backends, attention and layers.

Their values are those of the custom resource; what each program writes for them stands with it.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The two halves of a disaggregated deployment, as labels and names of children spell them."""

    PREFILL = "prefill"
    DECODE = "decode"


ROLES = (Role.PREFILL, Role.DECODE)


class Mode(StrEnum):
    """Which side moves the KV cache: decode reads it, or prefill writes it."""

    READ = "Read"
    WRITE = "Write"


class Backend(StrEnum):
    """What carries the KV cache: RDMA between nodes, or XGMI between the GPUs of one node."""

    RDMA = "RDMA"
    XGMI = "XGMI"


class ConnectorType(StrEnum):
    """A connector, and with it the engine that it is of; each has its stack."""

    MORIIO = "MoRIIO"


class Attention(StrEnum):
    """What the KV cache holds: heads (GQA, with MHA and MQA as its ends), or latents (MLA)."""

    GQA = "GQA"
    MLA = "MLA"


class Layer(StrEnum):
    """A kind of layer that keeps state from token to token."""

    FULL_ATTENTION = "FullAttention"
    SLIDING_WINDOW = "SlidingWindow"
    STATE_SPACE = "StateSpace"
    LINEAR_ATTENTION = "LinearAttention"


# Layers whose state is of one size, however long the text; vLLM calls them mamba.
STATE_LAYERS = frozenset({Layer.STATE_SPACE, Layer.LINEAR_ATTENTION})
