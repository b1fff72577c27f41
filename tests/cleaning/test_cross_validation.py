"""Out-of-sample probabilities of scikit-learn estimators, against a slow cross-validation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from permll.cleaning import cross_validation
from permll.cleaning.cross_validation import cross_validate, out_of_sample
from permll.cleaning.estimators import check_estimator, fit_features, make_estimator, seeded, table_codes
from permll.data.dataset import LabeledData
from permll.data.inputs import Table, Texts, Vectors
from permll.training.recipe import EstimatorSection
from tests.helpers.mislabeled_data import CLASSES, mislabeled

SECTION = EstimatorSection(name="logistic_regression+random_forest", folds=3)


def vectors(rows: int = 60, trusted: Any = None) -> LabeledData:
    known = mislabeled(rows)
    labels = torch.from_numpy(known.given.astype(np.int64))
    return LabeledData(
        Vectors(torch.from_numpy(known.values)), labels, CLASSES, tuple(map(str, range(rows))), {}, trusted
    )


def test_probabilities_are_those_of_estimators_that_did_not_see_the_fold() -> None:
    data = vectors()
    result = cross_validate(data, SECTION, seed=4)
    x, labels = data.inputs.values.double().numpy(), data.labels.numpy()
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    for fold in range(3):
        test = result.fold.numpy() == fold
        one = LogisticRegression(C=0.1, max_iter=300, random_state=4).fit(x[~test], labels[~test])
        other = RandomForestClassifier(200, min_samples_leaf=5, random_state=4).fit(x[~test], labels[~test])
        expected = (one.predict_proba(x[test]) + other.predict_proba(x[test])) / 2
        np.testing.assert_allclose(result.probs[test].numpy(), expected, atol=1e-5)


def test_trusted_samples_are_always_trained_on() -> None:
    trusted = torch.zeros(60, dtype=torch.bool)
    trusted[:20] = True
    data = vectors(60, trusted)
    result = cross_validate(data, EstimatorSection(name="naive_bayes", folds=4), seed=0)
    assert ((result.fold == -1) == trusted).all()
    assert torch.equal(result.probs[:20], torch.nn.functional.one_hot(data.labels[:20], 3).float())
    x, labels = fit_features(GaussianNB(), data.inputs)[1], data.labels.numpy()
    test = result.fold.numpy() == 2
    expected = GaussianNB(var_smoothing=1e-3).fit(x[~test], labels[~test]).predict_proba(x[test])
    np.testing.assert_allclose(result.probs[test].numpy(), expected, atol=1e-5)


def test_equal_samples_are_in_one_fold() -> None:
    texts = tuple(f"word{row % 10} common" for row in range(40))
    data = LabeledData(Texts(texts), torch.arange(40) % 2, ("a", "b"), tuple(map(str, range(40))))
    fold = cross_validate(data, EstimatorSection(name="naive_bayes"), seed=0).fold.tolist()
    assert all(len({fold[row] for row in range(40) if row % 10 == word}) == 1 for word in range(10))
    assert set(fold) == set(range(5))


def test_class_that_is_not_trained_on_has_its_frequency() -> None:
    labels = np.array([0, 0, 1, 1, 2])
    fold = np.array([0, 1, 0, 1, 0])
    ((_, rows, probs), second) = out_of_sample([(GaussianNB(), np.arange(5.0)[:, None])], labels, fold, 3)
    assert rows.tolist() == [0, 2, 4]
    np.testing.assert_allclose(probs[:, 2], 0.2)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-6)
    assert second[2].shape == (2, 3)


def test_one_class_or_no_row_to_train_on_gives_the_frequencies() -> None:
    labels = np.array([0, 0, 1])
    results = list(out_of_sample([(GaussianNB(), np.arange(3.0)[:, None])], labels, np.array([0, 0, 0]), 2))
    np.testing.assert_allclose(results[0][2], np.tile([2 / 3, 1 / 3], (3, 1)), atol=1e-6)
    results = list(out_of_sample([(GaussianNB(), np.arange(3.0)[:, None])], labels, np.array([-1, 0, 1]), 2))
    np.testing.assert_allclose(results[1][2], [[2 / 3, 1 / 3]], atol=1e-6)


class StoppedError(Exception):
    """Stops a cross-validation."""


def test_finished_folds_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, path = vectors(), tmp_path / "folds.npz"
    whole = cross_validate(data, SECTION, seed=0)

    def stop(text: str) -> None:
        if text.startswith("fold 2 of 3"):
            raise StoppedError

    with pytest.raises(StoppedError):
        cross_validate(data, SECTION, seed=0, path=path, notify=stop)
    starts = []
    original = cross_validation.out_of_sample
    monkeypatch.setattr(
        cross_validation, "out_of_sample", lambda *args, start: starts.append(start) or original(*args, start=start)
    )
    again = cross_validate(data, SECTION, seed=0, path=path)
    assert starts == [2]
    assert torch.equal(again.probs, whole.probs)
    changed = data.relabel((data.labels + 1) % 3)
    assert torch.equal(
        cross_validate(changed, SECTION, seed=0, path=path).probs, cross_validate(changed, SECTION, seed=0).probs
    )
    assert starts == [2, 0, 0]


def test_gradient_boosting_takes_categories_and_empty_cells_as_they_are() -> None:
    table = Table({"size": np.array([1.0, np.nan] * 20), "color": np.array(["red", "", "blue", "red"] * 10)})
    values, is_category = table_codes(table)
    estimator, x = fit_features(make_estimator("hist_gradient_boosting", table, seed=0), table)
    np.testing.assert_array_equal(x, values)
    assert np.isnan(x[1, 0])
    assert x[:4, 1].tolist() == [0, 1, 2, 0]  # most frequent first, then by name
    assert estimator.get_params()["categorical_features"].tolist() == is_category.tolist() == [False, True]
    estimator.fit(x, np.arange(40) % 4 // 2)


def test_more_categories_than_gradient_boosting_takes() -> None:
    table = Table({"city": np.array([f"c{row}" for row in range(600)])})
    estimator, x = fit_features(HistGradientBoostingClassifier(max_iter=2), table)
    assert x.max() == 254
    estimator.fit(x, np.arange(600) % 2)


def test_texts_are_sparse_only_for_estimators_that_take_them() -> None:
    texts = Texts(tuple(f"river fish {'sun' if row % 2 else 'snow'} w{row % 7}" for row in range(30)))
    for estimator in (LogisticRegression(), make_pipeline(StandardScaler(with_mean=False), LogisticRegression())):
        assert hasattr(fit_features(estimator, texts)[1], "tocsr")
    for estimator in (GaussianNB(), HistGradientBoostingClassifier()):
        assert isinstance(fit_features(estimator, texts)[1], np.ndarray)
    with pytest.raises(ValueError, match="no words of two letters"):
        fit_features(LogisticRegression(), Texts(("a", "?")))


def test_seed_is_set_in_pipelines_but_not_over_a_given_one() -> None:
    forest = make_pipeline(StandardScaler(), RandomForestClassifier())
    assert seeded(forest, 7).get_params()["randomforestclassifier__random_state"] == 7
    assert forest.get_params()["randomforestclassifier__random_state"] is None
    assert seeded(RandomForestClassifier(random_state=3), 7).random_state == 3


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        ("forest", "unknown estimator 'forest'"),
        ("random_forrest", "did you mean random_forest?"),
        ("", "must be a name"),
        ("random_forest+", "must be a name"),
        ("random_forest+random_forest", "must be a name"),
        ("none+random_forest", "must be a name"),
        ("sklearn.nothing.Forest", "cannot be imported: no class 'Forest' in 'sklearn.nothing'"),
        ("sklearn.ensemble.Forest", "cannot be imported"),
        ("sklearn.svm.LinearSVC", "has no predict_proba"),
        ("sklearn.base.clone", "is not a class"),
        ("..x", "cannot be imported"),
        (KNeighborsClassifier, "an object, not a class"),
        (3, "estimator int has no fit"),
    ],
)
def test_bad_estimators_are_refused(estimator: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        check_estimator(estimator)
