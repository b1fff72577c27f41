"""A fully connected network for vectors, encoded tables and flattened images."""

from collections.abc import Sequence

from torch import Tensor, nn

from permll.networks._layers import FeatureClassifier, check_widths
from permll.utils.validation import check_range


class MLP(FeatureClassifier):
    """Linear layer, batch norm, ReLU and dropout for each width, then a linear head.

    Args:
        in_features: features of a sample, after flattening.
        num_classes: c.
        widths: units of each hidden layer; empty for a linear classifier.
        batch_norm: whether hidden layers have batch norm.
        dropout: dropout probability of hidden units.

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
        check_range("[0, 1)", dropout=dropout)
        layers: list[nn.Module] = []
        for width in check_widths(widths, 0):
            layers.append(nn.Linear(in_features, width, bias=not batch_norm))  # batch norm has a bias
            layers += [nn.BatchNorm1d(width)] if batch_norm else []
            layers.append(nn.ReLU(inplace=True))
            layers += [nn.Dropout(dropout)] if dropout else []
            in_features = width
        self.hidden = nn.Sequential(*layers)
        self.head = nn.Linear(in_features, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, last width), of samples (B, ...), which are flattened."""
        return self.hidden(x.flatten(1))
