"""``PermLLClassifier`` is a scikit-learn estimator, and finds wrong labels."""

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
from permll.estimator.preprocessing import DIRECTIONS, WIDE, fit_features
from permll.methods.ce import CrossEntropy

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "estimator.md").read_text()


@parametrize_with_checks([PermLLClassifier(epochs=5)])
def test_it_is_an_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


class Digits(NamedTuple):
    X: NDArray[Any]
    true: NDArray[Any]
    given: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]


@pytest.fixture(scope="module")
def digits() -> Digits:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:700], order[700:]
    given = y[train].copy()
    given[::5] = (given[::5] + np.random.default_rng(1).integers(1, 10, 140)) % 10
    return Digits(X[train], y[train], given, X[test], y[test])


@pytest.fixture(scope="module")
def found(digits: Digits) -> PermLLClassifier:
    return PermLLClassifier(random_state=0).fit(digits.X, digits.given)


@pytest.fixture(scope="module")
def blobs() -> tuple[NDArray[Any], NDArray[Any]]:
    X, y = make_blobs(60, 4, centers=3, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def small(blobs: tuple[NDArray[Any], NDArray[Any]]) -> PermLLClassifier:
    return PermLLClassifier(epochs=3, random_state=0).fit(*blobs)


def test_wrong_labels_are_found_and_not_learned(digits: Digits, found: PermLLClassifier) -> None:
    wrong = digits.given != digits.true
    assert (found.corrected_labels_ == digits.true).mean() > 0.95  # of the given ones 0.8 are
    assert found.label_quality_[~wrong].mean() > 0.9 > 0.2 > found.label_quality_[wrong].mean()
    assert wrong[found.label_quality_.argsort()[:100]].mean() > 0.95
    assert found.noise_rate_ == pytest.approx(0.2, abs=0.07)
    plain = PermLLClassifier("ce", random_state=0).fit(digits.X, digits.given)
    accuracy = found.score(digits.X_test, digits.y_test)
    assert accuracy > 0.92
    assert accuracy > plain.score(digits.X_test, digits.y_test) + 0.03


def test_it_finds_what_clean_finds(tmp_path: Path) -> None:
    X, y = make_blobs(200, 3, centers=3, cluster_std=2.0, random_state=1)
    y[::7] = (y[::7] + 1) % 3
    model = PermLLClassifier(epochs=4, random_state=0).fit(X, y)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    options = {"training__threads": 1, "data__split_seed": seed}
    vectors = fit_features(X, seed)(X).values.numpy()
    findings = permll.clean(vectors, y, out=tmp_path / "run", epochs=4, seed=seed, callbacks=[], **options)
    np.testing.assert_array_equal(model.label_quality_, findings.label_quality)
    np.testing.assert_array_equal(model.corrected_labels_ != y, findings.is_issue)
    np.testing.assert_array_equal(
        model.corrected_labels_[findings.is_issue], findings.proposed_labels[findings.is_issue]
    )
    assert model.noise_rate_ == findings.metadata["noise"]["rate"]
    assert 5 < findings.is_issue.sum() < 60


def test_text_labels_are_like_numbers(blobs: tuple[NDArray[Any], NDArray[Any]], small: PermLLClassifier) -> None:
    X, y = blobs
    names = np.array(["ant", "bee", "cow"])
    named = PermLLClassifier(epochs=3, random_state=0).fit(X, names[y])
    assert named.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(named.predict(X), names[small.predict(X)])
    np.testing.assert_array_equal(named.corrected_labels_, names[small.corrected_labels_])
    np.testing.assert_array_equal(named.label_quality_, small.label_quality_)


def test_the_same_random_state_gives_the_same(
    blobs: tuple[NDArray[Any], NDArray[Any]], small: PermLLClassifier
) -> None:
    X, y = blobs
    again, other = (PermLLClassifier(epochs=3, random_state=seed).fit(X, y) for seed in (0, 1))
    np.testing.assert_array_equal(again.label_quality_, small.label_quality_)
    np.testing.assert_array_equal(again.predict_proba(X), small.predict_proba(X))
    assert (other.predict_proba(X) != small.predict_proba(X)).any()


def test_nothing_is_left_behind(
    blobs: tuple[NDArray[Any], NDArray[Any]],
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


def test_an_interrupted_fit_promises_nothing_and_keeps_nothing(
    blobs: tuple[NDArray[Any], NDArray[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = PermLLClassifier(Interrupted, epochs=3)
    with pytest.raises(KeyboardInterrupt) as raised:
        model.fit(*blobs)
    assert str(raised.value) == ""
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotFittedError):
        model.predict(blobs[0])


def test_it_can_be_pickled_and_cloned(blobs: tuple[NDArray[Any], NDArray[Any]], small: PermLLClassifier) -> None:
    X, _ = blobs
    copy = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(copy.predict_proba(X), small.predict_proba(X))
    settings = {"network.widths": [16]}
    fresh = clone(PermLLClassifier("elr", epochs=7, settings=settings))
    assert fresh.get_params()["settings"] == settings
    assert (fresh.method, fresh.epochs) == ("elr", 7)
    assert not hasattr(fresh, "classes_")


def test_it_works_in_pipelines_and_searches(blobs: tuple[NDArray[Any], NDArray[Any]]) -> None:
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), PermLLClassifier(epochs=3, random_state=0))
    search = GridSearchCV(pipeline, {"permllclassifier__epochs": np.array([1, 3])}, cv=2).fit(X, y)
    assert search.best_params_ == {"permllclassifier__epochs": 3}
    assert search.score(X, y) > 0.8
    assert (cross_val_score(pipeline, X, y, cv=2) > 0.8).all()


@pytest.mark.parametrize("method", ["elr", "co_teaching"])
def test_any_method_can_be_chosen(blobs: tuple[NDArray[Any], NDArray[Any]], method: str) -> None:
    X, y = blobs
    model = PermLLClassifier(method, epochs=4, random_state=0).fit(X, y)
    assert model.trained_.card["method"] == method
    assert model.score(X, y) > 0.8
    assert model.label_quality_.shape == y.shape


def test_what_cannot_be_is_said_in_a_sentence(blobs: tuple[NDArray[Any], NDArray[Any]]) -> None:
    X, y = blobs
    with pytest.raises(ValueError, match=r"'elrr' is no method, did you mean elr\?"):
        PermLLClassifier("elrr").fit(X, y)
    with pytest.raises(ValueError, match="y holds one class, 'a': two or more are needed"):
        PermLLClassifier().fit(X, ["a"] * len(X))
    with pytest.raises(ValueError, match="validation_fraction must lie in"):
        PermLLClassifier(validation_fraction=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"epochs is 0"):
        PermLLClassifier(epochs=0).fit(X, y)
    with pytest.raises(ValueError, match=r"there is no key training.epoch, did you mean epochs"):
        PermLLClassifier(settings={"training.epoch": 3}).fit(X, y)
    with pytest.raises(ValueError, match="y mixes labels of several types, NoneType, str"):
        PermLLClassifier().fit(X, ["a", None, "b"] * 20)
    with pytest.raises(ValueError, match="NaN"):
        PermLLClassifier().fit(X, np.where(y == 0, np.nan, y))
    with pytest.raises(ValueError, match="infinity"):
        PermLLClassifier().fit(np.full_like(X, np.inf), y)


def test_two_rows_and_classes_of_one_row_are_enough() -> None:
    model = PermLLClassifier(epochs=2, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"])
    assert model.predict_proba([[0.0, 1.0]]).shape == (1, 2)
    assert model.label_quality_.shape == (2,)
    X = np.random.default_rng(0).normal(size=(21, 2))
    model = PermLLClassifier(epochs=2, random_state=0).fit(X, [0, 1] * 10 + [2])
    assert model.predict_proba(X).shape == (21, 3)
    assert 0 <= model.noise_rate_ <= 1


def test_a_warm_start_begins_with_the_weights_that_are_there(blobs: tuple[NDArray[Any], NDArray[Any]]) -> None:
    X, y = blobs

    def head(model: PermLLClassifier) -> torch.Tensor:
        return model.trained_.networks["net"].head.weight.clone()

    model = PermLLClassifier(epochs=3, random_state=0, warm_start=True).fit(X, y)
    before = head(model)
    still = {"epochs": 1, "learning_rate": 1e-9}
    assert torch.allclose(head(model.set_params(**still).fit(X[::-1], y[::-1])), before, atol=1e-6)
    assert not torch.allclose(head(clone(model).set_params(**still).fit(X, y)), before, atol=1e-3)
    with pytest.raises(ValueError, match="a warm start needs the classes of the fit before"):
        model.fit(X, y + 1)
    with pytest.raises(ValueError, match="but this method has net0, net1: set warm_start=False"):
        clone(model).fit(X, y).set_params(method="co_teaching").fit(X, y)
    with pytest.raises(ValueError, match=r"a warm start needs the network of the fit before \(size mismatch"):
        model.set_params(settings={"network.widths": [8, 8]}).fit(X, y)


def test_settings_reach_the_recipe(blobs: tuple[NDArray[Any], NDArray[Any]]) -> None:
    settings = {"network.widths": [8], "method.correct_after": np.float64(0.5)}
    model = PermLLClassifier(epochs=np.int64(1), settings=settings, verbose=2).fit(*blobs)
    assert model.trained_.networks["net"].head.in_features == 8


def test_what_is_verbose_says_something(
    blobs: tuple[NDArray[Any], NDArray[Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    PermLLClassifier(epochs=2, verbose=2).fit(*blobs)
    assert "epoch 2 of 2" in capfd.readouterr().err


def test_a_sparse_matrix_is_read_like_an_array(
    blobs: tuple[NDArray[Any], NDArray[Any]], small: PermLLClassifier
) -> None:
    X, y = blobs
    model = PermLLClassifier(epochs=3, random_state=0).fit(sp.csc_matrix(X), y)
    np.testing.assert_array_equal(model.predict_proba(sp.coo_array(X)), small.predict_proba(X))


def test_a_wide_sparse_matrix_becomes_its_main_directions() -> None:
    rng = np.random.default_rng(0)
    topics = sp.random(3, 20 * WIDE, 0.05, random_state=rng, format="csr")
    y = rng.integers(0, 3, 400)
    X = (topics[y] + sp.random(400, 20 * WIDE, 0.001, random_state=rng, format="csr")).tocsr()
    vectors = fit_features(X, seed=0)(X)
    assert vectors.values.shape == (400, DIRECTIONS)
    assert vectors.values.square().mean().item() == pytest.approx(1, abs=0.05)
    assert vectors.values[:, 0].std() > 3 * vectors.values[:, -1].std()  # their scales tell what matters
    model = PermLLClassifier(epochs=3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X * np.nan)


def test_numbers_far_apart_and_empty_cells_are_read() -> None:
    X = np.stack([1e12 + np.arange(6.0), [np.nan, 1, 1, 3, 3, np.nan], np.full(6, np.nan), np.full(6, 7.0)], 1)
    features = fit_features(X, seed=0)
    values = features(X).values
    assert torch.allclose(values[:, 0], torch.linspace(-1, 1, 6) * 1.4639, atol=1e-3)
    assert values[:, 1].tolist() == [0, -1, -1, 1, 1, 0]
    assert (values[:, 2:4] == 0).all()
    assert values[:, 4].tolist() == [1, 0, 0, 0, 0, 1]
    assert (values[:, 5] == 1).all()
    assert features(X).features is not None
    assert features(X).features.tolist() == [0, 1, 2, 3, 1, 2]
    assert features(np.full((1, 4), 1e300)).values.isfinite().all()


def test_frames_of_numbers_keep_their_names(blobs: tuple[NDArray[Any], NDArray[Any]], small: PermLLClassifier) -> None:
    X, y = blobs
    names = ["a", "b", "c", "d"]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = PermLLClassifier(epochs=3, random_state=0).fit(frame, y)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict_proba(frame), small.predict_proba(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_may_hold_text_and_empty_cells(library: str) -> None:
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "green", "blue"], 90)
    columns = {"size": rng.normal(size=90), "colour": color.tolist(), "sold": rng.random(90) < 0.5}
    columns["size"][::10] = np.nan
    columns["colour"][5] = None  # type: ignore[call-overload]
    frame: Any = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
    y = pd.Series(np.where(color == "red", "yes", "no"))
    model = PermLLClassifier(epochs=5, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["size", "colour", "sold"]
    assert model.score(frame, y) > 0.95
    np.testing.assert_allclose(model.predict_proba(frame[5:6]), model.predict_proba(frame)[5:6])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["colour", "size", "sold"]])
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match="fit was given a frame with columns of text"),
    ):
        model.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PermLLClassifier().fit(frame, y[:-1])


def test_the_page_tells_the_truth() -> None:
    names: dict[str, Any] = {}
    first, *others = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(first.replace("PermLLClassifier(", "PermLLClassifier(epochs=10, "), names)
    model, right = names["model"], names["y"]
    assert model.noise_rate_ == pytest.approx(0.2, abs=0.1)
    assert (model.corrected_labels_ == right).mean() > 0.9
    for code in others:
        exec(code, names)
    assert names["pipeline"].predict(["fine acting", "so dull"]).tolist() == ["good", "bad"]
    assert set(names["search"].cv_results_["param_method"]) == {"permll", "ce"}
    assert min(names["search"].cv_results_["mean_test_score"]) > 0.5  # of labels as wrong as the others
