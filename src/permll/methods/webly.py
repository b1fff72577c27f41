"""Webly supervised learning: a fixed graph of related classes, read off easy images (ICCV 2015)."""

from torch import Tensor

from permll.functional.noise_adaptation import relationship_graph
from permll.methods._base import PredictLogits, Stage
from permll.methods._noise_layer import NoiseLayer


class Webly(NoiseLayer):
    """-log (p R)_y with a fixed relationship graph R: what the baseline says on average of easy rows of each label.

    Easy are the rows whose label the baseline predicts. A label without any is related to itself alone.

    Args:
        baseline: how long the network is trained without the graph: below 1 a share of all epochs, else epochs.
        neighbors: how many labels each class is related to, itself included: the strongest.
    """

    def __init__(self, *, baseline: float = 0.75, neighbors: int = 5) -> None:
        super().__init__(baseline=baseline)
        if neighbors < 1:
            raise ValueError(f"neighbors must be one or more, got {neighbors}.")
        self.neighbors = neighbors

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Draw the graph from the best baseline."""
        assert self.info is not None
        kept = min(self.neighbors, self.info.num_classes)
        self.set_transition(relationship_graph(predict_logits(best=True).softmax(1), self.info.labels.cpu(), kept))

    def log_theta(self) -> Tensor:
        """Return log R."""
        return self.T.log()
