"""Base class of methods with a transition matrix."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.functional.transition import condition_number
from permll.methods._base import FitInfo, Method, PredictLogits

MAX_CONDITION = 1e9  # JSON has no infinity


class TransitionMethod(Method):
    """Method with T[i, j] = P(given label j | clean class i), which is the identity until it is estimated."""

    batch_coupling = "none"

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate T."""
        super().on_fit_start(info)
        self.T = nn.Buffer(torch.eye(info.num_classes))
        self.is_estimated = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def set_transition(self, T: Tensor) -> None:
        """Set T (c, c)."""
        self.T.copy_(T)
        self.is_estimated.fill_(1)

    @property
    def transition(self) -> Tensor:
        """The current T (c, c), without negative entries."""
        return self.T

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p(clean class i | x, given label y) ∝ p_i T[i, y], (N, c); before T is estimated, p."""
        logits = predict_logits()
        if not self.is_estimated:
            return logits.softmax(-1)
        return PF.clean_posterior(logits, self.info.labels.to(logits.device), self.transition.to(logits.device))

    def metrics(self) -> dict[str, float]:
        """Return the condition number of T and the mean of its diagonal, an estimate of the label accuracy."""
        T = self.transition.cpu()
        return {
            "T_condition": min(condition_number(T), MAX_CONDITION),
            "T_diagonal": T.diagonal().double().mean().item(),
        }


def read_transition(source: list[list[float]] | str, num_classes: int) -> Tensor:
    """Return T (c, c), float64, from nested lists or from a file.

    Args:
        source: rows, or the path of a ``.npy`` or comma-separated ``.csv`` file.
        num_classes: c.

    Examples:
        >>> read_transition([[0.5, 0.5], [0.0, 1.0]], 2)
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    title = f"the transition matrix {source}" if isinstance(source, str) else "the transition matrix"
    try:
        values = np.asarray(_read_matrix(source) if isinstance(source, str) else source, dtype=np.float64)
    except (OSError, ValueError) as error:
        raise ValueError(f"{title} cannot be read: {str(error).rstrip('.')}.") from None
    if values.shape != (num_classes, num_classes):
        shape = " x ".join(map(str, values.shape))
        raise ValueError(f"{title} must have {num_classes} rows and columns, one per class; it is {shape}.")
    invalid = [i for i, row in enumerate(values) if not (np.all(row >= 0) and abs(row.sum() - 1) < 1e-3)]
    if invalid:
        raise ValueError(
            f"{title} must have rows of probabilities, T[i, j] = P(given label j | clean class i), that sum to one; "
            f"row {invalid[0]} does not."
        )
    return torch.from_numpy(values / values.sum(1, keepdims=True))


def _read_matrix(name: str) -> np.ndarray:
    path = Path(name).expanduser()
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2)
    raise ValueError("it must be a .npy or a .csv file")
