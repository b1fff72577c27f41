"""JNPL: negative and positive learning in one stage, with bounded losses (Kim et al., 2021)."""

from torch import Tensor

from permll import functional as PF
from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in, uniform
from permll.methods._base import Stage, divide_epochs
from permll.methods.nlnl import PseudoLabeling


class JNPL(PseudoLabeling):
    """NL+ on complementary labels plus λ PL+ on predictions, then the two pseudo-label stages.

    NL+ is weighted by the inverse frequency of the label. PL+ trains a sample on its predicted class k, if every other
    class has a probability below 1/c, and then with probability p_k. For the stages after ``joint`` and
    further settings see ``PseudoLabeling``.

    Args:
        weight: λ, weight of PL+.
        joint: epochs of the joint stage, or a fraction of all epochs if below 1; the authors' 1000, followed by NLNL's
            960.
        pseudo1: epochs of pseudo1, likewise; 480. The rest is pseudo2.
        lr: learning rate of the joint stage, a tenth of it after 80 % of the stage; default the recipe's.
    """

    weight: float = 0.01
    joint: float = 25 / 49
    pseudo1: float = 12 / 49
    lr: float | None = None

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return joint, pseudo1 and pseudo2."""
        joint, *pseudo = divide_epochs(epochs, self.joint, self.pseudo1)
        optimizer = {} if self.lr is None else {"lr": self.lr}
        schedule = {"kind": "steps", "milestones": (0.8,), "gamma": 0.1}
        return Stage("joint", joint, optimizer=optimizer, schedule=schedule), *self._pseudo_stages(*pseudo)

    def loss(self, batch: Batch) -> Tensor:
        """Return w_y NL+ and, for samples selected as described above, λ PL+ (B,); updates p̄."""
        logits = self._record_logits(batch)
        # Without w_y, classes with few given labels are never predicted again: the mean of NL+ is the absolute error.
        negative = self.class_weights[batch.labels] * PF.negative_learning_plus_loss(
            logits, self._complementary_labels(batch)
        )
        random = uniform(fold_in(batch.keys, 1), 1)[:, 0].to(logits.device)
        is_positive = PF.only_top_above_chance(logits) & (random < logits.detach().softmax(-1).amax(-1))
        return negative + self.weight * is_positive * PF.positive_learning_plus_loss(logits)
