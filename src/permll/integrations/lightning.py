"""``PermLLCallback``: a permutation layer in a training with Lightning."""

# ruff: noqa: ARG001, ARG002 (hooks have the arguments of Lightning)

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from permll.layer.base import CorrectionLayer
from permll.layer.module import PermutationLayer
from permll.utils.messages import format_list, install_hint

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise ImportError(f"PermLLCallback needs Lightning: {install_hint('lightning')}") from None


class PermLLCallback(Callback):
    """Step, save, restore and log the permutation layer of a ``LightningModule``.

    ``training_step`` returns ``self.layer(logits, index)``, with the index that ``permll.IndexedDataset`` adds to the
    samples of the training set. The callback does the rest:

    - It calls ``layer.step()`` when the optimizer has stepped: once for the batches of an accumulated gradient. A step
      that mixed precision skips discards its batches.
    - Checkpoints contain the layer, also if it is not a submodule of the ``LightningModule``.
    - In validation, test and prediction the layer is in evaluation mode, and ``layer(logits, index)`` is an error: its
      rows belong to training samples. Use ``F.cross_entropy(logits, y)`` there.
    - It logs ``permll/corrected_share``, the fraction of corrected labels, ``permll/mean_label_quality``, and of the
      default layer ``permll/is_warm_up`` and ``permll/label_accuracy``, after every epoch.

    Args:
        layer: the layer, or the name of the attribute of the ``LightningModule``, such as ``"layer"`` or
            ``"head.layer"``. Default: the only layer among its submodules.
        name: prefix of the logged values, and key of the layer in checkpoints; different for each of several callbacks.

    Examples:
        >>> from permll import PermutationLayer
        >>> layer = PermutationLayer([0, 1, 2], num_classes=3)
        >>> PermLLCallback(layer).log_values(layer)
        {'corrected_share': 0.0, 'mean_label_quality': 1.0, 'is_warm_up': 1.0, 'label_accuracy': 1.0}
    """

    def __init__(self, layer: CorrectionLayer | str | None = None, *, name: str = "permll") -> None:
        if not (layer is None or isinstance(layer, CorrectionLayer | str)):
            raise TypeError(
                f"layer must be a permutation layer or the name of an attribute, got {type(layer).__name__}."
            )
        self.layer, self.name = layer, name
        self._found: CorrectionLayer | None = None
        self._optimizer_steps = 0
        self._loss_scale = 0.0
        self._was_training = True
        self._guard: Any = None  # handle of the hook that refuses calls in validation

    @property
    def state_key(self) -> str:
        """Key of this callback in checkpoints."""
        return self._generate_state_key(name=self.name)

    def find_layer(self, pl_module: "LightningModule") -> CorrectionLayer:
        """Return the layer; raise if it is not found."""
        if isinstance(self.layer, CorrectionLayer):
            return self.layer
        if self._found is None:
            self._found = _find(self.layer, pl_module)
        return self._found

    def setup(self, trainer: "Trainer", pl_module: "LightningModule", stage: str) -> None:
        """Forget the layer of an earlier ``LightningModule``."""
        self._found = None

    def on_train_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Discard the visits of a training that was interrupted before its optimizer stepped."""
        self.find_layer(pl_module).zero_grad()

    def on_train_batch_start(
        self, trainer: "Trainer", pl_module: "LightningModule", batch: Any, batch_idx: int
    ) -> None:
        """Remember the state of the optimizer."""
        self._optimizer_steps, self._loss_scale = trainer.global_step, _loss_scale(trainer)

    def on_train_batch_end(
        self, trainer: "Trainer", pl_module: "LightningModule", outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Step the layer if the optimizer was called; discard the visits if mixed precision skipped its step."""
        if trainer.global_step == self._optimizer_steps:
            return  # the gradient is being accumulated
        layer = self.find_layer(pl_module)
        if _loss_scale(trainer) < self._loss_scale:
            layer.zero_grad()
        else:
            layer.step()

    def on_train_epoch_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Log what the layer has found."""
        for key, value in self.log_values(self.find_layer(pl_module)).items():
            pl_module.log(f"{self.name}/{key}", value, sync_dist=True)  # equal on all processes

    def log_values(self, layer: CorrectionLayer) -> dict[str, float]:
        """Return the values that are logged."""
        corrected = (layer.corrected_labels() != layer.labels).float().mean()
        values = {"corrected_share": float(corrected), "mean_label_quality": float(layer.label_quality().mean())}
        if isinstance(layer, PermutationLayer):
            values |= {"is_warm_up": float(layer.is_warm_up), "label_accuracy": layer.label_accuracy}
        return values

    def on_validation_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Switch the layer to evaluation mode."""
        layer = self.find_layer(pl_module)
        self._was_training = layer.training
        layer.eval()
        self._guard = layer.register_forward_pre_hook(_refuse, with_kwargs=True)

    def on_validation_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Switch the layer back."""
        if self._guard is not None:
            self._guard.remove()
            self._guard = None
            self.find_layer(pl_module).train(self._was_training)

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_validation_end

    def on_exception(self, trainer: "Trainer", pl_module: "LightningModule", exception: BaseException) -> None:
        """Switch the layer back if validation failed."""
        self.on_validation_end(trainer, pl_module)

    def on_save_checkpoint(self, trainer: "Trainer", pl_module: "LightningModule", checkpoint: dict[str, Any]) -> None:
        """Add the layer, unless the state of the ``LightningModule`` contains it."""
        layer = self.find_layer(pl_module)
        if not _is_submodule(layer, pl_module):
            checkpoint[self.name] = layer.state_dict()

    def on_load_checkpoint(self, trainer: "Trainer", pl_module: "LightningModule", checkpoint: dict[str, Any]) -> None:
        """Restore the layer."""
        layer = self.find_layer(pl_module)
        if _is_submodule(layer, pl_module):
            return
        if self.name not in checkpoint:
            raise ValueError(f"the checkpoint has no layer {self.name!r}: it was saved without PermLLCallback.")
        layer.load_state_dict(checkpoint[self.name])


def _find(name: str | None, pl_module: "LightningModule") -> CorrectionLayer:
    owner = type(pl_module).__name__
    if name is not None:
        layer = attrgetter(name)(pl_module)
        if not isinstance(layer, CorrectionLayer):
            raise TypeError(f"{owner}.{name} must be a permutation layer, got {type(layer).__name__}.")
        return layer
    found = {name: module for name, module in pl_module.named_modules() if isinstance(module, CorrectionLayer)}
    if not found:
        raise ValueError(f"{owner} has no permutation layer among its submodules: pass it as PermLLCallback(layer).")
    if len(found) > 1:
        names = format_list(list(found), "attribute")
        raise ValueError(
            f"{owner} has several permutation layers, {names}: pass the name of one, PermLLCallback(name)."
        )
    return next(iter(found.values()))


def _is_submodule(layer: CorrectionLayer, pl_module: "LightningModule") -> bool:
    return any(module is layer for module in pl_module.modules())


def _loss_scale(trainer: "Trainer") -> float:
    """Return the factor of mixed precision, which decreases if a step is skipped; 0 without a scaler."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return 0.0 if scaler is None else float(scaler.get_scale())


def _refuse(layer: CorrectionLayer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if the rows of training samples may be read for other samples."""
    if kwargs.get("labels") is None:
        raise RuntimeError(
            "the layer has the labels of the training samples only: use F.cross_entropy(logits, y) in validation, test "
            "and prediction, or pass labels=y there if the samples are among the layer's."
        )
