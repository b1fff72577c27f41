"""JNPL: negative and positive learning in one stage, with bounded losses (Kim et al., 2021)."""

from torch import Tensor

from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in, uniform
from permll.functional.negative_learning import (
    negative_learning_plus_loss,
    only_top_above_chance,
    positive_learning_plus_loss,
)
from permll.methods._base import PredictLogits, Stage, TrainPass, divide_epochs
from permll.methods.nlnl import PseudoLabeling


class JNPL(PseudoLabeling):
    """NL+ on complementary labels plus λ PL+ on predictions, then the two pseudo-label stages.

    NL+ is weighted by the inverse frequency of the label. PL+ trains a sample on its predicted class k, if every other
    class has a probability below 1/c, and then with probability p_k. For the stages after ``joint`` see
    ``PseudoLabeling``.

    Args:
        weight: λ, weight of PL+.
        complementary: complementary labels drawn per visit of a sample, with replacement; default as in NLNL, 1, and
            1.1 c for more than ten classes.
        threshold: lower bound of p̄_y for trusted labels.
        average: epochs over which p̄ is averaged.
        joint: epochs of the joint stage, or a fraction of all epochs if below 1; the authors' 1000, followed by NLNL's
            960.
        pseudo1: epochs of pseudo1, likewise; 480. The rest is pseudo2.
        lr: learning rate of the joint stage, a tenth of it after 80 % of the stage; default the recipe's.
    """

    def __init__(
        self,
        *,
        weight: float = 0.01,
        complementary: int | None = None,
        threshold: float = 0.5,
        average: int = 10,
        joint: float = 25 / 49,
        pseudo1: float = 12 / 49,
        lr: float | None = None,
    ) -> None:
        super().__init__(threshold, average, complementary)
        self.weight, self.lengths, self.lr = weight, (joint, pseudo1), lr

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return joint, pseudo1 and pseudo2."""
        joint, pseudo1, pseudo2 = divide_epochs(epochs, *self.lengths)
        optimizer = {} if self.lr is None else {"lr": self.lr}
        schedule = {"kind": "steps", "milestones": (0.8,), "gamma": 0.1}
        return (
            Stage("joint", joint, optimizer=optimizer, schedule=schedule),
            Stage("pseudo1", pseudo1, "fresh"),
            Stage("pseudo2", pseudo2, "fresh"),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over the selected samples, with the loss of the stage."""
        if number > 0:
            return None
        losses = {"joint": "loss", "pseudo1": "positive_loss", "pseudo2": "soft_loss"}
        return TrainPass(self._selected_stream(), losses[self.stage_at(epoch)])

    def loss(self, batch: Batch) -> Tensor:
        """Return w_y NL+ and, for samples selected as described above, λ PL+ (B,); updates p̄."""
        logits = self._record_logits(batch)
        # Without w_y, classes with few given labels are never predicted again: the mean of NL+ is the absolute error.
        negative = self.class_weights[batch.labels] * negative_learning_plus_loss(
            logits, self._complementary_labels(batch)
        )
        random = uniform(fold_in(batch.keys, 1), 1)[:, 0].to(logits.device)
        is_positive = only_top_above_chance(logits) & (random < logits.detach().softmax(-1).amax(-1))
        return negative + self.weight * is_positive * positive_learning_plus_loss(logits)
