"""The fully connected network, for vectors, encoded tables, and images taken as vectors."""

from collections.abc import Sequence

from torch import Tensor, nn

from permll.networks._parts import read_widths


class MLP(nn.Module):
    """Linear, batch norm, ReLU and dropout for each of ``widths``; then one linear layer, the head.

    Args:
        in_features: numbers per sample, after flattening.
        num_classes: c.
        widths: units of each hidden layer; none make it a linear classifier.
        batch_norm: normalise each hidden layer.
        dropout: the chance in [0, 1) that a hidden unit is left out of a training step.

    Examples:
        >>> import torch
        >>> MLP(64, 10)(torch.rand(5, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        widths: Sequence[int] = (256, 128),
        batch_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout!r}.")
        layers: list[nn.Module] = []
        for width in read_widths(widths, 0):
            layers.append(nn.Linear(in_features, width, bias=not batch_norm))  # batch norm has a bias of its own
            layers += [nn.BatchNorm1d(width)] if batch_norm else []
            layers.append(nn.ReLU(inplace=True))
            layers += [nn.Dropout(dropout)] if dropout else []
            in_features = width
        self.hidden = nn.Sequential(*layers)
        self.head = nn.Linear(in_features, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return what the head sees: (B, last width)."""
        return self.hidden(x.flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, c) of (B, F), or of anything that flattens to it."""
        return self.head(self.features(x))
