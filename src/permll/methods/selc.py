"""SELC: after the turning point, labels become a moving average of what the network says of them (IJCAI 2022)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.data.transforms.mixing import mixup
from permll.functional.mixture import fit_gaussian_mixture, loss_percentile_range, scale_losses
from permll.functional.mixup import mixup_blend, mixup_cross_entropy
from permll.methods._base import (
    BatchCoupling,
    FitInfo,
    Method,
    PredictLogits,
    Stage,
    TrainPass,
    divide_epochs,
    in_epochs,
)
from permll.methods._state import SampleBuffer, State, check_top_k, storage_kwargs
from permll.utils.indexing import split_repeats


class SELC(Method):
    """Cross-entropy on the given labels first, then on labels t that follow the network: t ← α t + (1 - α) p.

    t begins as the given label, which after n visits has the weight α^n left. Each visit moves t first and is trained
    on it then, with -Σ_k t_k log p_k.

    Correction must begin while the network does not know the wrong labels by heart. When that is, a rehearsal finds
    out: cross-entropy at a constant rate for some epochs, after each of which a mixture of two normal distributions is
    fitted to the losses of its visits. The turning point T_e is the epoch after which their means are farthest apart.
    Training then begins anew with the initial weights, and corrects from a few epochs before T_e on. No clean label is
    needed.

    Settings in epochs may be shares of all epochs instead, below 1.

    Args:
        alpha: α, how much of t a visit leaves.
        turning_point: epochs of cross-entropy before the correction begins; default what the rehearsal finds.
        rehearsal: epochs in which to look for T_e.
        earlier: how many epochs before T_e the correction begins.
        top_k: keep so many entries of t, and one number for the others; for many classes. Default all.
        state: how t is kept: ``"float32"``, as ``"bfloat16"`` (half the room), or on ``"disk"``, in a temporary file.
    """

    memory: SampleBuffer
    batch_coupling: ClassVar[BatchCoupling] = "logits"
    shardable = True
    losses: SampleBuffer
    distances: Tensor
    start: Tensor

    def __init__(
        self,
        *,
        alpha: float = 0.9,
        turning_point: float | None = None,
        rehearsal: float = 0.25,
        earlier: float = 0.05,
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        self.top_k, self.state = top_k, state
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha must lie in [0, 1), got {alpha}.")
        if earlier < 0 or (turning_point is not None and turning_point < 0):
            raise ValueError(f"epochs cannot be negative, got {earlier} and {turning_point}.")
        self.alpha, self.turning_point, self.rehearsal, self.earlier = alpha, turning_point, rehearsal, earlier

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the memory, which begins with the given labels, and room for what the rehearsal finds."""
        super().on_fit_start(info)
        kept = storage_kwargs(self.top_k, self.state)
        self.memory = SampleBuffer(info.labels, info.ids, (info.num_classes,), at_label=1.0, **kept)
        self.losses = SampleBuffer(info.labels, info.ids)
        rehearsal, *_ = self._lengths(info.epochs)
        self.register_buffer("distances", torch.zeros(rehearsal))
        self.register_buffer("start", torch.tensor(info.epochs))  # of the correction: not known yet
        if self.turning_point is not None:
            self._start_after(in_epochs(self.turning_point, info.epochs))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the rehearsal, if there is one, and a training that begins with the initial weights."""
        rehearsal, correction, *_ = self._lengths(epochs)
        if rehearsal == 0:
            return (Stage("correct", correction),)
        # The training it rehearses is longer: squeezed into a few epochs, its schedule would lower the rate too early.
        rehearse = Stage("rehearse", rehearsal, schedule={"kind": "constant"})
        return rehearse, Stage("correct", correction, "initial")

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Decide after the rehearsal when the correction begins."""
        if stage.name == "correct":
            assert self.info is not None
            self._start_after(self._found - in_epochs(self.earlier, self.info.epochs))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, on the given labels or on those that follow the network."""
        return None if number else TrainPass(loss="correct" if epoch >= int(self.start) else "loss")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,), and remember it."""
        losses = nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")
        self.losses.write(batch.index, losses)
        return losses

    def correct(self, batch: Batch) -> Tensor:
        """Return -Σ_k t_k log p_k (B,), with t after this visit."""
        logits = self.networks["net"](batch.x)
        return nn.functional.cross_entropy(logits, self._follow(batch.index, logits.detach()), reduction="none")

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Measure in the rehearsal how far apart the losses of right and of wrong labels seem to be."""
        if epoch < len(self.distances):
            losses = self.losses.values.cpu()
            mixture = fit_gaussian_mixture(scale_losses(losses, *loss_percentile_range(losses)))
            self.distances[epoch] = 0.0 if mixture is None else mixture.mean.diff().item()

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return t (N, c)."""
        return self.memory.values

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that turned."""
        turned = self.memory.argmax() != self.memory.labels
        return {"turned": turned.double().mean().item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return T_e as the rehearsal found it, and how many epochs of cross-entropy came before the correction."""
        begin = len(self.distances)
        return ({"turning_point": self._found} if begin else {}) | {"start": int(self.start) - begin}

    @property
    def _found(self) -> int:
        return int(self.distances.argmax()) + 1

    def _lengths(self, epochs: int) -> list[int]:
        """Return the epochs of the rehearsal, and of the stages that follow it."""
        return divide_epochs(epochs, self.rehearsal) if self.turning_point is None else [0, epochs]

    def _start_after(self, epochs: int) -> None:
        """Begin the correction after so many epochs of its stage: one at least, and not all of them."""
        assert self.info is not None
        rehearsal, correction, *_ = self._lengths(self.info.epochs)
        self.start.fill_(rehearsal + max(1, min(epochs, correction - 1)))

    def _follow(self, index: Tensor, logits: Tensor) -> Tensor:
        """Move t of each sample, in the batch's order where one comes twice; return it as each visit left it."""
        target, p = torch.empty_like(logits), logits.softmax(-1)
        for visits in split_repeats(index):
            samples = index[visits]
            target[visits] = self.alpha * self.memory.read(samples) + (1 - self.alpha) * p[visits]
            self.memory.write(samples, target[visits])
        return target


class SELCPlus(SELC):
    """SELC, and then a fresh network that learns the corrected labels, argmax t, with mixup.

    Args:
        alpha: α, how much of t a visit leaves.
        turning_point: epochs of cross-entropy before the correction begins; default what the rehearsal finds.
        rehearsal: epochs in which to look for T_e.
        earlier: how many epochs before T_e the correction begins.
        correction: epochs of SELC after the rehearsal; what remains is the fresh network's.
        mixup: of the Beta distribution that blends are drawn from.
        top_k: keep so many entries of t, and one number for the others; for many classes. Default all.
        state: how t is kept: ``"float32"``, as ``"bfloat16"`` (half the room), or on ``"disk"``, in a temporary file.
    """

    batch_coupling = "inputs"
    shardable = False

    def __init__(
        self,
        *,
        alpha: float = 0.9,
        turning_point: float | None = None,
        rehearsal: float = 0.15,
        earlier: float = 0.025,
        correction: float = 0.45,
        mixup: float = 0.9,
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__(
            alpha=alpha, turning_point=turning_point, rehearsal=rehearsal, earlier=earlier, top_k=top_k, state=state
        )
        if mixup <= 0:
            raise ValueError(f"mixup must be positive, got {mixup}.")
        self.correction, self.mixup = correction, mixup

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the stages of SELC, and one with fresh weights."""
        return (*super().stages(epochs), Stage("retrain", self._lengths(epochs)[-1], "fresh"))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, as SELC does or with the labels it has corrected."""
        assert self.info is not None
        if number == 0 and epoch >= self.info.epochs - self._lengths(self.info.epochs)[-1]:
            return TrainPass(loss="retrain")
        return super().train_pass(epoch, number, predict_logits)

    def retrain(self, batch: Batch) -> Tensor:
        """Return the cross-entropy (B,) of blends with the corrected labels of both samples."""
        partner, share = (part.to(batch.x.device) for part in mixup(batch.keys, self.mixup))
        logits = self.networks["net"](mixup_blend(batch.x, partner, share))
        return mixup_cross_entropy(logits, self.memory.read(batch.index).argmax(-1), partner, share)

    def _lengths(self, epochs: int) -> list[int]:
        if self.turning_point is None:
            return divide_epochs(epochs, self.rehearsal, self.correction)
        return [0, *divide_epochs(epochs, self.correction)]
