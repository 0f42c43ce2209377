"""What the last words of an engine stand for: fragments of logs, with a reason and a remedy.

A fragment occurs literally in the sources of the versions that it names. Several may occur in one
log, since an early cause drags later ones along: the most specific row decides, and rows stand in
that order, causes before consequences.

The reasons stand here and not in `api.reasons`, since they come and go with vLLM's words. Both
`docs/conditions.md` and `docs/compatibility.md` list them.
"""

from __future__ import annotations

from dataclasses import dataclass

from moriio_operator.facts.versions import NEWEST, OLDEST, Version


@dataclass(frozen=True, slots=True)
class Signature:
    """One recognised end: `reason` is a CamelCase condition reason, `remedy` names the field."""

    fragment: str
    reason: str
    remedy: str
    source: str
    first: Version = OLDEST
    # The last version that says so; the newest: it still does.
    last: Version = NEWEST
    # Whose words they are: those of others than vLLM do not occur in its sources.
    speaker: str = "vLLM"


_CONNECTOR, _ENGINE, _COMMON = (f"moriio_{name}.py" for name in ("connector", "engine", "common"))
_MAPPING = "moriio_tp_mapping.py"
_CONFIG = "vllm/config/vllm.py"
_MORI, _VERBS = "MORI", "libibverbs"
_MORI_RDMA = "MORI, src/io/rdma (1.1.0 in images up to 0.31, 1.2.3 since)"

_SIZES = (
    "make spec.prefill.parallelism.tensor and spec.decode.parallelism.tensor fit, and state "
    "spec.model.config so that this is checked before engines start"
)
_ALIKE = (
    "give prefill and decode the same model, --block-size, --kv-cache-dtype and "
    "--attention-backend in spec.prefill.args and spec.decode.args"
)
_NIC = (
    "give the engines an RDMA device that is up (spec.<role>.devices.rdma, or MORI_RDMA_DEVICES in "
    "spec.<role>.env), with the node's driver and the image's user library of one release"
)
_MEMORY = (
    "use a smaller model or more tensor parallel ranks, lower --max-model-len or "
    "--gpu-memory-utilization in spec.<role>.args, or free the GPUs that "
    "spec.<role>.devices.gpu names"
)
_PEER = (
    "look at the engine of the other role, which ended or cannot be reached: between both all TCP "
    "ports must be open, on the network that spec.network.mode names, and so must the fabric be"
)
_LAYERS = "set spec.connector.mode to Read, or state spec.model.config.layers to see what it takes"
_SPEED = (
    "raise spec.connector.transferTimeoutSeconds, or spec.connector.qpPerTransfer where the fabric "
    "is crowded"
)
_ROUTER = "use the router image that the operator was tested with (spec.router.image)"

SIGNATURES: tuple[Signature, ...] = (
    # Ports.
    Signature(
        "Address already in use", "PortInUse",
        "end the process that holds the port on the node, or choose other ports with "
        "spec.network.portRange",
        "zmq.error.ZMQError and OSError, errno EADDRINUSE", speaker="Linux",
    ),
    Signature(
        "appears to be a URI", "PortVariableInjected",
        "rename the Service `vllm` of the namespace, whose name gives engines VLLM_PORT",
        "vllm/envs.py, get_vllm_port",
    ),
    # What the command line asks for.
    Signature(
        "unrecognized arguments", "UnknownFlag",
        "remove from spec.<role>.args what this version of vLLM does not know, or change "
        "spec.engine.image",
        "argparse, through FlexibleArgumentParser", speaker="Python",
    ),
    Signature(
        "Unsupported connector type", "ConnectorUnknown",
        "use an image of vLLM with the MoRIIO connector (spec.engine.image)",
        "kv_connector/factory.py",
    ),
    Signature(
        "Number of experts in the model must be greater than 0", "NoExperts",
        "set spec.<role>.parallelism.expert to Disabled: the model is dense",
        "vllm/config/model.py, ModelConfig._verify_with_expert_parallelism",
    ),
    Signature(
        "--enable-return-routed-experts is incompatible with", "FlagRefused",
        "remove --enable-return-routed-experts from spec.<role>.args",
        _CONFIG, Version(0, 22),
    ),
    Signature(
        "--use-replayssm is incompatible with KV connectors", "FlagRefused",
        "remove --use-replayssm from spec.<role>.args",
        _CONFIG, Version(0, 27),
    ),
    Signature(
        "incompatible with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "AllocatorRefused",
        "remove PYTORCH_CUDA_ALLOC_CONF from spec.<role>.env",
        _CONFIG, Version(0, 21),
    ),
    # Devices.
    Signature(
        "MoRIIO is not available", "MoriMissing",
        "use an image that holds the package `mori` (spec.engine.image), such as "
        "vllm/vllm-openai-rocm",
        _CONNECTOR,
    ),
    Signature(
        "does not support the kernel ABI", "RdmaLibraryMismatch", _NIC, _VERBS, speaker=_VERBS,
    ),
    Signature(
        "no active RDMA device on this host", "NoRdmaDevice", _NIC, _MORI_RDMA, Version(0, 32),
        speaker=_MORI,
    ),
    Signature(
        "RdmaManager: no active RDMA device/port found", "NoRdmaDevice", _NIC, _MORI_RDMA,
        Version(0, 32), speaker=_MORI,
    ),
    Signature(
        "availDevices.size() > 0", "NoRdmaDevice", _NIC, _MORI_RDMA, OLDEST, Version(0, 31),
        speaker=_MORI,
    ),
    Signature(
        "Failed to register local memory:", "MemoryNotRegistered",
        "raise the node's limit on locked memory (LimitMEMLOCK of its container runtime), load its "
        "peer memory module, or make the KV cache smaller with --kv-cache-memory-bytes in "
        "spec.<role>.args",
        f"{_ENGINE}, register_local_tensor",
    ),
    Signature(
        "shared KV backing too small", "MemoryNotRegistered",
        "make the KV cache larger: it must fill whole pages (--kv-cache-memory-bytes in "
        "spec.<role>.args)",
        _CONNECTOR, Version(0, 29),
    ),
    Signature(
        "less than desired GPU memory utilization", "GpuMemoryTaken", _MEMORY,
        "vllm/v1/worker/utils.py, request_memory",
    ),
    Signature(
        "No available memory for the cache blocks", "GpuMemoryShort", _MEMORY,
        "vllm/v1/core/kv_cache_utils.py, kv_cache_planning.py in 0.33.0",
    ),
    Signature(
        "out of memory", "GpuMemoryShort", _MEMORY, "PyTorch, OutOfMemoryError",
        speaker="PyTorch",
    ),
    # What the connector cannot carry.
    Signature(
        "MoRIIO WRITE needs one TP size to be a multiple", "TensorSizesUnfit", _SIZES,
        _MAPPING, Version(0, 33),
    ),
    Signature(
        "MoRIIO WRITE cannot shard", "TensorSizesUnfit", _SIZES, _MAPPING, Version(0, 33),
    ),
    Signature(
        "MoRIIO heterogeneous TP requires replicated KV heads", "TensorSizesUnfit", _SIZES,
        f"{_CONNECTOR}, validate_moriio_heterogeneous_tp_kv_heads", Version(0, 25),
    ),
    Signature(
        "heterogeneous-TP mamba/KDA transfer is not supported", "TensorSizesUnfit", _SIZES,
        _CONNECTOR, Version(0, 31),
    ),
    Signature(
        "for heterogeneous-TP P/D", "TensorSizesUnfit", _SIZES,
        f"{_CONNECTOR}, get_moriio_remote_tp_rank", Version(0, 25),
    ),
    Signature(
        "Heterogeneous-TP WRITE of layer", "TensorSizesUnfit", _SIZES, _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "MoRIIO only supports sliding-window hybrid models", "LayersUnfit", _LAYERS,
        _CONNECTOR, Version(0, 30),
    ),
    Signature(
        "MoRIIO WRITE mode does not support", "LayersUnfit", _LAYERS, _CONNECTOR, Version(0, 30),
    ),
    Signature(
        "transfer is implemented for READ", "LayersUnfit", _LAYERS,
        _CONNECTOR, Version(0, 31), Version(0, 32),
    ),
    Signature(
        "requires an attention group", "LayersUnfit", _LAYERS, _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "hybrid READ requires exactly one", "LayersUnfit",
        "use a model with one kind of attention beside its state layers, or set "
        "spec.connector.mode to Write (vLLM 0.33)",
        _CONNECTOR, Version(0, 31),
    ),
    Signature(
        "MoRIIO has no transfer-enabled KV cache layers", "LayersUnfit", _LAYERS,
        _CONNECTOR, Version(0, 31),
    ),
    Signature(
        "MoRIIO KDA conv transfer requires the DS", "StateLayoutMissing",
        "add VLLM_SSM_CONV_STATE_LAYOUT with the value DS to spec.prefill.env and spec.decode.env",
        _CONNECTOR, Version(0, 31),
    ),
    Signature(
        "MoRIIO with speculative decoding is not yet supported", "SpeculationRefused",
        "remove --speculative-config from spec.<role>.args, or set spec.connector.mode to Read",
        _CONNECTOR, Version(0, 32),
    ),
    Signature(
        "hybrid transfer supports DSpark", "SpeculationRefused",
        "use the method dspark in --speculative-config of spec.<role>.args, or remove it",
        _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "hybrid READ supports DSpark", "SpeculationRefused",
        "use the method dspark in --speculative-config of spec.<role>.args, or remove it",
        _CONNECTOR, Version(0, 32), Version(0, 32),
    ),
    Signature(
        "hybrid READ does not support speculative", "SpeculationRefused",
        "remove --speculative-config from spec.<role>.args, or use vLLM 0.32 or newer",
        _CONNECTOR, Version(0, 31), Version(0, 31),
    ),
    # Two sides that are not alike.
    Signature(
        "MoRIIO KV cache block size mismatch", "KvCacheUnlike",
        "set --block-size in spec.<role>.args to what the attention backend takes",
        _CONNECTOR, Version(0, 24),
    ),
    Signature(
        "MoRIIO KV cache num_blocks mismatch", "KvCacheUnlike", _ALIKE, _CONNECTOR, Version(0, 30),
    ),
    Signature(
        "region(s) for layer", "KvCacheUnlike", _ALIKE, _CONNECTOR, Version(0, 31),
    ),
    Signature(
        "tokens per block here and", "KvCacheUnlike", _ALIKE, _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "rank here and", "KvCacheUnlike", _ALIKE, _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "must have the same length:", "PrefixCacheBroken",
        "use vLLM 0.31 or newer (spec.engine.image), and leave prefix caching off until then",
        "moriio_layout.py", Version(0, 24), Version(0, 25, 1),
    ),
    Signature(
        "local_block_ids longer than remote_block_ids", "KvCacheUnlike", _ALIKE,
        "moriio_layout.py", Version(0, 26),
    ),
    Signature(
        "decode block ids exceed prefill block ids", "KvCacheUnlike", _ALIKE,
        _CONNECTOR, Version(0, 31),
    ),
    # What the router sent.
    Signature(
        "Malformed zmq_address", "RequestMalformed", _ROUTER,
        f"{_COMMON}, parse_moriio_zmq_address",
    ),
    Signature(
        "does not embed a peer", "RequestMalformed", _ROUTER,
        f"{_COMMON}, add_new_req", Version(0, 28),
    ),
    Signature(
        "Cannot parse peer zmq_address", "RequestMalformed", _ROUTER,
        f"{_COMMON}, get_peer_zmq_from_request_id", Version(0, 20), Version(0, 27, 1),
    ),
    Signature(
        "did not pin remote_dp_rank", "RequestMalformed", _ROUTER, _CONNECTOR, Version(0, 28),
    ),
    Signature(
        "Only prefill can get block messages", "RequestMalformed",
        "use vLLM 0.23 or newer (spec.engine.image)",
        _ENGINE,
    ),
    Signature(
        "Unhandled message format", "RequestMalformed",
        "use vLLM 0.23 or newer (spec.engine.image); on a newer one a stranger wrote to the "
        "engine's notify port",
        _ENGINE,
    ),
    # A peer that is gone, or a fabric that does not carry.
    Signature(
        "MoRI could not open a session from layer", "SessionNotOpened",
        "with XGMI let each side see all GPUs of the node (spec.<role>.devices.gpu.visibleDevices, "
        "its own first); with RDMA use one release of NIC driver and library on both nodes",
        _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "Eager MoRIIO handshake failed for", "HandshakeFailed", _PEER,
        _CONNECTOR, Version(0, 27),
    ),
    Signature(
        "send queue stayed full", "TransferFailed", _SPEED, _CONNECTOR, Version(0, 26),
    ),
    Signature(
        "RDMA read TIMED OUT", "TransferTimedOut",
        "look at the fabric between the nodes; spec.connector.receiveAbortTimeoutSeconds is how "
        "long decode waits",
        _CONNECTOR, Version(0, 28),
    ),
    Signature(
        "MoRIIO batch wait failed", "TransferFailed", _PEER, _ENGINE, Version(0, 33),
    ),
    Signature(
        "transfers failed:", "TransferFailed", _PEER, _ENGINE, Version(0, 23),
    ),
    Signature(
        "RDMA transfer failed", "TransferFailed", _PEER, _CONNECTOR, Version(0, 23),
    ),
    Signature(
        "Write task failed for request", "TransferFailed", _PEER, _ENGINE, Version(0, 23),
    ),
    Signature(
        "MoRIIO READ barrier failed", "TransferTimedOut", _SPEED, _CONNECTOR, Version(0, 33),
    ),
    Signature(
        "before the forward; aborting", "TransferFailed", _PEER, _CONNECTOR, Version(0, 31),
    ),
    Signature(
        "Timed out waiting for write_ready_flags", "HandshakeTimedOut", _PEER,
        _CONNECTOR, Version(0, 23),
    ),
    Signature(
        "Timed out waiting for load_ready_flag", "HandshakeTimedOut", _PEER,
        _CONNECTOR, Version(0, 23),
    ),
    Signature(
        "Deferred write task for request", "PeerDidNotAsk", _PEER, _ENGINE, Version(0, 23),
    ),
    Signature(
        "deferred sends with no finished_sending", "PeerDidNotFetch", _PEER,
        _CONNECTOR, Version(0, 23),
    ),
    Signature(
        "heartbeat exited with code", "HeartbeatEnded",
        "report it: the operator leaves vLLM's heartbeat off",
        "moriio_heartbeat.py", Version(0, 32),
    ),
)  # fmt: skip


def recognise(text: str) -> Signature | None:
    """Find what a log's end stands for; the first row that occurs is the most specific."""
    return next((signature for signature in SIGNATURES if signature.fragment in text), None)
