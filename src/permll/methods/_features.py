"""What a network sees last: the inputs of its head, whatever the network is."""

from torch import Tensor, nn


def head_of(network: nn.Module) -> nn.Linear:
    """Return the last linear layer of a network, which makes the logits.

    Examples:
        >>> head_of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))).in_features
        8
    """
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(f"{type(network).__name__} has no linear layer that makes its logits: it has no features.")
    return layers[-1]


def logits_and_features(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits (B, c) of a batch and what its head made them from, (B, d).

    A hook listens at the head, so that the network may be any, wrapped or not.

    Examples:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> logits, features = logits_and_features(net, torch.rand(5, 4))
        >>> torch.equal(net[2](features), logits)
        True
    """
    heard: list[Tensor] = []
    handle = head_of(network).register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    try:
        logits = network(x)
    finally:
        handle.remove()
    features = heard[-1].flatten(1)
    gather = getattr(network, "gather_features", None)  # a network that several processes evaluate together
    return logits, features if gather is None else gather(features)
