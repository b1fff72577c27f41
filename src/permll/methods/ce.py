"""Cross-entropy on the given labels: the baseline."""

from torch import Tensor, nn

from permll.data.streams import Batch
from permll.methods._base import Method, setting


class CrossEntropy(Method):
    """Standard training with -log p_y.

    Args:
        label_smoothing: fraction of each target that is spread uniformly over the classes.
    """

    batch_coupling = "none"

    label_smoothing: float = setting(0.0, "[0, 1)")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,)."""
        logits = self.networks["net"](batch.x)
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none", label_smoothing=self.label_smoothing)
