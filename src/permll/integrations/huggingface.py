"""``PermLLTrainer``: the trainer of Hugging Face transformers with a permutation layer as training loss."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset
from transformers import PreTrainedModel, Trainer, TrainerCallback

from permll.data.dataset import LabeledData
from permll.data.inputs import Inputs, Items, LazyImages, Texts
from permll.findings import Findings
from permll.layer.base import CorrectionLayer
from permll.layer.module import PermutationLayer
from permll.utils.files import atomic_write

INDEX = "permll_index"  # key of the positions in a batch
LAYER_FILE = "permll_layer.pt"
_LABEL_COLUMNS = ("labels", "label", "label_ids")


class PermLLTrainer(Trainer):  # type: ignore[misc]
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

    def __init__(
        self, *args: Any, layer: CorrectionLayer | None = None, label_column: str | None = None, **kwargs: Any
    ) -> None:
        self._initial_state: dict[str, Tensor] | None = None
        self._unexpected_keys: list[str] = []  # of the last loaded checkpoint
        super().__init__(*args, **kwargs)
        self._check()
        self.label_column = label_column or _find_label_column(self.train_dataset)
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
            raise ValueError("compute_loss_func contradicts the layer, which is the loss: leave it out, or use Trainer.")
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
        self.data_collator = _IndexCollator(self._get_collator_with_removed_columns(collator, "training"))
        self.train_dataset = _Pairs(dataset)
        try:
            yield
        finally:
            self.train_dataset, self.data_collator = dataset, collator

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return super()._get_train_sampler(train_dataset.dataset if isinstance(train_dataset, _Pairs) else train_dataset)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return None if isinstance(eval_dataset, _Pairs) else super()._get_eval_sampler(eval_dataset)

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

    def _load_renamed_weights(self, checkpoint: str) -> None:
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
        data, count = self.train_dataset, self.layer.num_classes
        feature = getattr(data, "features", None) or {}
        names = getattr(feature.get(self.label_column), "names", None)
        if names is None:
            id2label = getattr(getattr(self.model, "config", None), "id2label", None) or {}
            names = [str(id2label.get(k, k)) for k in range(count)]
            names = [str(k) for k in range(count)] if names[0].startswith("LABEL_") else names
        ids = tuple(map(str, range(len(data))))
        return LabeledData(_inputs(data, self.label_column), self.layer.labels.cpu(), tuple(names), ids)


class _LayerStep(TrainerCallback):  # type: ignore[misc]
    """Steps the layer after the optimizer."""

    def __init__(self, trainer: PermLLTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.trainer.layer.zero_grad()  # of a training that was interrupted

    def on_optimizer_step(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        if self.trainer.accelerator.optimizer_step_was_skipped:  # gradients overflowed
            self.trainer.layer.zero_grad()
        else:
            self.trainer.layer.step()


class _Pairs(Dataset[tuple[Any, int]]):
    """Pairs (sample, position)."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> tuple[Any, int]:
        return self.dataset[position], position

    def __getitems__(self, positions: list[int]) -> list[tuple[Any, int]]:
        """Return a batch, read at once if the dataset can."""
        read: Callable[[list[int]], Sequence[Any]] | None = getattr(self.dataset, "__getitems__", None)
        samples = [self.dataset[position] for position in positions] if read is None else read(positions)
        return list(zip(samples, positions, strict=True))


class _IndexCollator:
    """Collates the samples of pairs, and adds their positions to the batch."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def __call__(self, pairs: list[tuple[Any, int]]) -> Any:
        samples, positions = zip(*pairs, strict=True)
        batch = self.collator(list(samples))
        if not isinstance(batch, Mapping):
            raise TypeError(f"the data collator must return a dict, got {type(batch).__name__}.")
        batch[INDEX] = torch.tensor(positions)  # type: ignore[index]
        return batch


def read_labels(dataset: Any, column: str) -> list[int]:
    """Return the class numbers in a column of a ``datasets.Dataset``, or under a key of the items."""
    is_table = hasattr(dataset, "features") and hasattr(dataset, "with_format")
    labels = list(dataset.with_format(None)[column]) if is_table else [dataset[i][column] for i in range(len(dataset))]
    for row, label in enumerate(labels):
        if label is None or isinstance(label, str):
            raise ValueError(
                f"{column!r} of row {row} is {label!r}, not a class number: leave the row out, or encode the column "
                f"with dataset.class_encode_column({column!r})."
            )
    return [int(label) for label in labels]


def _find_label_column(dataset: Any) -> str:
    if len(dataset) == 0:
        raise ValueError("train_dataset is empty.")
    names = getattr(dataset, "column_names", None)
    if names is None:
        item = dataset[0]
        if not isinstance(item, Mapping):
            raise ValueError(f"the items of train_dataset must be dicts, got {type(item).__name__}.")
        names = list(item)
    found = [name for name in _LABEL_COLUMNS if name in names]
    if not found:
        raise ValueError(f"train_dataset has {', '.join(names)}, but no labels: name their column with label_column=.")
    return found[0]


def _inputs(dataset: Any, label: str) -> Inputs:
    """Return the images or texts of a dataset, else the first input of the model."""
    rows = torch.arange(len(dataset))
    if hasattr(dataset, "features") and hasattr(dataset, "with_format"):
        plain = dataset.with_format(None)
        kinds = {name: type(feature).__name__ for name, feature in plain.features.items()}
        images = [name for name, kind in kinds.items() if kind == "Image"]
        if images:
            from permll.data.readers.huggingface import RowOpener

            return LazyImages(RowOpener(plain.select_columns(images[:1]), images[0]), rows)
        texts = [name for name in kinds if getattr(plain.features[name], "dtype", "") in ("string", "large_string")]
    else:
        texts = [name for name, value in dataset[0].items() if isinstance(value, str)]
        plain = dataset
    if texts:  # the column with the longest texts
        first = [plain[i] for i in range(min(len(plain), 100))]
        text = max(texts, key=lambda name: sum(len(str(item[name])) for item in first))
        return Texts(tuple(str(plain[i][text] or "") for i in range(len(plain))))
    return Items(dataset, rows, next(name for name in dataset[0] if name != label))


def _positions(batch: Mapping[str, Any]) -> Tensor:
    if INDEX not in batch:
        raise ValueError("a training batch has no positions: build the loader with PermLLTrainer.get_train_dataloader.")
    index: Tensor = batch[INDEX]
    return index


def _logits(outputs: Any) -> Tensor:
    logits: Tensor = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
    return logits
