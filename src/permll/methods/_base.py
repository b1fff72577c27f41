"""Method interface: networks, a loss, per-sample state, and the training passes of an epoch.

The trainer is the same for every method. It asks a method for the passes of an epoch, calls the loss that a pass names
on each of its batches, and updates the networks that the pass names. The complete state of a method is in its
``state_dict``.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, dataclass_transform

import torch
from torch import Tensor, nn

from permll.data.streams import Batch, Order
from permll.distributed.network import BatchCoupling as BatchCoupling
from permll.methods._settings import Setting, declared_settings, settings_signature
from permll.methods._settings import setting as setting


class FitInfo(NamedTuple):
    """Facts about the data that a method may use. Clean labels and the true noise rate are not among them."""

    labels: Tensor  # (N,) given labels
    ids: tuple[str, ...]
    num_classes: int
    epochs: int
    steps_per_epoch: int
    trusted: Tensor | None = None  # (N,) bool: samples whose labels are known to be correct
    held_out: Tensor | None = None  # (n,) noisy labels of held-out samples

    @property
    def num_samples(self) -> int:
        """Return N."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class StreamSpec:
    """Samples, order and views of one data stream of a training pass.

    Args:
        views: names of views: ``"weak"``, ``"strong"``, ``"plain"``, or a second draw of one such as ``"weak:2"``.
        order: sampling order, as ``Stream`` takes it.
        rows: (n,) int64 indices of the samples; default all.
        labels: (N,) labels to balance by, for balancing orders; default the given labels.
        draws: samples per epoch, for balancing orders.
        batch_factor: batch size as a multiple of the recipe's.
    """

    views: tuple[str, ...] = ("weak",)
    order: Order = "shuffled"
    rows: Tensor | None = None
    labels: Tensor | None = None
    draws: int | None = None
    batch_factor: float = 1.0


@dataclass(frozen=True, eq=False)
class TrainPass:
    """One pass over the data. The first stream sets its length; the other streams repeat as needed.

    Args:
        streams: streams by name. The loss receives one batch of each, as keyword arguments of these names.
        loss: name of the method's loss function.
        networks: networks to update; ``"own"`` means the method's other parameters. Default all, () none.
    """

    streams: Mapping[str, StreamSpec] = field(default_factory=lambda: {"batch": StreamSpec()})
    loss: str = "loss"
    networks: tuple[str, ...] | None = None


Weights = Literal["last", "best", "initial", "fresh"]


@dataclass(frozen=True)
class Stage:
    """Consecutive epochs with one optimizer and one schedule.

    Args:
        name: name in progress output and metrics.
        epochs: number of epochs.
        weights: initial weights: ``"last"``, those of the last step; ``"best"``, the best of the previous stage by
            ``Method.score`` (the last without validation data); ``"initial"``, the initial weights of the run; or
            ``"fresh"``, new random weights (the initial ones if the user passed a network instead of a function that
            builds one).
        optimizer: changes to the recipe's optimizer, which restarts with every stage; a different ``name`` drops the
            recipe's settings.
        schedule: changes to the recipe's schedule, which spans the epochs of the stage.
        loss: name of the loss function of its passes.
        networks: networks that its passes update, as in ``TrainPass``.
    """

    name: str
    epochs: int
    weights: Weights = "last"
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "loss"
    networks: tuple[str, ...] | None = None


def divide_epochs(epochs: int, *lengths: float) -> list[int]:
    """Return the epochs of each stage: one stage per length, and a last one with the remaining epochs.

    A length below 1 is a fraction of all epochs. Every stage gets at least one epoch.

    Examples:
        >>> divide_epochs(320, 70, 0.4)
        [70, 128, 122]
        >>> divide_epochs(3, 0.9, 0.05)
        [1, 1, 1]
    """
    num_stages = len(lengths) + 1
    if epochs < num_stages:
        raise ValueError(f"{num_stages} stages need at least {num_stages} epochs, got {epochs}.")
    stages: list[int] = []
    for number, length in enumerate(lengths):
        if length <= 0:
            raise ValueError(f"the length of a stage must be positive, in epochs or as a fraction; got {length}.")
        remaining = epochs - sum(stages) - (num_stages - 1 - number)
        stages.append(max(1, min(in_epochs(length, epochs), remaining)))
    return [*stages, epochs - sum(stages)]


def in_epochs(length: float, epochs: int) -> int:
    """Return a length in epochs; below 1 it is a fraction of all epochs.

    Examples:
        >>> in_epochs(0.25, 120), in_epochs(10, 120)
        (30, 10)
    """
    return round(length * epochs if length < 1 else length)


class PredictLogits(Protocol):
    """Logits of a network for training or held-out samples, in evaluation mode."""

    def __call__(
        self,
        network: str = "net",
        *,
        best: bool = False,
        view: str = "plain",
        rows: Tensor | None = None,
        held_out: bool = False,
    ) -> Tensor:
        """Return logits (N, c).

        Args:
            network: name of the network.
            best: use the best weights of the stage by ``Method.score`` instead of the current ones; see ``keeps_best``.
            view: view of the inputs.
            rows: (n,) int64 indices, for logits (n, c) of these samples in this order; default all.
            held_out: predict the held-out samples, whose labels are ``FitInfo.held_out``, not the training samples.
        """


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(setting,))
class Method(nn.Module):
    """Base class of the training methods. The constructor stores settings; ``on_fit_start`` allocates state.

    As in a dataclass, annotated class attributes with a default are settings, keyword-only arguments of the
    constructor; ``setting`` also declares the interval of the values. ``__post_init__`` can check them further. A
    subclass may define its own constructor instead.

    Parameters outside ``networks`` are updated by the recipe's optimizer too, without weight decay; their optimizer is
    named ``"own"``.

    Class attributes:
        network_names: networks that the method trains, of the same architecture with different seeds.
        keeps_best: whether the trainer keeps the best weights by ``score``, for later stages and ``predict_logits``.
        batch_coupling: how samples of a batch interact; determines what processes exchange. ``"inputs"``: inputs are
            mixed, selected or concatenated before a network sees them; every process computes all views.
            ``"logits"``: the loss of a sample depends on logits of other samples, or per-sample state is written;
            processes exchange logits. ``"none"``: the loss of a sample depends on that sample only; processes exchange
            gradients only. The default ``"inputs"`` is always correct; the others are cheaper.
        shardable: whether everything that the method does with a sample depends only on that sample, its label and its
            state. The state can then be sharded across processes, with ``batch_coupling`` ``"none"``.
    """

    network_names: ClassVar[tuple[str, ...]] = ("net",)
    keeps_best: ClassVar[bool] = False
    batch_coupling: ClassVar[BatchCoupling] = "inputs"
    shardable: ClassVar[bool] = False
    _settings: ClassVar[dict[str, Setting]] = {}
    __signature__: ClassVar[inspect.Signature | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._settings = declared_settings(cls)
        # A handwritten constructor has its own signature.
        cls.__signature__ = settings_signature(cls._settings) if cls.__init__ is Method.__init__ else None

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        settings_signature(self._settings).bind(**settings)  # TypeError for other names
        for name, declared in self._settings.items():
            value = settings.get(name, declared.default)
            declared.check(name, value)
            setattr(self, name, value)
        self.networks = nn.ModuleDict()
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check settings that depend on each other."""

    # Training

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate state that depends on the data."""
        self.info = info

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the stages, whose epochs sum to ``epochs``; by default one."""
        return (Stage("train", epochs),)

    def stage_at(self, epoch: int) -> str:
        """Return the name of the stage that contains ``epoch``."""
        return self._stage_of(epoch).name

    def _stage_of(self, epoch: int) -> Stage:
        return [stage for stage in self.stages(self.info.epochs) for _ in range(stage.epochs)][epoch]

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Prepare a stage; the networks still have the weights of the previous stage."""

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return how well predictions (n, c) fit the noisy validation labels (n,); higher is better."""
        return (probabilities.argmax(-1) == labels).double().mean().item()

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return pass ``number`` of an epoch, or None after the last; by default one pass over all samples.

        Checkpoints contain the returned pass, so a run that is interrupted within it resumes with the same samples.
        """
        if number > 0:
            return None
        return TrainPass(loss=self.loss_at(epoch), networks=self._stage_of(epoch).networks)

    def loss_at(self, epoch: int) -> str:
        """Return the name of the loss function of an epoch; by default that of the stage."""
        return self._stage_of(epoch).loss

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of each sample; the trainer takes the mean."""
        raise NotImplementedError

    def on_step_end(self) -> None:
        """Update state after an optimizer step."""

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Update state after the last pass of an epoch."""

    # Predictions

    def predict(self, x: Tensor) -> Tensor:
        """Return probabilities (B, c), by default the mean over the networks; training-only parts are left out."""
        return torch.stack([network(x).float().softmax(-1) for network in self.networks.values()]).mean(0)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the corrected labels as class probabilities (N, c); by default the networks' predictions."""
        return self.predict_probs(predict_logits)

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return the estimated probability that each given label is correct, (N,) in [0, 1]."""
        return self._given_label_probs(self.corrected_labels(predict_logits))

    def labels_and_quality(self, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return ``corrected_labels`` and ``label_quality``; computes predictions once if the latter follows."""
        corrected = self.corrected_labels(predict_logits)
        if type(self).label_quality is Method.label_quality:
            return corrected, self._given_label_probs(corrected)
        return corrected, self.label_quality(predict_logits)

    def predict_probs(self, predict_logits: PredictLogits, *, held_out: bool = False) -> Tensor:
        """Return the networks' mean probabilities (N, c) for all training samples, or for held-out samples."""
        logits = [predict_logits(name, held_out=True) if held_out else predict_logits(name) for name in self.networks]
        return torch.stack([one.softmax(-1) for one in logits]).mean(0)

    def _given_label_probs(self, class_probs: Tensor) -> Tensor:
        """Return the probability (N,) of each given label in ``class_probs`` (N, c)."""
        return class_probs.gather(1, self.info.labels.to(class_probs.device)[:, None])[:, 0]

    # Reporting and state

    def metrics(self) -> Mapping[str, float]:
        """Return training metrics that need no clean labels, for the progress display and metrics.jsonl."""
        return {}

    def resolved_params(self) -> dict[str, Any]:
        """Return the settings that the method derived from the data, for result.json."""
        return {}

    def extra_state(self) -> dict[str, Tensor]:
        """Return the state beside the networks: per-sample state and counters."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("networks.")}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore ``extra_state``; per-sample state is matched by sample id."""
        missing, unexpected = self.load_state_dict(dict(state), strict=False)
        missing = [name for name in missing if not name.startswith("networks.")]
        if missing or unexpected:
            raise ValueError(f"the state belongs to another method: missing {missing}, unexpected {unexpected}.")
