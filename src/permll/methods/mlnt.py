"""MLNT: a student that keeps to its teacher even after a step on wrong labels (CVPR 2019)."""

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from permll.data.streams import Batch
from permll.functional.meta import (
    batch_nearest_neighbors,
    consistency_loss,
    differentiable_sgd_step,
    synthetic_noisy_labels,
)
from permll.functional.schedules import sigmoid_rampup
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, TrainPass, divide_epochs
from permll.methods._features import head_of, logits_and_features


class MLNT(Method):
    """Cross-entropy, and consistency with a teacher after imagined steps on synthetic labels.

    First a mentor is trained with cross-entropy alone. Its weights that fit noisy validation labels best are frozen: by
    its features, one knows which samples of a batch are alike. Then the student begins from weights of its own. In each
    of its steps, M times, a part of the batch gets the labels of neighbors, the student imagines a step on them,
    θ_m = θ - η ∇CE(θ, ŷ_m), and pays KL(teacher ‖ p(θ_m)). The teacher is the running mean of the student, and the one
    who predicts; until that mean begins, it is a copy of whoever is trained.

    Args:
        baseline: how long the mentor is trained: below 1 a share of all epochs, else epochs.
        perturbations: M, the sets of synthetic labels per step.
        share: of the batch that gets the label of a neighbor.
        neighbors: how many of the nearest come into question.
        meta_lr: η, of the imagined steps.
        second_order: whether gradients see that an imagined step depends on the weights, as in the authors' code, or
            not, as the paper says: for less time and memory.
        weight: of the consistency; in the authors' code it is 1/c, by a mean over classes.
        begin: after which share of the student's steps running mean and consistency begin.
        full: at which share the consistency has its full weight, and the running mean its final decay.
        decay: of the running mean until then.
        final_decay: of the running mean from then on.
    """

    network_names = ("net", "teacher", "mentor")
    keeps_best = True

    def __init__(
        self,
        *,
        baseline: float = 0.5,
        perturbations: int = 10,
        share: float = 0.5,
        neighbors: int = 10,
        meta_lr: float = 0.2,
        second_order: bool = True,
        weight: float = 1.0,
        begin: float = 0.016,
        full: float = 0.064,
        decay: float = 0.99,
        final_decay: float = 0.999,
    ) -> None:
        super().__init__()
        if perturbations < 1 or neighbors < 1:
            raise ValueError(f"perturbations and neighbors must be one or more, got {perturbations} and {neighbors}.")
        for name, value in {"share": share, "decay": decay, "final_decay": final_decay}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {value}.")
        if not 0 <= begin <= full <= 1:
            raise ValueError(f"begin and full must lie in [0, 1], in this order, got {begin} and {full}.")
        self.baseline, self.perturbations, self.share, self.neighbors = baseline, perturbations, share, neighbors
        self.meta_lr, self.second_order, self.weight = meta_lr, second_order, weight
        self.begin, self.full, self.decay, self.final_decay = begin, full, decay, final_decay
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.steps: Tensor

    def on_fit_start(self, info: FitInfo) -> None:
        """Find the steps at which something begins."""
        super().on_fit_start(info)
        mentor, student = (stage.epochs * info.steps_per_epoch for stage in self.stages(info.epochs))
        self._first_of_student = mentor
        # One step is plain at least: the teacher is to be a copy of the student before it is a mean.
        self._first_with_teacher = mentor + max(1, math.ceil(self.begin * student))
        self._first_in_full = mentor + self.full * student

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the mentor's training and the student's, which has not moved when it begins."""
        mentor, student = divide_epochs(epochs, self.baseline)
        return Stage("mentor", mentor), Stage("student", student, "best")

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, in which the mentor moves, or the student."""
        if number > 0:
            return None
        assert self.info is not None
        if epoch < self.stages(self.info.epochs)[0].epochs:
            return TrainPass(loss="mentor_loss", networks=("mentor",))
        return TrainPass(networks=("net",))

    def mentor_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,) of the mentor."""
        return cross_entropy(self.networks["mentor"](batch.x), batch.labels, reduction="none")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y of the student, and as soon as there is a teacher a/M Σ_m KL(teacher ‖ p(θ_m)), (B,)."""
        student = self.networks["net"]
        logits, seen = logits_and_features(student, batch.x)
        loss = cross_entropy(logits, batch.labels, reduction="none")
        step = int(self.steps)
        if step < self._first_with_teacher:
            return loss
        with torch.no_grad():
            _, features = logits_and_features(self.networks["mentor"].eval(), batch.x)
            teacher = self.networks["teacher"](batch.x).softmax(-1)
        neighbors = batch_nearest_neighbors(features.float(), self.neighbors)
        parameters = dict(student.named_parameters())
        # In mixed precision only the loop may ask for gradients of what the wrapper around a network returns.
        head = head_of(student)
        unwrapped = head(seen.to(head.weight.dtype))
        kept_to = torch.zeros_like(loss)
        for _ in range(self.perturbations):
            wrong = cross_entropy(unwrapped, self._perturbed(batch.labels, neighbors))
            imagined = differentiable_sgd_step(wrong, parameters, self.meta_lr, self.second_order)
            kept_to = kept_to + consistency_loss(_called_with(student, imagined, batch.x), teacher)
        ramp = sigmoid_rampup(
            (step - self._first_with_teacher) / max(self._first_in_full - self._first_with_teacher, 1)
        )
        return loss + self.weight * ramp / self.perturbations * kept_to

    @torch.no_grad()
    def on_step_end(self) -> None:
        """Let the teacher follow."""
        self.steps += 1
        step = int(self.steps)
        teacher = self.networks["teacher"]
        if step <= self._first_with_teacher:
            trained = self.networks["mentor" if step <= self._first_of_student else "net"]
            for own, followed in zip(_tensors(teacher), _tensors(trained), strict=True):
                own.copy_(followed)
            return
        taken = step - self._first_with_teacher  # a plain mean over these, until it is as long as the decay says
        decay = min(self.decay if step <= self._first_in_full else self.final_decay, taken / (taken + 1))
        # Not the buffers: the statistics of the teacher's batch norms are those of its own passes.
        for own, followed in zip(teacher.parameters(), self.networks["net"].parameters(), strict=True):
            own.lerp_(followed, 1 - decay)

    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's probabilities (B, c)."""
        return self.networks["teacher"](x).float().softmax(-1)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the teacher's probabilities (N, c)."""
        return predict_logits("teacher").softmax(-1)

    def _perturbed(self, labels: Tensor, neighbors: Tensor) -> Tensor:
        """Return the labels with a random part replaced by those of random neighbors."""
        count, k = neighbors.shape
        rows = torch.randperm(count)[: int(self.share * count) if k else 0]
        picks = torch.randint(max(k, 1), rows.shape)
        return synthetic_noisy_labels(labels, neighbors, rows.to(labels.device), picks.to(labels.device))


def _called_with(network: nn.Module, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return the network's logits with other parameters; the statistics of its batch norms stay as they are."""
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    # The wrapper around a network has it under two names, and tied weights would be put back in the wrong order.
    return functional_call(network, parameters | buffers, x, tie_weights=False)


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]
