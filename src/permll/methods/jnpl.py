"""JNPL: negative and positive learning joined in one stage, each with a kinder loss (Kim et al., 2021)."""

from torch import Tensor

from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in, uniform
from permll.functional.negative import negative_learning_plus_loss, only_top_above_chance, positive_learning_plus_loss
from permll.methods._base import PredictLogits, Stage, TrainPass, divide_epochs
from permll.methods.nlnl import PseudoLabelling


class JNPL(PseudoLabelling):
    """NL+ on complementary labels plus λ PL+ on what is predicted, then the two stages of pseudo labels.

    NL+ weighs a sample by how rare its label is. PL+ teaches a sample its own prediction k, if every other class has a
    probability below 1/c, and then with probability p_k. For the stages after ``joint`` see ``PseudoLabelling``.

    Args:
        weight: λ, of PL+.
        complementary: complementary labels drawn for each visit of a sample, with replacement; default as in NLNL, 1,
            and 1.1 c for more than ten classes.
        cut: what p̄_y must reach for a label to be trusted.
        average: epochs in the memory p̄.
        joint: epochs of the joint stage, below 1 as a share of all; the authors' 1000, with NLNL's 960 to follow.
        pseudo1: epochs of pseudo1 likewise; 480. The rest is pseudo2.
        lr: the learning rate of the joint stage, a tenth of it after four fifths; default the recipe's.
    """

    def __init__(
        self,
        *,
        weight: float = 0.01,
        complementary: int | None = None,
        cut: float = 0.5,
        average: int = 10,
        joint: float = 25 / 49,
        pseudo1: float = 12 / 49,
        lr: float | None = None,
    ) -> None:
        super().__init__(cut, average, complementary)
        self.weight, self.shares, self.lr = weight, (joint, pseudo1), lr

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return joint, pseudo1 and pseudo2."""
        joint, pseudo1, pseudo2 = divide_epochs(epochs, *self.shares)
        optimizer = {} if self.lr is None else {"lr": self.lr}
        schedule = {"kind": "steps", "milestones": (0.8,), "gamma": 0.1}
        return (
            Stage("joint", joint, optimizer=optimizer, schedule=schedule),
            Stage("pseudo1", pseudo1, "fresh"),
            Stage("pseudo2", pseudo2, "fresh"),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over the rows that the stage selects."""
        if number > 0:
            return None
        losses = {"joint": "loss", "pseudo1": "positive_loss", "pseudo2": "soft_loss"}
        return TrainPass(self._selected_rows(), losses[self.stage_at(epoch)])

    def loss(self, batch: Batch) -> Tensor:
        """Return w_y NL+ and, of samples that are settled and drawn, λ PL+ (B,); remember p."""
        logits = self._remembered_logits(batch)
        # Without w_y, classes with few given labels are never predicted again: NL+ is the absolute error on the mean.
        negative = self.class_weights[batch.labels] * negative_learning_plus_loss(
            logits, self._complementary_labels(batch)
        )
        chance = uniform(fold_in(batch.keys, 1), 1)[:, 0].to(logits.device)
        taught = only_top_above_chance(logits) & (chance < logits.detach().softmax(-1).amax(-1))
        return negative + self.weight * taught * positive_learning_plus_loss(logits)
