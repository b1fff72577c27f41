"""scikit-learn estimators by name, and the features that they take.

A name is one of ``ESTIMATORS``, or the import path of a class such as ``sklearn.naive_bayes.GaussianNB``. Estimators
predict probabilities (``predict_proba``). Several names joined by "+" are averaged.
"""

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.data.encoding import MAX_WORDS, TableEncoder, TextEncoder, tfidf_vectorizer
from permll.data.inputs import Images, Inputs, Table, Texts, Vectors
from permll.data.readers.input_spec import describe_inputs
from permll.utils.messages import did_you_mean, format_list

NONE = "none"  # a network is trained
NETWORK_SECTIONS = ("method", "network", "optimizer", "schedule", "views")
MAX_CATEGORIES = 254  # of a column, for gradient boosting; rarer ones are merged
Features = Any  # (N, d), an array or a sparse matrix


def _gradient_boosting(_: Inputs) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Fewer and smaller trees than by default, which memorize wrong labels.
    return HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=10, early_stopping=False
    )


def _logistic_regression(inputs: Inputs) -> Any:
    from sklearn.linear_model import LogisticRegression

    # Strong regularization, since wrong labels are fitted otherwise; vectors of texts have a norm of sqrt(d).
    return LogisticRegression(C=0.003 if isinstance(inputs, Texts) else 0.1, max_iter=300)


def _random_forest(_: Inputs) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, min_samples_leaf=5)


def _naive_bayes(inputs: Inputs) -> Any:
    from sklearn.naive_bayes import GaussianNB, MultinomialNB

    return MultinomialNB(alpha=0.1) if isinstance(inputs, Texts) else GaussianNB(var_smoothing=1e-3)


DENSE = ("logistic_regression",)  # take singular vectors of texts, although they could take words
ESTIMATORS: dict[str, Callable[[Inputs], Any]] = {
    "hist_gradient_boosting": _gradient_boosting,
    "logistic_regression": _logistic_regression,
    "random_forest": _random_forest,
    "naive_bayes": _naive_bayes,
}


def split_names(name: str) -> tuple[str, ...]:
    """Return the names that are joined by "+".

    Examples:
        >>> split_names("logistic_regression + random_forest")
        ('logistic_regression', 'random_forest')
    """
    return tuple(part.strip() for part in name.split("+"))


def check_estimator(estimator: Any) -> None:
    """Refuse a name that does not exist, or an object that does not predict probabilities."""
    if not isinstance(estimator, str):
        if isinstance(estimator, type):
            raise ValueError(f"estimator must be a name or an object, not a class: {estimator.__name__}().")
        _check_methods(estimator, type(estimator).__name__)
        return
    names = split_names(estimator)
    if names == (NONE,):
        return
    if "" in names or NONE in names or len(set(names)) < len(names):
        raise ValueError(f"estimator {estimator!r} must be a name, different names joined by +, or none.")
    for name in names:
        if name not in ESTIMATORS:
            _import_class(name)


def estimator_settings(estimator: Any, others: Iterable[str] = ()) -> dict[str, Any]:
    """Return the settings of a recipe for a name or an object; ``others`` are the settings that were given, too.

    Examples:
        >>> estimator_settings("random_forest"), estimator_settings("none"), estimator_settings(None)
        ({'estimator.name': 'random_forest'}, {'estimator': None}, {})
    """
    if estimator is None:
        return {}
    check_estimator(estimator)
    if estimator == NONE:
        return {"estimator": None}
    others = sorted(name for name in others if name.split(".")[0] in NETWORK_SECTIONS or name == "training.epochs")
    if others:
        words = format_list([name.removeprefix("training.").removesuffix(".name") for name in others], "setting")
        raise ValueError(f"an estimator trains no network, so remove {words}, or the estimator.")
    if isinstance(estimator, str):
        return {"estimator.name": "+".join(split_names(estimator))}
    kind = type(estimator)
    return {
        "estimator.name": f"{kind.__module__}.{kind.__qualname__}",
        "estimator.given": " ".join(repr(estimator).split()),
    }


def make_estimator(name: str, inputs: Inputs, seed: int) -> Any:
    """Return a new estimator for samples of one kind, with its ``random_state`` set.

    Examples:
        >>> import torch
        >>> make_estimator("sklearn.tree.DecisionTreeClassifier", Vectors(torch.zeros(2, 1)), seed=7)
        DecisionTreeClassifier(random_state=7)
    """
    return seeded(ESTIMATORS[name](inputs) if name in ESTIMATORS else _import_class(name)(), seed)


def seeded(estimator: Any, seed: int) -> Any:
    """Return a copy of an estimator; ``random_state`` becomes the seed, also in a pipeline, unless it is set."""
    from sklearn.base import clone

    copy = clone(estimator)
    unset = [name for name, value in copy.get_params().items() if _is_random_state(name) and value is None]
    return copy.set_params(**dict.fromkeys(unset, seed))


def _is_random_state(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")


def fit_features(estimator: Any, inputs: Inputs, *, dense: bool = False) -> tuple[Any, Features]:
    """Return the estimator, told which columns are categories if it can take them, and its features (N, d).

    Tables: gradient boosting takes categories and empty cells as they are, other estimators standardized numbers and
    one-hot categories. Texts: tf-idf, or its singular vectors if ``dense`` or if the estimator takes no sparse matrix.
    No feature depends on a label, so they are computed once for all folds.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    if isinstance(inputs, Table) and isinstance(estimator, HistGradientBoostingClassifier):
        values, is_category = table_codes(inputs)
        if is_category.any():
            estimator.set_params(categorical_features=is_category)
        return estimator, values
    if isinstance(inputs, Texts) and not dense and _takes_sparse(estimator):
        try:
            return estimator, tfidf_vectorizer(max_features=MAX_WORDS).fit_transform(inputs.texts)
        except ValueError:
            raise ValueError("the texts contain no words of two letters or more: nothing to encode.") from None
    return estimator, dense_features(inputs)


def dense_features(inputs: Inputs) -> NDArray[np.float32]:
    """Return vectors (N, d) with comparable columns."""
    if isinstance(inputs, Table):
        return TableEncoder.fit(inputs)(inputs).values.numpy()
    if isinstance(inputs, Texts):
        return TextEncoder.fit(inputs)(inputs).values.numpy()
    if isinstance(inputs, Images):
        return inputs.pixels.flatten(1).float().div(255).numpy()
    if isinstance(inputs, Vectors):
        return inputs.values.numpy() if inputs.scaled else _standardized(inputs.values.numpy())
    raise ValueError(
        f"an estimator needs vectors, but the data are {describe_inputs(inputs)}: encode images by a pretrained "
        "network (backbone), or train the network (estimator none)."
    )


def table_codes(table: Table) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the columns of a table as numbers (N, d), categories as codes by frequency, and which are categories.

    Examples:
        >>> values, is_category = table_codes(Table({"size": np.array([1.0, np.nan]), "color": np.array(["b", "a"])}))
        >>> values.tolist(), is_category.tolist()
        ([[1.0, 1.0], [nan, 0.0]], [False, True])
    """
    columns, is_category = [], []
    for column in table.columns.values():
        is_category.append(column.dtype.kind not in "fiub")
        columns.append(_codes(column.tolist()) if is_category[-1] else column.astype(np.float64))
    return np.stack(columns, 1), np.array(is_category)


def _codes(words: Sequence[str]) -> NDArray[np.float64]:
    """Return the rank of each word by frequency, then by name; an empty cell is a category, too."""
    counts = Counter(words)
    ranks = {word: rank for rank, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word)))}
    return np.array([min(ranks[word], MAX_CATEGORIES) for word in words], dtype=np.float64)


def _standardized(x: NDArray[np.float32]) -> NDArray[np.float32]:
    wide = x.astype(np.float64)
    scale = wide.std(0)
    standardized: NDArray[np.float32] = ((wide - wide.mean(0)) / np.where(scale > 0, scale, 1.0)).astype(np.float32)
    return standardized


def _takes_sparse(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).input_tags.sparse)


def _import_class(name: str) -> Any:
    """Return the class at an import path."""
    module, _, attribute = name.replace(":", ".").rpartition(".")
    names = (*ESTIMATORS, NONE)
    if not module:
        raise ValueError(
            f"unknown estimator {name!r}{did_you_mean(name, names) or '.'} Choose from {', '.join(names)}, or give the "
            "import path of a class, such as sklearn.naive_bayes.GaussianNB."
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError):
        raise ValueError(f"estimator {name!r} cannot be imported: no class {attribute!r} in {module!r}.") from None
    if not isinstance(found, type):
        raise ValueError(f"estimator {name!r} is not a class.")
    _check_methods(found, name)
    return found


def _check_methods(estimator: Any, name: str) -> None:
    missing = [word for word in ("fit", "predict_proba", "get_params") if not hasattr(estimator, word)]
    if missing:
        raise ValueError(
            f"estimator {name} has no {missing[0]}: give a scikit-learn classifier that predicts probabilities."
        )
