"""MLNT: meta-learning of a student that stays consistent with its teacher after steps on wrong labels (CVPR 2019)."""

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, divide_epochs, setting
from permll.methods._features import find_head, logits_and_features
from permll.utils.validation import check_range


class MLNT(Method):
    """Cross-entropy, and consistency with a teacher after meta-steps on synthetic labels.

    A mentor is trained first, with cross-entropy. Its best weights by noisy validation labels are frozen; its features
    determine the nearest neighbors within a batch. Then the student is trained from its own initial weights. In each
    step, M times, a random part of the batch gets the labels of neighbors, the student takes a meta-step on them,
    θ_m = θ - η ∇CE(θ, ŷ_m), and KL(teacher ‖ p(θ_m)) is added to the loss. The teacher is an exponential moving average
    (EMA) of the student, and predicts; before the EMA starts, it is a copy of the trained network.

    Args:
        baseline: epochs of the mentor, or a fraction of all epochs if below 1.
        perturbations: M, sets of synthetic labels per step.
        fraction: fraction of the batch that gets the label of a neighbor.
        neighbors: number of nearest neighbors to draw from.
        meta_lr: η, step size of the meta-steps.
        second_order: differentiate through the meta-step, as in the authors' code, or treat its gradient as constant,
            as in the paper, which is cheaper.
        weight: weight of the consistency; in the authors' code 1/c, by a mean over classes.
        begin: fraction of the student's steps after which EMA and consistency start.
        full: fraction of the student's steps after which the consistency has its full weight and the EMA its final
            decay.
        decay: initial decay of the EMA.
        final_decay: final decay of the EMA.
    """

    network_names = ("net", "teacher", "mentor")
    keeps_best = True

    baseline: float = 0.5
    perturbations: int = setting(10, "[1, inf)")
    fraction: float = setting(0.5, "[0, 1]")
    neighbors: int = setting(10, "[1, inf)")
    meta_lr: float = 0.2
    second_order: bool = True
    weight: float = 1.0
    begin: float = 0.016
    full: float = setting(0.064, "[0, 1]")
    decay: float = setting(0.99, "[0, 1]")
    final_decay: float = setting(0.999, "[0, 1]")

    def __post_init__(self) -> None:
        check_range(f"[0, {self.full}]", begin=self.begin)

    def on_fit_start(self, info: FitInfo) -> None:
        """Convert the schedule to steps."""
        super().on_fit_start(info)
        self.steps: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64))
        mentor, student = (stage.epochs * info.steps_per_epoch for stage in self.stages(info.epochs))
        self._student_start = mentor
        # At least one step without the teacher, so that it is a copy of the student before it is an average.
        self._teacher_start = mentor + max(1, math.ceil(self.begin * student))
        self._ramp_end = mentor + self.full * student

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the training of the mentor and of the student."""
        mentor, student = divide_epochs(epochs, self.baseline)
        return (
            Stage("mentor", mentor, loss="mentor_loss", networks=("mentor",)),
            Stage("student", student, "best", networks=("net",)),
        )

    def mentor_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,) of the mentor."""
        return cross_entropy(self.networks["mentor"](batch.x), batch.labels, reduction="none")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y of the student, and after the start a/M Σ_m KL(teacher ‖ p(θ_m)), (B,)."""
        student = self.networks["net"]
        logits, student_features = logits_and_features(student, batch.x)
        loss = cross_entropy(logits, batch.labels, reduction="none")
        step = int(self.steps)
        if step < self._teacher_start:
            return loss
        with torch.no_grad():
            _, features = logits_and_features(self.networks["mentor"].eval(), batch.x)
            teacher = self.networks["teacher"](batch.x).softmax(-1)
        neighbors = PF.batch_nearest_neighbors(features.float(), self.neighbors)
        parameters = dict(student.named_parameters())
        # In mixed precision, the output of Fabric's wrapper cannot be differentiated outside Fabric.backward.
        head = find_head(student)
        unwrapped_logits = head(student_features.to(head.weight.dtype))
        divergence = torch.zeros_like(loss)
        for _ in range(self.perturbations):
            synthetic_loss = cross_entropy(unwrapped_logits, self._perturb_labels(batch.labels, neighbors))
            updated = PF.differentiable_sgd_step(synthetic_loss, parameters, self.meta_lr, self.second_order)
            divergence = divergence + PF.consistency_loss(_call_with(student, updated, batch.x), teacher)
        ramp = PF.sigmoid_rampup((step - self._teacher_start) / max(self._ramp_end - self._teacher_start, 1))
        return loss + self.weight * ramp / self.perturbations * divergence

    @torch.no_grad()
    def on_step_end(self) -> None:
        """Update the teacher."""
        self.steps += 1
        step = int(self.steps)
        teacher = self.networks["teacher"]
        if step <= self._teacher_start:
            trained = self.networks["mentor" if step <= self._student_start else "net"]
            for average, value in zip(_tensors(teacher), _tensors(trained), strict=True):
                average.copy_(value)
            return
        num_averaged = step - self._teacher_start  # a plain mean over these, until the decay allows a longer window
        decay = min(self.decay if step <= self._ramp_end else self.final_decay, num_averaged / (num_averaged + 1))
        # Buffers are excluded: the teacher's batch norm statistics come from its own forward passes.
        for average, value in zip(teacher.parameters(), self.networks["net"].parameters(), strict=True):
            average.lerp_(value, 1 - decay)

    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's probabilities (B, c)."""
        return self.networks["teacher"](x).float().softmax(-1)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the teacher's probabilities (N, c)."""
        return predict_logits("teacher").softmax(-1)

    def _perturb_labels(self, labels: Tensor, neighbors: Tensor) -> Tensor:
        """Return the labels with a random part replaced by those of random neighbors."""
        count, k = neighbors.shape
        rows = torch.randperm(count)[: int(self.fraction * count) if k else 0]
        picks = torch.randint(max(k, 1), rows.shape)
        return PF.synthetic_noisy_labels(labels, neighbors, rows.to(labels.device), picks.to(labels.device))


def _call_with(network: nn.Module, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return the network's logits with other parameters; its batch norm statistics stay unchanged."""
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    # Fabric's wrapper contains the network under two names; tied weights would be restored in the wrong order.
    return functional_call(network, parameters | buffers, x, tie_weights=False)


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]
