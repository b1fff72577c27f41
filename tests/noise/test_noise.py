"""Noise: exact counts, matrices and determinism, against the conventions they claim to follow."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.noise import Corruption, Noise, corrupt, maps
from permll.noise.models import from_matrix, mapped, symmetric

CIFAR10_LABELS = np.repeat(np.arange(10), 4500)  # the paper's training part, 45,000 images
CIFAR100_LABELS = np.repeat(np.arange(100), 450)


@st.composite
def noisy_cases(draw: st.DrawFn) -> tuple[np.ndarray, Noise, int]:
    """Unbalanced labels, any kind of noise, any seed."""
    c = draw(st.integers(2, 12))
    labels = np.array(draw(st.lists(st.integers(0, c - 1), min_size=1, max_size=200)))
    rate = draw(st.floats(0, 1))
    pick = draw(st.sampled_from(["coin", "exact", "per_class"]))
    kind = draw(st.sampled_from(["with", "without", "pair", "matrix"]))
    if kind == "matrix":
        raw = np.random.default_rng(draw(st.integers(0, 99))).random((c, c)) + 1e-3
        return labels, from_matrix(raw / raw.sum(1, keepdims=True)), draw(st.integers(0, 99))
    if kind == "pair":
        return labels, mapped(maps.next_class(c), c, rate, pick=pick), draw(st.integers(0, 99))
    return labels, symmetric(c, rate, include_true=kind == "with", pick=pick), draw(st.integers(0, 99))


@given(noisy_cases())
def test_the_record_is_true_and_repeatable(case: tuple[np.ndarray, Noise, int]) -> None:
    labels, noise, seed = case
    before = labels.copy(), np.random.get_state()[1].copy(), random.getstate()
    record = corrupt(labels, noise, seed)
    again = corrupt(labels, noise, seed)
    assert (labels == before[0]).all()
    assert (np.random.get_state()[1] == before[1]).all()
    assert random.getstate() == before[2]
    assert (record.noisy == again.noisy).all()
    assert record.hash == again.hash
    assert (record.clean == labels).all()
    assert record.rate == np.mean(record.noisy != labels)
    assert ((record.noisy >= 0) & (record.noisy < noise.num_classes)).all()
    # No flip that the matrix does not allow, and rows that are distributions or, without samples, empty.
    assert (noise.transition[labels, record.noisy] > 0).all()
    present = np.isin(np.arange(noise.num_classes), labels)
    assert np.allclose(record.matrix.sum(1), present)


@pytest.mark.parametrize("include_true", [True, False])
@pytest.mark.parametrize("pick", ["coin", "exact", "per_class"])
def test_the_realised_matrix_follows_the_expected_one(include_true: bool, pick: str) -> None:
    noise = symmetric(10, 0.6, include_true=include_true, pick=pick)
    record = corrupt(CIFAR10_LABELS, noise, seed=1)
    assert np.abs(record.matrix - noise.transition).max() < 0.03
    assert record.rate == pytest.approx(0.54 if include_true else 0.6, abs=0.01)


def test_exact_picks_are_exact() -> None:
    without = {"include_true": False}
    labels = np.array([0] * 70 + [1] * 25 + [2] * 5)
    assert corrupt(labels, symmetric(3, 0.29, **without, pick="exact"), 0).changed.sum() == 29
    per_class = corrupt(labels, symmetric(3, 0.2, **without, pick="per_class"), 0)
    assert [per_class.changed[labels == c].sum() for c in range(3)] == [14, 5, 1]


def the_papers_procedure(labels: np.ndarray, rate: float) -> np.ndarray:
    """Class by class: sample the share to change from the class's own positions, then count upwards from i - 1."""
    generator, noisy, classes = random.Random(42), labels.copy(), len(np.unique(labels))
    each = len(labels) // classes
    for label in range(classes):
        positions = np.where(labels == label)[0]
        turn = label - 1
        for k in generator.sample(range(each), int(each * rate)):
            noisy[positions[k]] = turn % classes
            turn += 1
    return noisy


@pytest.mark.parametrize(
    ("labels", "classes", "rate", "realised"),
    [(CIFAR10_LABELS, 10, 0.6, 0.54), (CIFAR10_LABELS, 10, 0.2, 0.18), (CIFAR100_LABELS, 100, 0.6, 0.5933)],
)
def test_the_papers_code_deals_labels_out_in_turn(
    labels: np.ndarray, classes: int, rate: float, realised: float
) -> None:
    noise = symmetric(classes, rate, include_true=True, pick="per_class", cycle=True)
    record = corrupt(labels, noise, seed=42)
    assert record.rate == pytest.approx(realised, abs=1e-4)
    assert (record.noisy == the_papers_procedure(labels, rate)).all()
    # Each class's picked samples went to i - 1, i, i + 1, ...: counts that differ by one at most, the first ones ahead.
    chosen = int(rate * len(labels) / classes)
    for label in (0, classes - 1):
        given = np.bincount(record.noisy[labels == label], minlength=classes)
        given[label] -= len(labels) // classes - chosen
        expected = np.bincount((label - 1 + np.arange(chosen)) % classes, minlength=classes)
        assert (given == expected).all()


@pytest.mark.parametrize(
    ("class_map", "classes", "share"),
    [
        (maps.CIFAR10, 10, 0.5),
        (maps.CIFAR10_WITHOUT_DOG_TO_CAT, 10, 0.4),
        (maps.FASHION_MNIST, 10, 0.6),
        (maps.cifar100_blocks(), 100, 1.0),
        (maps.cifar100_superclasses(), 100, 1.0),
        (maps.cifar100_block_pairs(seed=0), 100, 0.4),
        (maps.next_class(100), 100, 1.0),
    ],
)
def test_mapped_noise_changes_only_the_classes_of_its_map(class_map: dict, classes: int, share: float) -> None:
    labels = np.repeat(np.arange(classes), 50)
    record = corrupt(labels, mapped(class_map, classes, 0.4, pick="per_class"), seed=3)
    assert record.rate == pytest.approx(0.4 * share)
    for true in range(classes):
        expected = np.eye(classes)[true] * (0.6 if true in class_map else 1.0)
        if true in class_map:
            expected[class_map[true]] += 0.4
        assert np.allclose(record.matrix[true], expected)


def test_the_maps_are_what_they_are_called() -> None:
    fine = sorted(c for group in maps.CIFAR100_SUPERCLASSES for c in group)
    assert fine == list(range(100))
    home = {c: k for k, group in enumerate(maps.CIFAR100_SUPERCLASSES) for c in group}
    assert all(home[true] == home[given] for true, given in maps.cifar100_superclasses().items())
    stays = [true for true, given in maps.cifar100_blocks().items() if home[true] == home[given]]
    assert len(stays) == 6  # blocks of five are not superclasses: only six flips stay inside one
    for class_map in (maps.cifar100_blocks(), maps.cifar100_superclasses(), maps.next_class(7)):
        assert sorted(class_map) == sorted(class_map.values())
    pairs = maps.cifar100_block_pairs(5)
    assert len(pairs) == 40
    assert all(pairs[pairs[c]] == c and c // 5 == pairs[c] // 5 for c in pairs)
    assert pairs != maps.cifar100_block_pairs(6)


def test_a_record_survives_its_file(tmp_path) -> None:
    record = corrupt(CIFAR100_LABELS, symmetric(100, 0.4, include_true=True, pick="exact"), seed=7)
    path = record.save(tmp_path / "new" / "noise.npz")
    loaded = Corruption.load(path)
    assert (loaded.clean == record.clean).all()
    assert (loaded.noisy == record.noisy).all()
    assert (loaded.seed, loaded.num_classes, loaded.noise, loaded.hash) == (7, 100, record.noise, record.hash)
    assert path.stat().st_size < 100_000
    assert [file.name for file in path.parent.iterdir()] == ["noise.npz"]


def test_a_file_that_does_not_fit_is_refused(tmp_path) -> None:
    path = corrupt(CIFAR10_LABELS, symmetric(10, 0.4, include_true=True), seed=7).save(tmp_path / "noise.npz")
    with np.load(path) as file:
        about, clean, noisy = file["about"], file["clean"], file["noisy"]
    np.savez(path, about=about, clean=clean, noisy=(noisy + 1) % 10)
    with pytest.raises(ValueError, match=r"noise.npz is damaged: its labels hash to"):
        Corruption.load(path)
    np.savez(path, about=about, clean=clean)
    with pytest.raises(ValueError, match=r"noise.npz is no noise record: it lacks noisy"):
        Corruption.load(path)
    np.savez(path, about=np.array([print], dtype=object), clean=clean, noisy=noisy)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Corruption.load(path)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: symmetric(10, 1.2, include_true=True), r"rate must lie in \[0, 1\], got 1.2"),
        (lambda: symmetric(10, float("nan"), include_true=True), r"got nan"),
        (lambda: symmetric(10, 0.2, include_true=True, pick="some"), r"pick must be one of coin, exact, per_class"),
        (lambda: from_matrix([[0.5, 0.6], [0, 1]]), r"row 0 of the destinations is not a distribution"),
        (lambda: from_matrix([[1.5, -0.5], [0, 1]]), r"row 0 of the destinations"),
        (lambda: from_matrix([[1.0, 0.0]]), r"must be a c x c matrix with c > 1, got shape \(1, 2\)"),
        (lambda: mapped({0: 10}, 10, 0.4), r"the map names class 10, outside 0..9"),
        (lambda: symmetric(10, 0.2, include_true=False, pick="per_class", cycle=True), r"cycle needs"),
        (lambda: corrupt([0, 1, 10], symmetric(10, 0.2, include_true=True), 0), r"the first is 10 at position 2"),
        (lambda: corrupt([0.5], symmetric(10, 0.2, include_true=True), 0), r"whole numbers of shape \(N,\)"),
        (lambda: corrupt([], symmetric(10, 0.2, include_true=True), 0), r"N > 0"),
    ],
)
def test_bad_input_is_one_sentence(build, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
