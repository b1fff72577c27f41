"""Webly supervised learning: a fixed graph of class relations from easy samples (ICCV 2015)."""

from torch import Tensor

from permll import functional as PF
from permll.methods._base import PredictLogits, Stage, setting
from permll.methods._noise_layer import NoiseLayer


class Webly(NoiseLayer):
    """-log (p R)_y with a fixed relationship graph R: the baseline's mean prediction for easy samples of each label.

    Easy samples are those whose label the baseline predicts. A label without any gets an identity row.

    Args:
        baseline: epochs without the graph, or a fraction of all epochs if below 1.
        neighbors: labels that each class is related to, itself included: the strongest ones.
    """

    baseline: float = 0.75
    neighbors: int = setting(5, "[1, inf)")

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Compute the graph from the best baseline."""
        neighbors = min(self.neighbors, self.info.num_classes)
        probabilities = predict_logits(best=True).softmax(1)
        self.set_transition(PF.relationship_graph(probabilities, self.info.labels.cpu(), neighbors))

    def log_theta(self) -> Tensor:
        """Return log R."""
        return self.T.log()
