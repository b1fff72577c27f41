"""What methods with a transition matrix share: where T lives, what is watched of it, and what it says of labels."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from permll.functional.transition import clean_posterior, condition_number
from permll.methods._base import FitInfo, Method, PredictLogits

LARGEST_CONDITION = 1e9  # shown for a singular matrix too: files of metrics know no infinity


class TransitionMethod(Method):
    """A method with T[i, j] = P(given label j | clean class i), which is the identity until it is known."""

    batch_coupling = "none"

    T: Tensor
    known: Tensor

    def on_fit_start(self, info: FitInfo) -> None:
        """Make room for T."""
        super().on_fit_start(info)
        self.register_buffer("T", torch.eye(info.num_classes))
        self.register_buffer("known", torch.zeros((), dtype=torch.int64))

    def set_transition(self, T: Tensor) -> None:
        """Take T (c, c) for known."""
        self.T.copy_(T)
        self.known.fill_(1)

    @property
    def transition(self) -> Tensor:
        """T (c, c) as it stands, without negative entries."""
        return self.T

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p(clean class | x, given label) ∝ p_i T[i, y], (N, c); before T is known, p."""
        assert self.info is not None
        logits = predict_logits()
        if not self.known:
            return logits.softmax(-1)
        return clean_posterior(logits, self.info.labels.to(logits.device), self.transition.to(logits.device))

    def metrics(self) -> Mapping[str, float]:
        """Return the condition number of T and the mean of its diagonal, the share of labels it takes for right."""
        T = self.transition.cpu()
        return {
            "T_condition": min(condition_number(T), LARGEST_CONDITION),
            "T_diagonal": T.diagonal().double().mean().item(),
        }


def read_transition(given: list[list[float]] | str, num_classes: int) -> Tensor:
    """Return T (c, c), float64, from rows of numbers or from a file of them; say what is wrong with any other.

    Args:
        given: rows, or the path of a ``.npy`` file or of a ``.csv`` file with commas.
        num_classes: c.

    Examples:
        >>> read_transition([[0.5, 0.5], [0.0, 1.0]], 2)
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    where = f"the transition matrix {given}" if isinstance(given, str) else "the transition matrix"
    try:
        values = np.asarray(_read(given) if isinstance(given, str) else given, dtype=np.float64)
    except (OSError, ValueError) as problem:
        raise ValueError(f"{where} cannot be read: {str(problem).rstrip('.')}.") from None
    if values.shape != (num_classes, num_classes):
        shape = " x ".join(map(str, values.shape))
        raise ValueError(f"{where} must have {num_classes} rows and columns, one for each class; it is {shape}.")
    wrong = [i for i, row in enumerate(values) if not (np.all(row >= 0) and abs(row.sum() - 1) < 1e-3)]
    if wrong:
        raise ValueError(
            f"{where} must have rows of probabilities, T[i, j] = P(given label j | clean class i), that sum to one; "
            f"row {wrong[0]} does not."
        )
    return torch.from_numpy(values / values.sum(1, keepdims=True))


def _read(name: str) -> np.ndarray:
    path = Path(name).expanduser()
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2)
    raise ValueError("it must be a .npy or a .csv file")
