"""The optimizers a recipe can name, one for each network, and their state by parameter name."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from permll.distributed.fsdp import full_tensor, is_sharded, shard_like
from permll.utils.messages import did_you_mean

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


def build_optimizer(network: nn.Module, name: str = "sgd", **settings: Any) -> torch.optim.Optimizer:
    """Return an optimizer of all parameters of a network, in the form that moves them all in one call.

    Examples:
        >>> build_optimizer(nn.Linear(2, 2), "sgd", lr=0.1, momentum=0.9).defaults["momentum"]
        0.9
    """
    if name not in OPTIMIZERS:
        raise ValueError(
            f"{name!r} is no optimizer{did_you_mean(name, OPTIMIZERS) or '.'} There are {', '.join(OPTIMIZERS)}."
        )
    known = [key for key in inspect.signature(OPTIMIZERS[name]).parameters if key != "params"]
    for key, value in settings.items():
        if key not in known:
            raise ValueError(
                f"{name} has no setting {key!r}{did_you_mean(key, known) or '.'} It has {', '.join(sorted(known))}."
            )
        if not isinstance(value, int | float | bool | list | tuple | None):
            raise ValueError(f"the setting {key} of {name} must be a number, got {value!r}.")
    parameters = list(network.parameters())
    # The fused form takes a fifth of the plain one's time. On the CPU its SGD leaves bfloat16 weights where they are,
    # and weights that ranks share it does not know.
    known_to_it = (torch.float32, torch.float64)
    fused = all(parameter.dtype in known_to_it and not is_sharded(parameter) for parameter in parameters)
    return OPTIMIZERS[name](parameters, **{"fused": fused, **settings})


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return what the optimizer remembers of each parameter, by its number; of weights that ranks share, whole."""
    state = optimizer.state_dict()["state"]
    return {str(number): _plain(entries) for number, entries in state.items()}


def load_optimizer_state(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Give it back; rates and decays stay those of the recipe."""
    state = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state["state"] = {
        int(number): {name: shard_like(value, parameters[int(number)]) for name, value in entries.items()}
        for number, entries in saved.items()
    }
    optimizer.load_state_dict(state)


def _plain(entries: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in entries.items() if value is None or isinstance(value, Tensor | int | float)}
    return {name: full_tensor(value) for name, value in kept.items()}
