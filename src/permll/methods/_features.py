"""Penultimate features: the inputs of a network's last linear layer."""

from torch import Tensor, nn


def find_head(network: nn.Module) -> nn.Linear:
    """Return the last linear layer of a network, which computes the logits.

    Examples:
        >>> find_head(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))).in_features
        8
    """
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(f"{type(network).__name__} has no linear layer, so its features cannot be read.")
    return layers[-1]


def logits_and_features(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits (B, c) of a batch and the inputs (B, d) of the head.

    A forward hook on the head reads the features, so any network works, wrapped or not.

    Examples:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> logits, features = logits_and_features(net, torch.rand(5, 4))
        >>> torch.equal(net[2](features), logits)
        True
    """
    inputs: list[Tensor] = []
    handle = find_head(network).register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    try:
        logits = network(x)
    finally:
        handle.remove()
    features = inputs[-1].flatten(1)
    gather = getattr(network, "gather_features", None)  # of a network that several processes evaluate together
    return logits, features if gather is None else gather(features)
