"""Modes of a network: lent for looking at a batch, and given back as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[nn.Module]:
    """Lend a network in evaluation mode, in which it keeps no statistics of what it sees.

    Examples:
        >>> network = nn.Dropout()
        >>> with evaluating(network):
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
