"""What vLLM lacks on a CPU to serve a mixture of experts with more than one rank.

The ranks bring their tokens together before each layer of experts, and share out the sums after it.
vLLM 0.32 chooses its manager for that on a CPU as well, and then finds two collectives unwritten;
and its CPU kernel is not told which experts a rank has, so it reads those of others out of bounds.
vLLM loads this as a plugin in each of its processes. Collectives that a version has stay its own.
"""

from collections.abc import Callable
from typing import Any

# Neither is in the environment for development, where this file is only checked.
import torch  # type: ignore[import-not-found]
from torch import distributed  # type: ignore[import-not-found]


def all_gatherv(communicator: Any, input_: Any, dim: int = 0, sizes: Any = None) -> Any:
    """Give every rank the rows of all, in the order of the ranks; for each tensor of a list."""
    if dim != 0:
        raise NotImplementedError(f"rows are gathered, not dimension {dim}")
    if isinstance(input_, list):
        return [all_gatherv(communicator, tensor, dim, sizes) for tensor in input_]
    counts = sizes or [len(input_)] * communicator.world_size
    parts = [input_.new_empty((count, *input_.shape[1:])) for count in counts]
    parts[communicator.rank_in_group] = input_.contiguous()
    # Gloo's own gather wants parts of one size.
    for rank, part in zip(communicator.ranks, parts, strict=True):
        distributed.broadcast(part, rank, group=communicator.device_group)
    return torch.cat(parts)


def reduce_scatterv(communicator: Any, input_: Any, dim: int = 0, sizes: Any = None) -> Any:
    """Add up what all ranks bring, and give each its own rows of the sum."""
    if dim != 0:
        raise NotImplementedError(f"rows are shared out, not dimension {dim}")
    total = input_.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total, group=communicator.device_group)
    counts = sizes or [len(input_) // communicator.world_size] * communicator.world_size
    return torch.split(total, counts)[communicator.rank_in_group].clone()


def with_own_experts(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Let the kernel see a rank's own experts, by their place there; others weigh nothing."""

    def applied(self: Any, *args: Any, **kwargs: Any) -> Any:
        expert_map = kwargs.get("expert_map")
        if expert_map is not None:
            places = expert_map[kwargs["topk_ids"].long()]
            kwargs["topk_weights"] = kwargs["topk_weights"].masked_fill(places < 0, 0)
            kwargs["topk_ids"] = places.clamp(min=0).to(kwargs["topk_ids"].dtype)
        return apply(self, *args, **kwargs)

    return applied


def register() -> None:
    """Add to vLLM's classes what is missing there, once a process."""
    from vllm.distributed.device_communicators import (  # type: ignore[import-not-found]  # noqa: PLC0415
        base_device_communicator,
        cpu_communicator,
    )
    from vllm.model_executor.layers.fused_moe.experts import (  # type: ignore[import-not-found]  # noqa: PLC0415
        cpu_moe,
    )

    unwritten = base_device_communicator.DeviceCommunicatorBase
    communicator = cpu_communicator.CpuCommunicator
    for ours in (all_gatherv, reduce_scatterv):
        if getattr(communicator, ours.__name__) is getattr(unwritten, ours.__name__):
            setattr(communicator, ours.__name__, ours)
    experts = cpu_moe.CPUUnquantizedExperts
    experts.apply = with_own_experts(experts.apply)
