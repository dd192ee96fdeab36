"""Weights and optimizer state as whole tensors, also where a strategy (FSDP) keeps them in shards."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from evigrad.training import state
from evigrad.training.wrapped import WrappedNetwork


def network_state(network: WrappedNetwork) -> dict[str, Tensor]:
    """Whole parameters and buffers under ``network``; where they are sharded, on rank 0 alone. Collective."""
    if not network.sharded:
        return state.module_state(network.module, "network")
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    whole: Any = get_model_state_dict(network.inner, options=_whole())
    return state.prefixed(whole, "network")


def load_network(network: WrappedNetwork, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`network_state` took."""
    if not network.sharded:
        state.load_module(network.module, tensors, "network")
        return
    from torch.distributed.checkpoint.state_dict import set_model_state_dict

    held: Any = state.under(tensors, "network")
    set_model_state_dict(network.inner, held, options=_whole())


def optimizer_state(network: WrappedNetwork) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizer's tensors and numbers; where they are sharded, on rank 0 alone. Collective."""
    if not network.sharded:
        return state.optimizer_state(network.plain_optimizer)
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    whole: Any = get_optimizer_state_dict(network.inner, network.plain_optimizer, options=_whole())
    return state.flat(whole.get("state", {}))


def load_optimizer(network: WrappedNetwork, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Put back what :func:`optimizer_state` took."""
    if not network.sharded:
        state.load_optimizer(network.plain_optimizer, tensors, values)
        return
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    (group,) = network.plain_optimizer.param_groups
    settings = {key: value for key, value in group.items() if key != "params"}
    names = [name for name, parameter in network.inner.named_parameters() if parameter.requires_grad]
    whole: Any = {"state": state.nested(tensors, values), "param_groups": [{**settings, "params": names}]}
    set_optimizer_state_dict(network.inner, network.plain_optimizer, whole, options=_whole())


def _whole() -> Any:
    from torch.distributed.checkpoint.state_dict import StateDictOptions

    return StateDictOptions(full_state_dict=True, cpu_offload=True)
