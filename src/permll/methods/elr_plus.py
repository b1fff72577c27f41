"""ELR+: two networks, each held to what the other's running mean said of a sample, with mixup (NeurIPS 2020)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.data.transforms.mixing import mixup as draw_mix
from permll.functional.prediction_memory import elr_regularizer, elr_reweighted_labels, normalize_rows
from permll.functional.schedules import sigmoid_rampup
from permll.methods._base import FitInfo, Method, PredictLogits, StreamSpec, TrainPass
from permll.methods._state import SampleBuffer, State, check_top_k, storage_kwargs
from permll.methods.elr import one_hot, remember


class ELRPlus(Method):
    """ELR twice, crosswise: -Σ y log p + λ log(1 - <t, p>) on blends, t being a memory of what the other's mean said.

    Each network f has a running mean g of its weights, and a memory t of every sample. A step of f1 blends the batch
    with itself, inputs and given labels; g2 sees the inputs unblended, t ← β t + (1 - β) g2(x), and the memories are
    blended as the labels are. Then g1 follows f1. The networks take turns, an epoch each. They share one set of labels.

    Of g the weights alone are averaged. It looks at batches in training mode, with their own statistics, so that its
    running ones are never asked. f1 and f2 predict, not their means.

    Args:
        beta: β, how much of the memory a visit leaves; the authors' 0.9 under asymmetric noise and on CIFAR-100.
        lam: λ, the weight of the pull; the authors' 1 under asymmetric noise, 7 on CIFAR-100.
        lam_ramp: share of the steps in which λ rises from almost 0; the authors' 0, on CIFAR-100 the first 40,000
            steps.
        mixup: of the Beta distribution that blends are drawn from.
        decay: how much of the mean a step leaves.
        decay_ramp: share of the steps in which it rises to that from almost 0; the authors' 40,000 of 70,400 on
            CIFAR-10. With 0 it is a plain mean until that is as long as the decay says.
        supported: multiply labels by the memory before they are learned, and divide by their sum: the authors' code
            does on CIFAR-100, and the paper does not say so.
        draws: rows of an epoch, drawn anew and evenly over the given labels; default all.
        top_k: keep so many entries of a memory, and one number for the others; for many classes. Default all.
        state: how they are kept: ``"float32"``, ``"bfloat16"`` (half the room), or on ``"disk"``, in a temporary file.
    """

    network_names = ("net0", "net1", "mean0", "mean1")
    target0: SampleBuffer
    target1: SampleBuffer
    turn: Tensor
    steps: Tensor

    def __init__(
        self,
        *,
        beta: float = 0.7,
        lam: float = 3.0,
        lam_ramp: float = 0.0,
        mixup: float = 1.0,
        decay: float = 0.997,
        decay_ramp: float = 0.57,
        supported: bool = False,
        draws: int | None = None,
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        self.top_k, self.state = top_k, state
        for name, value in {"beta": beta, "decay": decay}.items():
            if not 0 <= value < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {value}.")
        for name, value in {"lam_ramp": lam_ramp, "decay_ramp": decay_ramp}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is a share of the steps, in [0, 1]; got {value}.")
        if lam < 0 or mixup <= 0:
            raise ValueError(f"lam must be 0 or more and mixup positive, got {lam} and {mixup}.")
        if draws is not None and draws < 2:
            raise ValueError(f"draws must be two or more, got {draws}.")
        self.beta, self.lam, self.lam_ramp, self.mixup = beta, lam, lam_ramp, mixup
        self.decay, self.decay_ramp, self.supported, self.draws = decay, decay_ramp, supported, draws
        self.register_buffer("turn", torch.zeros((), dtype=torch.int64))
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64))  # of each network

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the memories, which begin empty, and the means, which begin with the networks."""
        super().on_fit_start(info)
        self.target0, self.target1 = (
            SampleBuffer(info.labels, info.ids, (info.num_classes,), **storage_kwargs(self.top_k, self.state))
            for _ in range(2)
        )
        for number in range(2):
            self.networks[f"mean{number}"].load_state_dict(self.networks[f"net{number}"].state_dict())
        drawn = min((self.draws or info.num_samples) / info.num_samples, 1.0)
        self._total = info.epochs * info.steps_per_epoch * drawn  # steps of each network

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return a sweep for each network, over all rows or over a balanced draw of them."""
        if number > 1:
            return None
        self.turn.fill_(number)
        draw = StreamSpec() if self.draws is None else StreamSpec(order="balanced", draws=self.draws)
        return TrainPass({"batch": draw}, networks=(f"net{number}",))

    def loss(self, batch: Batch) -> Tensor:
        """Return -Σ y log p + λ log(1 - <t, p>), (B,), of the blends, with t after this visit."""
        own = int(self.turn)
        mix = draw_mix(batch.keys, self.mixup, keep_first=True)
        logits = self.networks[f"net{own}"](mix(batch.x)).float()
        with torch.no_grad():
            said = self.networks[f"mean{1 - own}"](batch.x).float()
        memory = mix(remember(self._targets[own], batch.index, said, self.beta))
        labels = mix(nn.functional.one_hot(batch.labels, logits.shape[1]).to(logits))
        if self.supported:
            labels = elr_reweighted_labels(labels, memory)
        given = nn.functional.cross_entropy(logits, labels, reduction="none")
        pull = self.lam * self._rise(own, self.lam_ramp)
        return given + pull * elr_regularizer(memory, logits)

    @torch.no_grad()
    def on_step_end(self) -> None:
        """Let the mean of the network in turn follow it."""
        own = int(self.turn)
        self.steps[own] += 1
        if self.decay_ramp > 0:
            decay = self.decay * self._rise(own, self.decay_ramp)
        else:
            decay = min(self.decay, 1 - 1 / (int(self.steps[own]) + 1))
        network, mean = self.networks[f"net{own}"], self.networks[f"mean{own}"]
        for following, followed in zip(mean.parameters(), network.parameters(), strict=True):
            following.lerp_(followed, 1 - decay)

    def predict(self, x: Tensor) -> Tensor:
        """Return the mean of both networks' probabilities (B, c)."""
        return torch.stack([self.networks[f"net{number}"](x).float().softmax(-1) for number in range(2)]).mean(0)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the mean of both memories, each row divided by its sum; the given label of one never visited."""
        memory, labels = self.target0.values + self.target1.values, self.target0.labels
        return normalize_rows(memory, one_hot(labels, memory))

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that the memories contradict."""
        return {"turned": _contradicted(self.target0.labels, *self._targets).double().mean().item()}

    @property
    def _targets(self) -> tuple[SampleBuffer, SampleBuffer]:
        return self.target0, self.target1

    def _rise(self, own: int, share: float) -> float:
        """Return a factor that has risen to 1 after a share of the steps."""
        return sigmoid_rampup(int(self.steps[own]) / (share * self._total)) if share > 0 else 1.0


def _contradicted(labels: Tensor, *memories: SampleBuffer) -> Tensor:
    """Return which labels (N,) memories that know something of the sample contradict, one or the sum of several."""
    turned = []
    for parts in zip(*(memory.table.chunks() for memory in memories), strict=True):
        at, t = parts[0][0], sum((rows for _, rows in parts[1:]), parts[0][1])
        turned.append((t.argmax(-1) != labels[at].to(t.device)) & (t.sum(-1) > 0))
    return torch.cat(turned)
