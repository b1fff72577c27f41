"""Context manager for evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[nn.Module]:
    """Put a network in evaluation mode, and restore its mode afterwards.

    Examples:
        >>> network = nn.Dropout()
        >>> with eval_mode(network):
        ...     print(network.training)
        False
        >>> network.training
        True
    """
    was_training = network.training
    network.eval()
    try:
        yield network
    finally:
        network.train(was_training)
