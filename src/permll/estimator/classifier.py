"""``PermLLClassifier``: a scikit-learn classifier for labels of which some are wrong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from permll.cleaning.auto_config import adapt_recipe_to_size
from permll.cleaning.clean import RECIPE
from permll.estimator.fitting import fit, network_weights, predict_proba
from permll.estimator.preprocessing import Features, MixedFrame, fit_features, is_mixed_frame
from permll.methods._base import Method
from permll.methods._registry import find_method, method_name
from permll.training.progress import TextLog, default_callbacks
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe

_NARROW = 512  # columns: steps so small are faster with one thread


class PermLLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that does not learn wrong labels, and says which they are.

    ``fit`` trains a perceptron once, as the recipe of ``permll.clean`` says, on vectors made of X:

    - of an array, or a frame of numbers: the columns standardised; NaN is an empty cell;
    - of a sparse matrix: the same, but with more than 1,000 columns its 256 main directions (``TruncatedSVD``);
    - of a frame that holds text or categories too: numbers as above, a column for each of the 50 most frequent
      categories. That needs polars, ``pip install 'permll[table]'``.

    Args:
        method: to train with: the name of any in ``permll methods``, or a class of yours.
        epochs: how many. By default those of the recipe up to 20,000 rows, then fewer, as 1 / sqrt(rows), at least 5.
        batch_size: rows of a step; default what suits the number of rows.
        learning_rate: of the network; default the recipe's.
        validation_fraction: the share of rows that are not trained on. They tell how many labels are wrong, and when
            the network begins to learn those by heart. By default a fifth, of more than 2,500 rows fewer, from 5,000
            on a tenth. 0 stands for none; of fewer than 40 rows there are none either: then both are told, less
            well, by the rows that are trained on.
        settings: any other value of the recipe, ``{"method.correct_after": 0.5, "network.widths": [64]}``.
        device: to train on: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``. Predictions are made on the CPU.
        random_state: of initial weights, orders and held-out rows.
        warm_start: whether the next ``fit`` begins with the weights that are there. What the method keeps for each
            sample, such as the rows of PermLL's layer, begins anew.
        verbose: 1 shows a progress bar on a terminal or in a notebook, 2 a line for every epoch.

    Attributes:
        classes_: (c,) the labels there are, in order.
        corrected_labels_: (N,) the most probable label of each row of ``fit`` where the given one is probably wrong,
            elsewhere the given one.
        label_quality_: (N,) the probability that the given label is right: low = suspect.
        noise_rate_: the estimated share of wrong labels.
        n_features_in_: columns of X.
        feature_names_in_: their names, where X had some.
        method_: the trained method with its networks.

    Examples:
        >>> from sklearn.datasets import make_blobs
        >>> X, y = make_blobs(500, centers=3, random_state=3)
        >>> given = np.where(np.arange(500) % 5 == 0, (y + 1) % 3, y)  # every fifth is wrong
        >>> model = PermLLClassifier(random_state=0).fit(X, given)
        >>> bool((model.corrected_labels_ == y).mean() > 0.95), round(model.noise_rate_, 1)
        (True, 0.2)
        >>> model.predict(X[:3]) == y[:3]
        array([ True,  True,  True])
    """

    classes_: NDArray[Any]
    method_: Method
    _features: Features

    def __init__(
        self,
        method: str | type[Method] = "permll",
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        settings: Mapping[str, Any] | None = None,
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
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike) -> "PermLLClassifier":
        """Train on rows and the labels they were given.

        Args:
            X: (N, F) numbers, dense or sparse, or a frame.
            y: (N,) labels, numbers or text.
        """
        again = self.warm_start and hasattr(self, "method_")
        X, given = self._read(X, y, reset=not again)
        classes, labels = _numbered(given)
        if again and not np.array_equal(classes, self.classes_):
            raise ValueError(f"a warm start needs the classes of the fit before, {self.classes_}; y holds {classes}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        features = self._features if again else fit_features(X, seed)
        inputs = features(X)
        recipe = self._recipe(labels, inputs.values.shape[1], seed)
        weights = network_weights(self.method_) if again else None
        watchers = default_callbacks() if self.verbose == 1 else [TextLog()] if self.verbose else []
        try:
            fitted = fit(inputs, labels, recipe, weights=weights, callbacks=watchers)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None
        self.classes_, self._features = classes, features
        self.method_, self._transform, findings, self.noise_rate_ = fitted
        self.label_quality_ = findings.label_quality.astype(np.float64)
        labels_after = np.where(findings.is_issue, findings.proposed_labels, findings.given_labels)
        self.corrected_labels_ = classes[labels_after]
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability (N, c) of every class, in the order of ``classes_``."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        probs: NDArray[np.float64] = predict_proba(self.method_, self._transform, self._features(X)).numpy()
        return probs

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class (N,) of each row."""
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether ``fit`` came to its end."""
        return hasattr(self, "method_")

    def __sklearn_tags__(self) -> Any:
        """Say what X may be."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """Return X, and y if it is given, as scikit-learn checks them; a frame with text stays one."""
        mixed = is_mixed_frame(X) if reset else isinstance(self._features, MixedFrame)
        if not mixed:
            return validate_data(
                self,
                X,
                y,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                **({} if isinstance(y, str) else {"ensure_min_samples": 2}),
            )
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if isinstance(y, str):
            return X
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, ensure_min_samples=2, input_name="y")
        check_consistent_length(X, y)
        return X, y

    def _recipe(self, labels: torch.Tensor, columns: int, seed: int) -> Recipe:
        """Return the recipe for these labels (N,) and as many columns."""
        method = method_name(self.method) if isinstance(self.method, type) else self.method
        find_method(method)
        if self.validation_fraction is not None and not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}.")
        given = {
            "training.epochs": self.epochs,
            "training.batch_size": self.batch_size,
            "optimizer.lr": self.learning_rate,
            "data.validation": self.validation_fraction,
            "training.threads": 1 if columns <= _NARROW else None,
            **(self.settings or {}),
        }
        changes = {name: _plain(value) for name, value in given.items() if value is not None}
        if changes.get("data.validation") == 0:
            changes["data.validation"] = None
        always = {"training.seed": seed, "data.split_seed": seed, "training.accelerator": self.device}
        recipe = load_recipe(RECIPE, {"method.name": method, **always, **changes})
        return adapt_recipe_to_size(recipe, len(labels), int(labels.max()) + 1, changes)


def _numbered(y: NDArray[Any]) -> tuple[NDArray[Any], torch.Tensor]:
    """Return the classes (c,) in order, and the labels (N,) as their numbers."""
    try:
        classes, labels = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(f"y mixes labels of several types, {', '.join(kinds)}: give numbers, or text.") from None
    check_classification_targets(y)
    if len(classes) < 2:
        raise ValueError(f"y holds one class, {classes.tolist()[0]!r}: two or more are needed.")
    return classes, torch.from_numpy(labels.astype(np.int64))


def _plain(value: Any) -> Any:
    """Return a number of NumPy, as searches over parameters draw them, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
