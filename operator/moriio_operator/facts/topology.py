"""Which sizes of prefill and decode fit together, by version and mode.

vLLM checks this at the first request, not at start, and where it does not check it moves blocks to
the wrong rank or waits without an end. The rules are a table for the documents; the functions tell
one pair of engines what holds for it.

Sources: `moriio_connector.get_moriio_remote_tp_rank`, `validate_moriio_heterogeneous_tp_kv_heads`,
`moriio_tp_mapping.validate_write_tp_topology`, and what the versions without them do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moriio_operator.facts.terms import Attention, Mode
from moriio_operator.facts.versions import OLDEST, Version

# Since then a side knows that the other has another tensor parallel size.
_READ_FIRST = Version(0, 25)
_WRITE_FIRST = Version(0, 33)


@dataclass(frozen=True, slots=True)
class Rule:
    """What tensor parallel sizes of prefill and decode must satisfy when they differ."""

    modes: tuple[Mode, ...]
    first: Version
    # The first version in which it no longer holds; None: it still does.
    until: Version | None
    condition: str
    source: str


@dataclass(frozen=True, slots=True)
class Defect:
    """Something that is broken in some versions, whatever the other side is."""

    mode: Mode
    first: Version
    until: Version
    path: str
    why: str
    remedy: str
    source: str
    # It concerns prefill engines of at least these sizes.
    tensor: int = 1
    data: int = 1

    def concerns(self, version: Version, mode: Mode, tensor: int, data: int) -> bool:
        """Return whether a deployment meets it; the sizes are those of its prefill engines."""
        met = tensor >= self.tensor and data >= self.data
        return met and mode is self.mode and self.first <= version < self.until


RULES: tuple[Rule, ...] = (
    Rule(
        (Mode.READ, Mode.WRITE), OLDEST, _READ_FIRST, "they must be equal",
        "MoRIIOConnectorWorker._moriio_handshake (0.20.0 to 0.24.0) dials the peer's rank of the "
        "same number",
    ),
    Rule(
        (Mode.WRITE,), _READ_FIRST, _WRITE_FIRST, "they must be equal",
        "MoRIIOWriter and update_state_after_alloc (0.25.1 to 0.32.0): either side notifies as "
        "many ranks as it has itself",
    ),
    Rule(
        (Mode.READ,), _READ_FIRST, None,
        "one must be a multiple of the other; without MLA neither may be smaller than the number "
        "of KV heads",
        "get_moriio_remote_tp_rank, validate_moriio_heterogeneous_tp_kv_heads (0.25.1). Up to 0.32 "
        "a larger prefill keeps each prompt's blocks for defer_timeout: decode releases them on "
        "one rank only (get_moriio_read_holder_tp_ranks, 0.33.0)",
    ),
    Rule(
        (Mode.WRITE,), _WRITE_FIRST, None,
        "one must be a multiple of the other; without MLA each must divide the number of KV heads "
        "or be a multiple of it",
        "moriio_tp_mapping.validate_write_tp_topology (0.33.0)",
    ),
)  # fmt: skip

DEFECTS: tuple[Defect, ...] = (
    Defect(
        Mode.READ, OLDEST, Version(0, 23), "spec.connector.mode",
        "decode gives blocks back under a name that prefill does not know, so that prefill stops "
        "listening and never frees one",
        "use vLLM 0.23 or newer",
        "MoRIIOConnectorWorker._pop_done_transfers sends its request id, and "
        "MoRIIOWrapper._handle_message takes transfer ids alone (0.20.0 to 0.22.1)",
    ),
    Defect(
        Mode.WRITE, OLDEST, Version(0, 23), "spec.connector.mode",
        "decode sends the list of its blocks to itself instead of to prefill",
        "use vLLM 0.23 or newer",
        "MoRIIOConnectorScheduler.update_state_after_alloc: the peer's address is read with "
        "is_producer=True (0.20.0 to 0.22.1)",
    ),
    Defect(
        Mode.WRITE, Version(0, 25), Version(0, 27), "spec.prefill.parallelism.tensor",
        "every prefill rank writes into the first decode rank",
        "use Read, tensor 1, or vLLM 0.27 or newer",
        "MoRIIOConnectorMetadata.add_new_req reads tp_size, which a router does not send to "
        "prefill, instead of remote_tp_size (0.25.1, 0.26.0; fixed in 0.27.0)",
        tensor=2,
    ),
    Defect(
        Mode.READ, OLDEST, Version(0, 28), "spec.prefill.parallelism.dataLocal",
        "decode reads from the first data parallel rank, whichever computed the prompt",
        "use Write, dataLocal 1 and more replicas, or vLLM 0.28 or newer",
        "MoRIIOConnectorWorker._read_blocks takes dp0 (0.20.0 to 0.26.0), and prefill does not "
        "return its remote_dp_rank (up to 0.27.1)",
        data=2,
    ),
)  # fmt: skip


def heterogeneous(
    version: Version,
    mode: Mode,
    attention: Attention | None,
    kv_heads: int | None,
    prefill_tensor: int,
    decode_tensor: int,
) -> str | None:
    """Say why two tensor parallel sizes do not fit together; None when they do.

    A fact that is not known counts as one that fits; see `missing_facts`.
    """
    if prefill_tensor == decode_tensor:
        return None
    sizes = f"tensor {prefill_tensor} (prefill) and {decode_tensor} (decode)"
    if version < (_READ_FIRST if mode is Mode.READ else _WRITE_FIRST):
        return f"{sizes} must be equal in {mode} mode of vLLM {version}"
    if max(prefill_tensor, decode_tensor) % min(prefill_tensor, decode_tensor):
        return f"of {sizes} one must be a multiple of the other"
    if attention is not Attention.GQA or kv_heads is None:
        return None
    check = _read_heads if mode is Mode.READ else _write_heads
    unfit = check(kv_heads, prefill_tensor, decode_tensor)
    return f"{sizes} do not fit {kv_heads} KV heads: {unfit}" if unfit else None


def missing_facts(
    version: Version,
    mode: Mode,
    attention: Attention | None,
    kv_heads: int | None,
    prefill_tensor: int,
    decode_tensor: int,
) -> tuple[str, ...]:
    """Name the facts of the model that could still make `heterogeneous` refuse."""

    def refused(as_if: Attention | None, heads: int | None) -> bool:
        sizes = (prefill_tensor, decode_tensor)
        return heterogeneous(version, mode, as_if, heads, *sizes) is not None

    if prefill_tensor == decode_tensor or attention is Attention.MLA or refused(None, None):
        return ()
    if kv_heads is None:
        return ("kvHeads",) if attention is Attention.GQA else ("attention", "kvHeads")
    return ("attention",) if attention is None and refused(Attention.GQA, kv_heads) else ()


def defects(version: Version, mode: Mode, tensor: int, data: int) -> tuple[Defect, ...]:
    """Give what is broken for a deployment whose prefill engines have these sizes."""
    return tuple(defect for defect in DEFECTS if defect.concerns(version, mode, tensor, data))


def visibility(prefill: Sequence[str], decode: Sequence[str], own: tuple[int, int]) -> str | None:
    """Say why the GPUs that two roles see do not suit XGMI; `own` is how many each computes on.

    MORI opens a session only to memory of a GPU that its process sees, and an engine computes on
    the first that it sees (vllm-project/vllm#41753).
    """
    if set(prefill) != set(decode):
        return (
            "differ, and with XGMI each side must see all GPUs of the other: list the same ones in "
            "both, each side's own first"
        )
    both = sorted(set(prefill[: own[0]]) & set(decode[: own[1]]))
    if both:
        return (
            "begin alike, and an engine computes on the first that it sees, so that both would use "
            f"{', '.join(both)}: list each side's own first"
        )
    return None


def _read_heads(heads: int, prefill: int, decode: int) -> str:
    if min(prefill, decode) >= heads:
        return ""
    return "in Read mode neither may be smaller than the number of heads"


def _write_heads(heads: int, prefill: int, decode: int) -> str:
    if all(heads % tensor == 0 or tensor % heads == 0 for tensor in (prefill, decode)):
        return ""
    return "each must divide the number of heads or be a multiple of it"
