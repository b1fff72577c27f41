"""``PermLLClassifier``: a scikit-learn classifier for noisy labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from permll.cleaning.auto_config import adapt_recipe_to_size
from permll.cleaning.clean import RECIPE
from permll.estimator.fitting import fit, network_weights, predict_proba
from permll.estimator.preprocessing import FrameEncoder, Preprocessor, fit_preprocessor, is_mixed_frame
from permll.methods._base import Method
from permll.methods._registry import find_method, method_name
from permll.training.progress import TextLog, default_callbacks
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe

_MAX_SINGLE_THREAD_COLUMNS = 512  # up to this width, training steps are faster with one thread


class PermLLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier for noisy labels, which also finds the wrong ones.

    ``fit`` trains a multilayer perceptron once, with the recipe of ``permll.clean``. X may be

    - an array or a data frame of numbers: columns are standardized, and NaN is a missing value;
    - a sparse matrix: as above, but more than 1,000 columns are reduced to 256 components of a truncated SVD;
    - a data frame with text or categories: numbers as above, and the 50 most frequent categories of a column one-hot
      encoded. This requires polars, ``pip install 'permll[table]'``.

    Args:
        method: training method, a name from ``permll methods`` or a subclass of ``Method``.
        epochs: number of epochs; default that of the recipe up to 20,000 samples, then proportional to
            1 / sqrt(n_samples), at least 5.
        batch_size: samples per step; default depends on the number of samples.
        learning_rate: initial learning rate; default that of the recipe.
        validation_fraction: fraction of samples to hold out, used to estimate the noise rate and to stop before wrong
            labels are memorized. Default 0.2 up to 2,500 samples, decreasing to 0.1 at 5,000; none below 40 samples. 0
            disables it: the training samples are used instead, which is less accurate.
        overrides: any other setting of the recipe by its dotted name,
            ``{"method.correct_after": 0.5, "network.widths": [64]}``.
        device: training device, ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``. Predictions are computed on the CPU.
        random_state: seed or generator of initial weights, sampling order and held-out samples.
        warm_start: whether to initialize the network with the weights of the previous ``fit``. Per-sample state of the
            method, such as the rows of PermLL's layer, is not reused.
        verbose: 1 shows a progress bar on a terminal or in a notebook, 2 logs a line for every epoch.

    Attributes:
        classes_: ndarray of shape (n_classes,), the class labels in order.
        corrected_labels_: ndarray of shape (n_samples,), the labels of ``fit`` with the issues replaced by the most
            probable class.
        label_quality_: ndarray of shape (n_samples,), the probability that the given label is correct; low = suspect.
        noise_rate_: float, the estimated fraction of wrong labels.
        n_features_in_: int, the number of columns of X.
        feature_names_in_: ndarray of shape (n_features_in_,), the column names of X, if all are strings.
        method_: the trained ``Method`` with its networks.

    Examples:
        >>> from sklearn.datasets import make_blobs
        >>> X, y = make_blobs(500, centers=3, random_state=3)
        >>> noisy = np.where(np.arange(500) % 5 == 0, (y + 1) % 3, y)  # every fifth label is wrong
        >>> model = PermLLClassifier(random_state=0).fit(X, noisy)
        >>> bool((model.corrected_labels_ == y).mean() > 0.95), round(model.noise_rate_, 1)
        (True, 0.2)
        >>> model.predict(X[:3]) == y[:3]
        array([ True,  True,  True])
    """

    classes_: NDArray[Any]
    method_: Method
    _preprocessor: Preprocessor

    def __init__(
        self,
        method: str | type[Method] = "permll",
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        overrides: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.overrides = overrides
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike) -> "PermLLClassifier":
        """Fit the classifier to samples with noisy labels.

        Args:
            X: {array-like, sparse matrix, data frame} of shape (n_samples, n_features), the samples.
            y: array-like of shape (n_samples,), the given labels, numbers or strings.

        Returns:
            The fitted estimator.
        """
        is_warm = self.warm_start and hasattr(self, "method_")
        X, given = self._validate(X, y, reset=not is_warm)
        classes, labels = _encode_labels(given)
        if is_warm and not np.array_equal(classes, self.classes_):
            raise ValueError(f"warm_start needs the classes of the previous fit, {self.classes_}; y has {classes}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        preprocessor = self._preprocessor if is_warm else fit_preprocessor(X, seed)
        inputs = preprocessor(X)
        self.method_, self._transform, findings, self.noise_rate_ = fit(
            inputs,
            labels,
            self._recipe(labels, inputs.values.shape[1], seed),
            weights=network_weights(self.method_) if is_warm else None,
            callbacks=default_callbacks() if self.verbose == 1 else [TextLog()] if self.verbose else [],
        )
        self.classes_, self._preprocessor = classes, preprocessor
        self.label_quality_ = findings.label_quality.astype(np.float64)
        self.corrected_labels_ = classes[np.where(findings.is_issue, findings.proposed_labels, findings.given_labels)]
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities.

        Args:
            X: {array-like, sparse matrix, data frame} of shape (n_samples, n_features), the samples.

        Returns:
            ndarray of shape (n_samples, n_classes), with columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        probs: NDArray[np.float64] = predict_proba(self.method_, self._transform, self._preprocessor(X)).numpy()
        return probs

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels.

        Args:
            X: {array-like, sparse matrix, data frame} of shape (n_samples, n_features), the samples.

        Returns:
            ndarray of shape (n_samples,), the most probable classes.
        """
        probs = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[probs.argmax(1)]
        return labels

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``fit`` has completed."""
        return hasattr(self, "method_")

    def __sklearn_tags__(self) -> Any:
        """Return the estimator tags: X may be sparse and contain NaN."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """Validate X, and y if given, as scikit-learn does; a data frame with text columns is not converted."""
        is_mixed = is_mixed_frame(X) if reset else isinstance(self._preprocessor, FrameEncoder)
        has_y = not isinstance(y, str)
        if not is_mixed:
            return validate_data(
                self,
                X,
                y,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=2 if has_y else 1,
            )
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if not has_y:
            return X
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, ensure_min_samples=2, input_name="y")
        check_consistent_length(X, y)
        return X, y

    def _recipe(self, labels: Tensor, num_columns: int, seed: int) -> Recipe:
        """Return the recipe for labels (N,) and a number of columns."""
        method = method_name(self.method) if isinstance(self.method, type) else self.method
        find_method(method)
        if self.validation_fraction is not None and not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must be in [0, 1), got {self.validation_fraction!r}.")
        given = {
            "training.epochs": self.epochs,
            "training.batch_size": self.batch_size,
            "optimizer.lr": self.learning_rate,
            "data.validation": self.validation_fraction,
            "training.threads": 1 if num_columns <= _MAX_SINGLE_THREAD_COLUMNS else None,
            **(self.overrides or {}),
        }
        changes = {  # a parameter search may draw NumPy scalars
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in given.items()
            if value is not None
        }
        if changes.get("data.validation") == 0:
            changes["data.validation"] = None
        seeds = {"training.seed": seed, "data.split_seed": seed}
        recipe = load_recipe(RECIPE, {"method.name": method, **seeds, "training.accelerator": self.device, **changes})
        return adapt_recipe_to_size(recipe, len(labels), int(labels.max()) + 1, changes)


def _encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], Tensor]:
    """Return the classes (c,) in order, and the labels (N,) as class numbers."""
    try:
        classes, labels = np.unique(y, return_inverse=True)
    except TypeError:
        types = sorted({type(label).__name__ for label in y})
        raise ValueError(f"y mixes labels of types {', '.join(types)}: use numbers only, or strings only.") from None
    check_classification_targets(y)
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()[0]!r}: at least two are needed.")
    return classes, torch.from_numpy(labels.astype(np.int64))
