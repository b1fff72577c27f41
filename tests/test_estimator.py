"""``PermLLClassifier``: the scikit-learn API, label issues, and preprocessing of X."""

import pickle
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import permll
from permll import PermLLClassifier
from permll.estimator.preprocessing import MAX_DENSE_COLUMNS, SVD_COMPONENTS, fit_preprocessor
from permll.methods._registry import find_method
from permll.methods.ce import CrossEntropy

DOCS_PAGE = (Path(__file__).resolve().parent.parent / "docs" / "estimator.md").read_text()


@parametrize_with_checks([PermLLClassifier(epochs=3, learning_rate=0.1)])  # quick: the noise model converges soon
def test_estimator_passes_sklearn_check(estimator: Any, check: Any) -> None:
    check(estimator)


Blobs = tuple[NDArray[Any], NDArray[Any]]


class Digits(NamedTuple):
    X: NDArray[Any]
    y_true: NDArray[Any]
    y_noisy: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]


@pytest.fixture(scope="module")
def digits() -> Digits:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:700], order[700:]
    y_noisy = y[train].copy()
    y_noisy[::5] = (y_noisy[::5] + np.random.default_rng(1).integers(1, 10, 140)) % 10
    return Digits(X[train], y[train], y_noisy, X[test], y[test])


@pytest.fixture(scope="module")
def digits_model(digits: Digits) -> PermLLClassifier:
    return PermLLClassifier(random_state=0).fit(digits.X, digits.y_noisy)


@pytest.fixture(scope="module")
def blobs() -> Blobs:
    X, y = make_blobs(60, 4, centers=3, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def blobs_model(blobs: Blobs) -> PermLLClassifier:
    return PermLLClassifier(epochs=3, random_state=0).fit(*blobs)


def test_estimator_finds_wrong_labels(digits: Digits, digits_model: PermLLClassifier) -> None:
    wrong = digits.y_noisy != digits.y_true
    assert (digits_model.corrected_labels_ == digits.y_true).mean() > 0.95  # of the given labels, 0.8 are correct
    assert digits_model.label_quality_[~wrong].mean() > 0.9 > 0.2 > digits_model.label_quality_[wrong].mean()
    assert wrong[digits_model.label_quality_.argsort()[:100]].mean() > 0.95
    assert digits_model.noise_rate_ == pytest.approx(0.2, abs=0.07)
    baseline = PermLLClassifier("ce", random_state=0).fit(digits.X, digits.y_noisy)
    accuracy = digits_model.score(digits.X_test, digits.y_test)
    assert accuracy > 0.92
    assert accuracy > baseline.score(digits.X_test, digits.y_test) + 0.03


def test_estimator_agrees_with_clean(tmp_path: Path) -> None:
    X, y = make_blobs(200, 3, centers=3, cluster_std=2.0, random_state=1)
    y[::7] = (y[::7] + 1) % 3
    model = PermLLClassifier(epochs=4, random_state=0).fit(X, y)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    overrides = {"training.threads": 1, "data.split_seed": seed}
    vectors = fit_preprocessor(X, seed)(X).values.numpy()
    findings = permll.clean(vectors, y, out=tmp_path / "run", epochs=4, seed=seed, callbacks=[], overrides=overrides)
    np.testing.assert_array_equal(model.label_quality_, findings.label_quality)
    assert not (model.corrected_labels_ != y)[~findings.is_issue].any()
    np.testing.assert_array_equal(
        model.corrected_labels_[findings.is_issue], findings.proposed_labels[findings.is_issue]
    )
    assert model.noise_rate_ == findings.metadata["noise"]["rate"]
    assert 5 < findings.is_issue.sum() < 60


def test_estimator_accepts_text_labels(blobs: Blobs, blobs_model: PermLLClassifier) -> None:
    X, y = blobs
    names = np.array(["ant", "bee", "cow"])
    named = PermLLClassifier(epochs=3, random_state=0).fit(X, names[y])
    assert named.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(named.predict(X), names[blobs_model.predict(X)])
    np.testing.assert_array_equal(named.corrected_labels_, names[blobs_model.corrected_labels_])
    np.testing.assert_array_equal(named.label_quality_, blobs_model.label_quality_)


def test_random_state_makes_fit_reproducible(blobs: Blobs, blobs_model: PermLLClassifier) -> None:
    X, y = blobs
    again, other = (PermLLClassifier(epochs=3, random_state=seed).fit(X, y) for seed in (0, 1))
    np.testing.assert_array_equal(again.label_quality_, blobs_model.label_quality_)
    np.testing.assert_array_equal(again.predict_proba(X), blobs_model.predict_proba(X))
    assert (other.predict_proba(X) != blobs_model.predict_proba(X)).any()


def test_fit_has_no_side_effects(
    blobs: Blobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    two_threads: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    PermLLClassifier(epochs=1, random_state=0).fit(*blobs)
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state[1])
    assert torch.get_num_threads() == 2
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


class Interrupted(CrossEntropy):
    def on_step_end(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_interrupted_fit_leaves_estimator_unfitted(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = PermLLClassifier(Interrupted, epochs=3)
    with pytest.raises(KeyboardInterrupt) as raised:
        model.fit(*blobs)
    assert str(raised.value) == ""
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotFittedError):
        model.predict(blobs[0])


def test_estimator_can_be_pickled_and_cloned(blobs: Blobs, blobs_model: PermLLClassifier) -> None:
    X, _ = blobs
    copy = pickle.loads(pickle.dumps(blobs_model))
    np.testing.assert_array_equal(copy.predict_proba(X), blobs_model.predict_proba(X))
    overrides = {"network.widths": [16]}
    fresh = clone(PermLLClassifier("elr", epochs=7, overrides=overrides))
    assert fresh.get_params()["overrides"] == overrides
    assert (fresh.method, fresh.epochs) == ("elr", 7)
    assert not hasattr(fresh, "classes_")


def test_estimator_works_in_pipeline_and_grid_search(blobs: Blobs) -> None:
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), PermLLClassifier(epochs=3, random_state=0))
    search = GridSearchCV(pipeline, {"permllclassifier__epochs": np.array([1, 3])}, cv=2).fit(X, y)
    assert search.best_params_ == {"permllclassifier__epochs": 3}
    assert search.score(X, y) > 0.8
    assert (cross_val_score(pipeline, X, y, cv=2) > 0.8).all()


@pytest.mark.parametrize("method", ["elr", "co_teaching"])
def test_estimator_accepts_any_method(blobs: Blobs, method: str) -> None:
    X, y = blobs
    model = PermLLClassifier(method, epochs=4, random_state=0).fit(X, y)
    assert type(model.method_) is type(find_method(method).build())
    assert model.score(X, y) > 0.8
    assert model.label_quality_.shape == y.shape


def test_estimator_error_messages(blobs: Blobs) -> None:
    X, y = blobs
    with pytest.raises(ValueError, match=r"'elrr'.* did you mean elr\?"):
        PermLLClassifier("elrr").fit(X, y)
    with pytest.raises(ValueError, match="y has one class, 'a': at least two are needed"):
        PermLLClassifier().fit(X, ["a"] * len(X))
    with pytest.raises(ValueError, match="validation_fraction must be in"):
        PermLLClassifier(validation_fraction=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"epochs is 0"):
        PermLLClassifier(epochs=0).fit(X, y)
    with pytest.raises(ValueError, match=r"key training\.epoch, did you mean epochs"):
        PermLLClassifier(overrides={"training.epoch": 3}).fit(X, y)
    with pytest.raises(ValueError, match="y mixes labels of types NoneType, str"):
        PermLLClassifier().fit(X, ["a", None, "b"] * 20)
    with pytest.raises(ValueError, match="NaN"):
        PermLLClassifier().fit(X, np.where(y == 0, np.nan, y))
    with pytest.raises(ValueError, match="infinity"):
        PermLLClassifier().fit(np.full_like(X, np.inf), y)


def test_fit_with_two_samples_or_one_sample_per_class() -> None:
    model = PermLLClassifier(epochs=2, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"])
    assert model.predict_proba([[0.0, 1.0]]).shape == (1, 2)
    assert model.label_quality_.shape == (2,)
    X = np.random.default_rng(0).normal(size=(21, 2))
    model = PermLLClassifier(epochs=2, random_state=0).fit(X, [0, 1] * 10 + [2])
    assert model.predict_proba(X).shape == (21, 3)
    assert 0 <= model.noise_rate_ <= 1


def test_warm_start_initializes_weights(blobs: Blobs) -> None:
    X, y = blobs

    def head(model: PermLLClassifier) -> torch.Tensor:
        return model.method_.networks["net"].head.weight.clone()

    model = PermLLClassifier(epochs=3, random_state=0, warm_start=True).fit(X, y)
    before = head(model)
    still = {"epochs": 1, "learning_rate": 1e-9}
    assert torch.allclose(head(model.set_params(**still).fit(X[::-1], y[::-1])), before, atol=1e-6)
    assert not torch.allclose(head(clone(model).set_params(**still).fit(X, y)), before, atol=1e-3)
    with pytest.raises(ValueError, match="warm_start needs the classes of the previous fit"):
        model.fit(X, y + 1)
    with pytest.raises(ValueError, match="but this method has net0, net1: set warm_start=False"):
        clone(model).fit(X, y).set_params(method="co_teaching").fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start needs the network of the previous fit \(size mismatch"):
        model.set_params(overrides={"network.widths": [8, 8]}).fit(X, y)


def test_overrides_change_recipe(blobs: Blobs) -> None:
    overrides = {"network.widths": [8], "method.correct_after": np.float64(0.5)}
    model = PermLLClassifier(epochs=np.int64(1), overrides=overrides, verbose=2).fit(*blobs)
    assert model.method_.networks["net"].head.in_features == 8


def test_verbose_logs_epochs(blobs: Blobs, capfd: pytest.CaptureFixture[str]) -> None:
    PermLLClassifier(epochs=2, verbose=2).fit(*blobs)
    assert "epoch 2 of 2" in capfd.readouterr().err


def test_sparse_matrix_equals_array(blobs: Blobs, blobs_model: PermLLClassifier) -> None:
    X, y = blobs
    model = PermLLClassifier(epochs=3, random_state=0).fit(sp.csc_matrix(X), y)
    np.testing.assert_array_equal(model.predict_proba(sp.coo_array(X)), blobs_model.predict_proba(X))


def test_wide_sparse_matrix_is_reduced_by_svd() -> None:
    rng = np.random.default_rng(0)
    topics = sp.random(3, 2 * MAX_DENSE_COLUMNS, 0.05, random_state=rng, format="csr")
    y = rng.integers(0, 3, 400)
    X = (topics[y] + sp.random(400, 2 * MAX_DENSE_COLUMNS, 0.001, random_state=rng, format="csr")).tocsr()
    vectors = fit_preprocessor(X, seed=0)(X)
    assert vectors.values.shape == (400, SVD_COMPONENTS)
    assert vectors.values.square().mean().item() == pytest.approx(1, abs=0.05)
    assert vectors.values[:, 0].std() > 3 * vectors.values[:, -1].std()  # relative scales are preserved
    model = PermLLClassifier(epochs=3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X * np.nan)


def test_numeric_scaler_handles_large_offsets_and_nan() -> None:
    X = np.stack([1e12 + np.arange(6.0), [np.nan, 1, 1, 3, 3, np.nan], np.full(6, np.nan), np.full(6, 7.0)], 1)
    preprocessor = fit_preprocessor(X, seed=0)
    values, features = preprocessor(X).values, preprocessor(X).features
    assert torch.allclose(values[:, 0], torch.linspace(-1, 1, 6) * 1.4639, atol=1e-3)
    assert values[:, 1].tolist() == [0, -1, -1, 1, 1, 0]
    assert (values[:, 2:4] == 0).all()
    assert values[:, 4].tolist() == [1, 0, 0, 0, 0, 1]
    assert (values[:, 5] == 1).all()
    assert features is not None
    assert features.tolist() == [0, 1, 2, 3, 1, 2]
    assert preprocessor(np.full((1, 4), 1e300)).values.isfinite().all()


def test_numeric_frames_keep_column_names(blobs: Blobs, blobs_model: PermLLClassifier) -> None:
    X, y = blobs
    names = ["a", "b", "c", "d"]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = PermLLClassifier(epochs=3, random_state=0).fit(frame, y)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict_proba(frame), blobs_model.predict_proba(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_mixed_frames_with_missing_values(library: str) -> None:
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "green", "blue"], 90)
    columns = {"size": rng.normal(size=90), "color": color.tolist(), "sold": rng.random(90) < 0.5}
    columns["size"][::10] = np.nan
    columns["color"][5] = None  # type: ignore[call-overload]
    frame: Any = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
    y = pd.Series(np.where(color == "red", "yes", "no"))
    model = PermLLClassifier(epochs=5, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["size", "color", "sold"]
    assert model.score(frame, y) > 0.95
    np.testing.assert_allclose(model.predict_proba(frame[5:6]), model.predict_proba(frame)[5:6])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["color", "size", "sold"]])
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match="fit was called with a data frame with text columns"),
    ):
        model.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PermLLClassifier().fit(frame, y[:-1])


def test_docs_page_examples_run() -> None:
    names: dict[str, Any] = {}
    first, *others = re.findall(r"```python\n(.*?)```", DOCS_PAGE, re.DOTALL)
    exec(first.replace("PermLLClassifier(", "PermLLClassifier(epochs=6, "), names)
    model = names["model"]
    assert model.noise_rate_ == pytest.approx(0.2, abs=0.1)
    assert (model.corrected_labels_ == names["y"]).mean() > 0.9
    for code in others:
        exec(code.replace("epochs=10", "epochs=5"), names)
    assert names["pipeline"].predict(["fine acting", "so dull"]).tolist() == ["good", "bad"]
    assert set(names["search"].cv_results_["param_method"]) == {"permll", "ce"}
    assert min(names["search"].cv_results_["mean_test_score"]) > 0.5  # measured on noisy labels
