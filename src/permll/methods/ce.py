"""Cross-entropy on the given labels: the baseline."""

from torch import Tensor, nn

from permll.data.streams import Batch
from permll.methods._base import Method
from permll.utils.validation import check_range


class CrossEntropy(Method):
    """Standard training with -log p_y.

    Args:
        label_smoothing: fraction of each target that is spread uniformly over the classes.
    """

    batch_coupling = "none"

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        check_range("[0, 1)", label_smoothing=label_smoothing)
        self.label_smoothing = label_smoothing

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,)."""
        logits = self.networks["net"](batch.x)
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none", label_smoothing=self.label_smoothing)
