"""``PermLLTrainer``: the trainer of Hugging Face transformers with a permutation layer as training loss."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset
from transformers import PreTrainedModel, Trainer, TrainerCallback

from permll.data.dataset import LabeledData
from permll.findings import Findings
from permll.integrations._huggingface_data import (
    INDEX,
    IndexCollator,
    Pairs,
    class_names,
    find_label_column,
    read_inputs,
    read_labels,
)
from permll.layer.base import CorrectionLayer
from permll.layer.module import PermutationLayer
from permll.utils.files import atomic_write

LAYER_FILE = "permll_layer.pt"


class PermLLTrainer(Trainer):
    """A ``transformers.Trainer`` whose training loss is a permutation layer; for text and image classification.

    Batches carry the positions of their samples, also with ``remove_unused_columns``. The gradient of an optimizer step
    is that of the mean over its samples on all devices and accumulated batches, and the layer steps once with it. A
    checkpoint contains the layer. Evaluation uses the plain loss of the model.

    Args:
        args: positional arguments of ``Trainer``.
        layer: the loss; default ``PermutationLayer`` for the labels of ``train_dataset``.
        label_column: column, or key of the items, with the class numbers; default ``labels``, ``label`` or
            ``label_ids``.
        kwargs: keyword arguments of ``Trainer``. ``train_dataset`` has a length, and items that are dicts.

    Examples:
        >>> import tempfile
        >>> from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
        >>> sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
        >>> model = BertForSequenceClassification(BertConfig(**sizes, num_attention_heads=1, num_labels=2))
        >>> texts = [{"input_ids": [i % 9, 1], "label": i % 2} for i in range(8)]
        >>> settings = {"use_cpu": True, "max_steps": 1, "save_strategy": "no", "disable_tqdm": True}
        >>> arguments = TrainingArguments(tempfile.mkdtemp(), report_to=[], logging_strategy="no", **settings)
        >>> trainer = PermLLTrainer(model, arguments, train_dataset=texts)
        >>> _ = trainer.train()
        {'train_runtime': ...}
        >>> trainer.findings()
        Findings(8 labels, 0 issues)
    """

    train_dataset: Any

    def __init__(
        self, *args: Any, layer: CorrectionLayer | None = None, label_column: str | None = None, **kwargs: Any
    ) -> None:
        self._initial_state: dict[str, Tensor] | None = None
        self._unexpected_keys: list[str] = []  # of the last loaded checkpoint
        super().__init__(*args, **kwargs)
        self._check()
        self.label_column = find_label_column(self.train_dataset, label_column)
        if layer is None:
            labels = read_labels(self.train_dataset, self.label_column)
            classes = getattr(getattr(self.model, "config", None), "num_labels", None)
            layer = PermutationLayer(labels, classes or max(labels) + 1).to(self.args.device)
        if len(layer) != len(self.train_dataset):
            raise ValueError(
                f"the layer has {len(layer):,} samples, but train_dataset has {len(self.train_dataset):,}: build it "
                "from the labels of train_dataset."
            )
        self.layer = layer
        if self.model_init is not None:  # every training begins with another model
            self._initial_state = {name: value.clone() for name, value in layer.state_dict().items()}
        self.add_callback(_LayerStep(self))

    def _check(self) -> None:
        """Refuse what contradicts the layer."""
        data, config = self.train_dataset, getattr(self.model, "config", None)
        if data is None:
            raise ValueError("train_dataset is missing: the layer needs its labels; to evaluate only, use Trainer.")
        if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise ValueError(
                f"train_dataset is a {type(data).__name__}, which has no positions: pass a dataset with a length and "
                "items, without streaming=True."
            )
        if self.compute_loss_func is not None:
            raise ValueError(
                "compute_loss_func contradicts the layer, which is the loss: leave it out, or use Trainer."
            )
        if self.args.label_smoothing_factor:
            raise ValueError("label_smoothing_factor must be 0: the layer computes its own soft targets.")
        problem = getattr(config, "problem_type", None)
        if problem not in (None, "single_label_classification") or getattr(config, "num_labels", 2) == 1:
            raise ValueError(
                f"the model is for {(problem or 'regression').replace('_', ' ')}: the layer needs one of at least two "
                "classes per sample, num_labels >= 2."
            )

    def get_train_dataloader(self) -> Any:
        """Return the loader of ``Trainer``, with the positions of the samples in each batch."""
        with self._indexed():
            return super().get_train_dataloader()

    @contextmanager
    def _indexed(self) -> Iterator[None]:
        """Let ``Trainer`` build a loader of ``train_dataset`` whose batches have positions."""
        dataset, collator = self.train_dataset, self.data_collator
        # Columns are removed here, from the samples inside of the pairs, and after a transform of the dataset.
        self.data_collator = IndexCollator(self._get_collator_with_removed_columns(collator, "training"))
        self.train_dataset = Pairs(dataset)
        try:
            yield
        finally:
            self.train_dataset, self.data_collator = dataset, collator

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return super()._get_train_sampler(train_dataset.dataset if isinstance(train_dataset, Pairs) else train_dataset)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return None if isinstance(eval_dataset, Pairs) else super()._get_eval_sampler(eval_dataset)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """Return the batches of an optimizer step, and the number of their samples on all devices."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        count = torch.tensor(sum(len(_positions(batch)) for batch in batches), device=device)
        return batches, self.accelerator.reduce(count, "sum")

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Do a training step; the loss is a part of the mean over the optimizer step, so it is not divided again."""
        self.current_gradient_accumulation_steps = 1
        return super().training_step(*args, **kwargs)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None, **kwargs: Any
    ) -> Any:
        """Return the loss of the layer in training, and that of the model otherwise."""
        if not model.training:
            inputs = {name: value for name, value in inputs.items() if name != INDEX}
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch, **kwargs)
        index = _positions(inputs)
        labels = next((inputs[name] for name in self.label_names if name in inputs), None)
        outputs = model(**self._model_inputs(inputs))
        loss = self.layer(_logits(outputs), index, "sum", labels=labels)
        # Gradients are averaged over processes.
        count = len(index) if num_items_in_batch is None else num_items_in_batch / self.accelerator.num_processes
        return (loss / count, outputs) if return_outputs else loss / count

    def _model_inputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch without positions and labels, for which the model would compute its own loss."""
        return {name: value for name, value in batch.items() if name != INDEX and name not in self.label_names}

    def call_model_init(self, trial: Any = None) -> Any:
        """Return a new model, and give the layer its initial state."""
        if self._initial_state is not None:
            self.layer.load_state_dict(self._initial_state)
        return super().call_model_init(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        if self.args.should_save:  # first, so that a complete checkpoint has it
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / LAYER_FILE) as file:
                torch.save(self.layer.state_dict(), file)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / LAYER_FILE
        if not path.is_file():
            raise FileNotFoundError(f"{checkpoint} has no {LAYER_FILE}: resume from a checkpoint of PermLLTrainer.")
        self.layer.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._unexpected_keys = []
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_renamed_weights(resume_from_checkpoint)

    def _load_best_model(self) -> None:
        self._unexpected_keys = []
        super()._load_best_model()
        self._load_renamed_weights(self.state.best_model_checkpoint)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        self._unexpected_keys = load_result.unexpected_keys
        if not self._unexpected_keys:
            super()._issue_warnings_after_load(load_result)

    def _load_renamed_weights(self, checkpoint: str | None) -> None:
        """Load weights that ``Trainer`` leaves out: files of some models, as ViT, have other names than the model."""
        if self._unexpected_keys and isinstance(self.model, PreTrainedModel):
            saved = type(self.model).from_pretrained(checkpoint, dtype=self.model.dtype)
            self.model.load_state_dict(saved.state_dict())

    def train_logits(self) -> Tensor:
        """Return the logits (N, c) of the model in evaluation mode for ``train_dataset``; a collective call."""
        logits = torch.full((len(self.layer), self.layer.num_classes), torch.nan)
        with self._indexed():
            loader = self.get_test_dataloader(self.train_dataset)
        model = self.model_wrapped
        was_training = model.training
        model.eval()
        for batch in loader:
            inputs = self._prepare_inputs(batch)
            with torch.no_grad(), self.compute_loss_context_manager():
                batch_logits = _logits(model(**self._model_inputs(inputs))).float().contiguous()
            index, batch_logits = self.accelerator.gather((_positions(inputs), batch_logits))
            logits[index.cpu()] = batch_logits.cpu()
        model.train(was_training)
        return logits

    def findings(self, data: Any = None, **options: Any) -> Findings:
        """Return the findings of the training, by the logits of the model for ``train_dataset``; a collective call.

        Args:
            data: the samples of ``train_dataset`` as ``permll.data.load`` takes them, so that ``permll apply`` finds
                their file; default ``train_dataset``, with texts or images if it has a column of them.
            options: ``out``, ``threshold`` and others of ``permll.layer.base.CorrectionLayer.findings``.
        """
        logits = self.train_logits()
        if not self.is_world_process_zero():
            options = {**options, "out": None}  # one process writes
        return self.layer.findings(self._labeled_data() if data is None else data, logits, **options)

    def _labeled_data(self) -> LabeledData:
        names = class_names(self.train_dataset, self.label_column, getattr(self.model, "config", None))
        labels, ids = self.layer.labels.cpu(), tuple(map(str, range(len(self.layer))))
        names = names or tuple(map(str, range(self.layer.num_classes)))
        return LabeledData(read_inputs(self.train_dataset, self.label_column), labels, names, ids)


class _LayerStep(TrainerCallback):
    """Steps the layer after the optimizer."""

    def __init__(self, trainer: PermLLTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.trainer.layer.zero_grad()  # of a training that was interrupted

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.scale = self._scale()

    def on_optimizer_step(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        # After an overflow the scale falls. Accelerate does not see that fused optimizers skip the step.
        if self._scale() < self.scale or self.trainer.accelerator.optimizer_step_was_skipped:
            self.trainer.layer.zero_grad()
        else:
            self.trainer.layer.step()

    def _scale(self) -> float:
        scaler = self.trainer.accelerator.scaler
        return 1.0 if scaler is None else scaler.get_scale()


def _positions(batch: Mapping[str, Any]) -> Tensor:
    if INDEX not in batch:
        raise ValueError("a training batch has no positions: build the loader with PermLLTrainer.get_train_dataloader.")
    index: Tensor = batch[INDEX]
    return index


def _logits(outputs: Any) -> Tensor:
    logits: Tensor = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
    return logits
