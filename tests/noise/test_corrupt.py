"""``corrupt``: exact counts, transition matrices and determinism, against the conventions of the papers."""

import random

import numpy as np
import pytest
from hypothesis import given

from permll.noise import Corruption, Noise, class_maps, corrupt, named_noise
from permll.noise.synthetic import asymmetric, from_matrix, symmetric
from tests.helpers.noise_cases import noisy_cases

CIFAR10_LABELS = np.repeat(np.arange(10), 4500)  # the paper's training part, 45,000 images
CIFAR100_LABELS = np.repeat(np.arange(100), 450)


@given(noisy_cases())
def test_corrupt_is_deterministic_and_consistent(case: tuple[np.ndarray, Noise, int]) -> None:
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
    # Only flips with positive probability; rows of the matrix sum to 1, or to 0 for empty classes.
    assert (noise.transition[labels, record.noisy] > 0).all()
    present = np.isin(np.arange(noise.num_classes), labels)
    assert np.allclose(record.matrix.sum(1), present)


@pytest.mark.parametrize("include_true", [True, False])
@pytest.mark.parametrize("pick", ["coin", "exact", "per_class"])
def test_corrupt_realized_matrix_matches_expected(include_true: bool, pick: str) -> None:
    noise = symmetric(10, 0.6, include_true=include_true, pick=pick)
    record = corrupt(CIFAR10_LABELS, noise, seed=1)
    assert np.abs(record.matrix - noise.transition).max() < 0.03
    assert record.rate == pytest.approx(0.54 if include_true else 0.6, abs=0.01)


def test_corrupt_exact_selection_is_exact() -> None:
    without = {"include_true": False}
    labels = np.array([0] * 70 + [1] * 25 + [2] * 5)
    assert corrupt(labels, symmetric(3, 0.29, **without, pick="exact"), 0).changed.sum() == 29
    per_class = corrupt(labels, symmetric(3, 0.2, **without, pick="per_class"), 0)
    assert [per_class.changed[labels == c].sum() for c in range(3)] == [14, 5, 1]


@pytest.mark.parametrize(
    "name", ["sym:0.3", "permll:sym:0.6", "pencil:sym:0.4", "coteaching:pair:0.45", "elr:asym:0.4"]
)
def test_corrupt_by_name_equals_named_noise(name: str) -> None:
    labels = CIFAR10_LABELS[::45]
    expected = corrupt(labels, named_noise(name, 10, data_set="cifar10"), seed=3)
    record = corrupt(labels, name, seed=3, data_set="cifar10")
    assert (record.noisy == expected.noisy).all()
    assert (record.noise, record.num_classes, record.seed) == (expected.noise, 10, 3)


def test_corrupt_by_name_uses_seed_for_random_class_map() -> None:
    record = corrupt(CIFAR100_LABELS, "sl:asym:0.5", seed=7, data_set="cifar100")
    expected = corrupt(CIFAR100_LABELS, named_noise("sl:asym:0.5", 100, data_set="cifar100", seed=7), seed=7)
    assert record.hash == expected.hash


def test_corrupt_by_name_accepts_num_classes_and_class_map() -> None:
    assert corrupt([0, 1, 1, 0], "sym:0.5", seed=0).num_classes == 2
    assert corrupt([0, 1, 1, 0], "sym:0.5", seed=0, num_classes=7).num_classes == 7
    assert corrupt([0, 1, 2, 2], "asym:1", seed=0, class_map={2: 0}).noisy.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("labels", "noise", "options", "error", "message"),
    [
        ([0, 1], 0.4, {}, TypeError, r"^noise must be a name such as permll:sym:0\.6, or a Noise; got 0\.4\.$"),
        ([0, 1], "symm:0.4", {}, ValueError, r"unknown kind of noise 'symm', did you mean sym\?"),
        ([1, 2], "sym:0.4", {}, ValueError, r"labels run from 1 to 2: .* pass num_classes=3 if class 0 exists\.$"),
        ([0, 5], "sym:0.4", {"num_classes": 3}, ValueError, r"labels must be in 0\.\.2, but 1 position \(1\) is not"),
        ([0.5], "sym:0.4", {}, ValueError, r"integers of shape \(N,\)"),
        ([0, 1], "asym:0.4", {}, ValueError, r"^asym needs a class map: give the data set or a class map, or use pair"),
        ([0, 1], "asym:0.4", {"data_set": "cifar10"}, ValueError, r"asym_cifar10 is defined for 10 classes, but there"),
        ([0, 1], "asym:0.4", {"class_map": {0: 2}}, ValueError, r"the class map contains class 2, outside 0\.\.1"),
        ([0, 1], "sym:0.4", {"class_map": {0: 1}}, ValueError, r"^class_map applies only to asym, not to sym\.$"),
        ([0, 1], from_matrix(np.eye(2)), {"num_classes": 2}, TypeError, r"num_classes, .* apply only to named noise"),
    ],
)
def test_corrupt_refuses_invalid_noise(
    labels: list[int], noise: object, options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        corrupt(labels, noise, seed=0, **options)
    assert "\n" not in str(caught.value)


def paper_procedure(labels: np.ndarray, rate: float) -> np.ndarray:
    """Reference: for each class i, sample positions to change, then assign i - 1, i, i + 1, ..."""
    generator, noisy, classes = random.Random(42), labels.copy(), len(np.unique(labels))
    each = len(labels) // classes
    for label in range(classes):
        positions = np.where(labels == label)[0]
        destination = label - 1
        for k in generator.sample(range(each), int(each * rate)):
            noisy[positions[k]] = destination % classes
            destination += 1
    return noisy


@pytest.mark.parametrize(
    ("labels", "classes", "rate", "realized"),
    [(CIFAR10_LABELS, 10, 0.6, 0.54), (CIFAR10_LABELS, 10, 0.2, 0.18), (CIFAR100_LABELS, 100, 0.6, 0.5933)],
)
def test_corrupt_cycle_matches_paper_code(labels: np.ndarray, classes: int, rate: float, realized: float) -> None:
    noise = symmetric(classes, rate, include_true=True, pick="per_class", cycle=True)
    record = corrupt(labels, noise, seed=42)
    assert record.rate == pytest.approx(realized, abs=1e-4)
    assert (record.noisy == paper_procedure(labels, rate)).all()
    # The selected samples of class i were assigned to i - 1, i, i + 1, ... in turn.
    chosen = int(rate * len(labels) / classes)
    for label in (0, classes - 1):
        given = np.bincount(record.noisy[labels == label], minlength=classes)
        given[label] -= len(labels) // classes - chosen
        expected = np.bincount((label - 1 + np.arange(chosen)) % classes, minlength=classes)
        assert (given == expected).all()


@pytest.mark.parametrize(
    ("class_map", "classes", "mapped_fraction"),
    [
        (class_maps.CIFAR10, 10, 0.5),
        (class_maps.CIFAR10_WITHOUT_DOG_TO_CAT, 10, 0.4),
        (class_maps.FASHION_MNIST, 10, 0.6),
        (class_maps.cifar100_blocks(), 100, 1.0),
        (class_maps.cifar100_superclasses(), 100, 1.0),
        (class_maps.cifar100_block_pairs(seed=0), 100, 0.4),
        (class_maps.next_class(100), 100, 1.0),
    ],
)
def test_asymmetric_noise_changes_mapped_classes_only(class_map: dict, classes: int, mapped_fraction: float) -> None:
    labels = np.repeat(np.arange(classes), 50)
    record = corrupt(labels, asymmetric(class_map, classes, 0.4, pick="per_class"), seed=3)
    assert record.rate == pytest.approx(0.4 * mapped_fraction)
    for true in range(classes):
        expected = np.eye(classes)[true] * (0.6 if true in class_map else 1.0)
        if true in class_map:
            expected[class_map[true]] += 0.4
        assert np.allclose(record.matrix[true], expected)


def test_class_maps_match_their_names() -> None:
    fine = sorted(c for group in class_maps.CIFAR100_SUPERCLASSES for c in group)
    assert fine == list(range(100))
    superclass = {c: k for k, group in enumerate(class_maps.CIFAR100_SUPERCLASSES) for c in group}
    assert all(superclass[true] == superclass[given] for true, given in class_maps.cifar100_superclasses().items())
    inside = [true for true, given in class_maps.cifar100_blocks().items() if superclass[true] == superclass[given]]
    assert len(inside) == 6  # blocks of five are not superclasses
    for class_map in (class_maps.cifar100_blocks(), class_maps.cifar100_superclasses(), class_maps.next_class(7)):
        assert sorted(class_map) == sorted(class_map.values())
    pairs = class_maps.cifar100_block_pairs(5)
    assert len(pairs) == 40
    assert all(pairs[pairs[c]] == c and c // 5 == pairs[c] // 5 for c in pairs)
    assert pairs != class_maps.cifar100_block_pairs(6)


def test_corruption_save_load_round_trip(tmp_path) -> None:
    record = corrupt(CIFAR100_LABELS, symmetric(100, 0.4, include_true=True, pick="exact"), seed=7)
    path = record.save(tmp_path / "new" / "noise.npz")
    loaded = Corruption.load(path)
    assert (loaded.clean == record.clean).all()
    assert (loaded.noisy == record.noisy).all()
    assert (loaded.seed, loaded.num_classes, loaded.noise, loaded.hash) == (7, 100, record.noise, record.hash)
    assert path.stat().st_size < 100_000
    assert [file.name for file in path.parent.iterdir()] == ["noise.npz"]


def test_corruption_load_refuses_damaged_file(tmp_path) -> None:
    path = corrupt(CIFAR10_LABELS, symmetric(10, 0.4, include_true=True), seed=7).save(tmp_path / "noise.npz")
    with np.load(path) as file:
        about, clean, noisy = file["about"], file["clean"], file["noisy"]
    np.savez(path, about=about, clean=clean, noisy=(noisy + 1) % 10)
    with pytest.raises(ValueError, match=r"noise.npz is damaged: its labels have hash"):
        Corruption.load(path)
    np.savez(path, about=about, clean=clean)
    with pytest.raises(ValueError, match=r"noise.npz is not a noise record: it lacks noisy"):
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
        (lambda: asymmetric({0: 10}, 10, 0.4), r"the class map contains class 10, outside 0..9"),
        (lambda: symmetric(10, 0.2, include_true=False, pick="per_class", cycle=True), r"cycle needs"),
        (lambda: corrupt([0, 1, 10], symmetric(10, 0.2, include_true=True), 0), r"but 1 position \(2\) is not"),
        (lambda: corrupt([0.5], symmetric(10, 0.2, include_true=True), 0), r"integers of shape \(N,\)"),
        (lambda: corrupt([], symmetric(10, 0.2, include_true=True), 0), r"N > 0"),
    ],
)
def test_noise_models_refuse_invalid_input(build, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
