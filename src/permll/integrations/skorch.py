"""``PermLLNetClassifier``: skorch's ``NeuralNetClassifier``, trained with the permutation layer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from permll.layer.base import CorrectionLayer
from permll.layer.module import PermutationLayer
from permll.utils.messages import install_hint
from permll.utils.validation import check_class_labels

try:
    from skorch import NeuralNetClassifier
    from skorch.dataset import Dataset as SkorchDataset
    from skorch.dataset import unpack_data
    from skorch.utils import data_from_dataset, is_skorch_dataset, to_numpy
except ImportError as error:
    raise ImportError(f"permll.integrations.skorch needs skorch: {install_hint('skorch')}") from error


class LayerLoss(nn.CrossEntropyLoss):
    """Criterion for skorch: the loss of a layer in training, cross-entropy in evaluation.

    The layer is built from the labels of ``fit`` when the first batch shows the number of classes, or from a saved
    state.

    Args:
        layer: function that builds the layer from labels and the number of classes.
        settings: further arguments of ``layer``.

    Attributes:
        layer: the layer; None before the first batch.
        labels: (N,) labels of all rows of ``fit``.
        index: (B,) positions of the current training batch in these rows.
    """

    layer: CorrectionLayer | None

    def __init__(self, layer: Callable[..., CorrectionLayer] = PermutationLayer, **settings: Any) -> None:
        super().__init__()
        self._build, self._settings = layer, settings
        self.layer = None
        self.labels: Tensor | None = None
        self.index: Tensor | None = None

    def set_labels(self, labels: Tensor) -> None:
        """Set the labels (N,) of all rows; raise if the layer was built for other labels."""
        if self.layer is not None and not torch.equal(labels, self.layer.labels.cpu()):
            raise ValueError(
                "y differs from the labels that the net was trained with: continue with the same rows in the same "
                "order, or call fit without warm_start on other data."
            )
        self.labels = labels

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a batch, in training by its ``index``."""
        if not self.training:
            return super().forward(logits, y.long())
        if self.index is None:
            raise ValueError(
                "training batches have no index: a collate_fn of iterator_train gets samples (X, (y, index)), and must "
                "return [X, [y, index]]."
            )
        if self.layer is None:
            assert self.labels is not None
            self.layer = self._new_layer(self.labels, logits.shape[-1]).to(logits.device)
        loss: Tensor = self.layer(logits, self.index, labels=y)
        return loss

    def _new_layer(self, labels: Tensor, num_classes: int) -> CorrectionLayer:
        return self._build(labels, num_classes=num_classes, **self._settings)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.layer is not None:
            destination[prefix + "num_classes"] = torch.tensor(self.layer.num_classes)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        rest = dict(state_dict)
        num_classes = rest.pop(prefix + "num_classes", None)
        if num_classes is not None and self.layer is None and prefix + "layer.labels" in rest:
            labels = rest[prefix + "layer.labels"]
            self.layer = self._new_layer(labels.cpu(), int(num_classes)).to(labels.device)
        super()._load_from_state_dict(rest, prefix, *args)


class PermLLNetClassifier(NeuralNetClassifier):  # type: ignore[misc]
    """A skorch classifier for noisy labels: ``NeuralNetClassifier`` whose training loss is the permutation layer's.

    The module returns logits. ``fit`` builds the layer from its y; samples that ``train_split`` holds out get
    cross-entropy, and keep their label in the layer, as it never sees them. All arguments are those of skorch;
    ``criterion__held_out=...`` and the like are arguments of the layer, and ``criterion__layer=PermutationLayer.paper``
    chooses the layer of the paper. ``save_params(f_criterion=...)``, checkpoints and pickles contain the layer's state.
    ``partial_fit`` and ``warm_start`` continue with the same rows.

    Attributes:
        layer_: the layer, with ``corrected_labels()``, ``label_quality()`` and ``findings(X, logits)``, in the order of
            the rows of ``fit``.

    Examples:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
        >>> y = (X[:, 0] > 0).astype(np.int64)
        >>> net = PermLLNetClassifier(nn.Linear, module__in_features=2, module__out_features=2, verbose=0)
        >>> net.fit(X, y).layer_.corrected_labels().shape
        torch.Size([60])
        >>> net.predict_proba(X).shape
        (60, 2)
    """

    def __init__(self, module: Any, *args: Any, criterion: Any = LayerLoss, **kwargs: Any) -> None:
        super().__init__(module, *args, criterion=criterion, **kwargs)

    @property
    def layer_(self) -> CorrectionLayer:
        """Return the layer of the last training."""
        self.check_is_fitted(["criterion_"])
        layer: CorrectionLayer | None = getattr(self.criterion_, "layer", None)
        if layer is None:
            raise AttributeError("the net has no layer: call fit; trim_for_prediction removes it.")
        return layer

    def check_data(self, X: Any, y: Any) -> None:
        """Check the data of ``fit``, and give its labels to the criterion."""
        super().check_data(X, y)
        if not isinstance(self.criterion_, LayerLoss):
            raise TypeError(f"criterion must be LayerLoss, the default; got {type(self.criterion_).__name__}.")
        self.criterion_.set_labels(_check_labels(_labels_of(X) if y is None else y))

    def torch_compile(self, module: Any, name: str) -> Any:
        """Compile the module only: the criterion is too little to gain from it."""
        return module if name == "criterion" else super().torch_compile(module, name)

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Return the training set, whose targets are (y, index), and the validation set."""
        dataset = self.get_dataset(X, y)
        indexed = _IndexedArrays(dataset) if is_skorch_dataset(dataset) else _IndexedTargets(dataset)
        return super().get_split_datasets(indexed, y, **fit_params)

    def run_single_epoch(self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any) -> None:
        """Train or validate for an epoch; the criterion knows the index of each training batch."""
        batches = None if iterator is None else self._without_index(iterator)
        try:
            super().run_single_epoch(batches, training, prefix, step_fn, **fit_params)
        finally:
            self.criterion_.index = None
            if self.criterion_.layer is not None:
                self.criterion_.layer.zero_grad()  # of a batch that was interrupted: its gradients are not used either

    def _without_index(self, iterator: Iterable[Any]) -> Iterator[list[Any]]:
        """Yield batches [X, y] as callbacks and scores expect them."""
        for batch in iterator:
            x, y = unpack_data(batch)
            has_index = isinstance(y, list | tuple) and len(y) == 2
            y, self.criterion_.index = y if has_index else (y, None)
            yield [x, y]

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any) -> None:
        """Update the layer after the optimizer's step."""
        super().on_batch_end(net, batch, training, **kwargs)
        if training:
            self.layer_.step()


class _IndexedTargets(Dataset[Any]):
    """A dataset of samples (X, y) as (X, (y, index))."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, tuple[Any, int]]:
        x, y = unpack_data(self.dataset[index])
        return x, (y, int(index))


class _IndexedArrays(_IndexedTargets, SkorchDataset):  # type: ignore[misc]
    """The same with X and y as attributes, which scores without a cache read."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        self.X, self.y = data_from_dataset(dataset)


def _check_labels(y: Any) -> Tensor:
    labels = np.asarray(to_numpy(y))
    if labels.dtype.kind not in "iu":
        raise TypeError(
            f"y must be class numbers from 0, got {labels.dtype}: encode it with np.unique(y, return_inverse=True)[1]."
        )
    check_class_labels(labels, None, name="y")
    return torch.from_numpy(labels.astype(np.int64))


def _labels_of(dataset: Any) -> Any:
    """Return y of a dataset that is given as X."""
    try:
        return data_from_dataset(dataset)[1]
    except AttributeError:
        raise ValueError("the labels of X are not known: pass y, too, in the order of its samples.") from None
