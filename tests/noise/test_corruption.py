"""``Corruption``: its labels, file and summary, and ``compose``."""

import json
from pathlib import Path

import numpy as np
import pytest

from permll.noise import Corruption, compose, corrupt, named_noise
from permll.noise.class_names import class_names, with_class_names
from permll.noise.instance import poly_margin
from permll.noise.summary import summarize_classes, summary, superclass_groups
from permll.noise.synthetic import asymmetric, from_matrix, symmetric
from tests.helpers.noise_cases import LABELS, write_record


def test_labels_for_refuses_other_clean_labels() -> None:
    record = corrupt(LABELS, named_noise("sym:0.4", 10), seed=0)
    noisy = record.labels_for(LABELS.tolist())
    assert (noisy == record.noisy).all()
    noisy[:] = 0
    assert record.rate == 0.4  # labels_for returned a copy
    with pytest.raises(ValueError, match=r"made for 3,000 labels, but there are 2,999: make a new record"):
        record.labels_for(LABELS[1:])
    other = LABELS.copy()
    other[[7, 900]] = 9
    with pytest.raises(ValueError, match=r"made for other clean labels, which differ at 2 positions \(7, 900\)"):
        record.labels_for(other)
    with pytest.raises(ValueError, match=r"which differ at 3,000 positions \(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\)"):
        record.labels_for((LABELS + 1) % 10)
    with pytest.raises(ValueError, match=r"must be in 0\.\.9"):
        record.labels_for(LABELS + 5)


def test_class_summaries_match_labels() -> None:
    record = corrupt(LABELS, named_noise("permll:asym:0.4", 10, data_set="cifar10"), seed=42)
    for entry in summarize_classes(record):
        noisy = record.noisy[entry.label == LABELS]
        wrong = noisy[noisy != entry.label]
        assert (entry.samples, entry.wrong) == (len(noisy), len(wrong))
        assert entry.rate == len(wrong) / len(noisy)
        assert entry.given == np.count_nonzero(record.noisy == entry.label)
        assert entry.confused_with == (np.bincount(wrong).argmax() if len(wrong) else None)
    about = json.loads(json.dumps(summary(record)))
    assert (about["nominal"], about["rate"], about["wrong"], about["hash"]) == (0.4, 0.2, 600, record.hash)
    assert sum(entry["wrong"] for entry in about["by_class"]) == 600


def test_class_summary_of_empty_class() -> None:
    record = corrupt([0, 0, 2], asymmetric({0: 1}, 3, 1.0), seed=0)
    empty = summarize_classes(record)[1]
    assert (empty.samples, empty.rate, empty.confused_with, empty.given) == (0, None, None, 2)


def test_class_summary_reports_ties() -> None:
    def first(*noisy: int, classes: int = 4) -> tuple[int | None, int]:
        record = Corruption(np.zeros(len(noisy), dtype=np.int64), np.array(noisy), classes, 0, {})
        entry = summarize_classes(record)[0]
        return entry.confused_with, entry.num_tied

    assert first(0, 0) == (None, 0)
    assert first(0, 2) == (2, 1)
    assert first(1, 2, 2) == (2, 1)
    assert first(1, 2) == (None, 2)
    assert first(0, 1, 2, 3) == (None, 3)
    assert first(1, classes=2) == (1, 1)


def test_corruption_keeps_class_names(tmp_path: Path) -> None:
    names = [f"class {k}" for k in range(10)]
    record = with_class_names(corrupt(LABELS, named_noise("sym:0.4", 10), seed=0), names)
    loaded = Corruption.load(record.save(tmp_path / "noise.npz"))
    assert class_names(loaded) == tuple(names)
    assert summary(loaded)["class_names"] == names
    assert with_class_names(loaded, ["other"] * 10) is loaded
    assert loaded.hash == corrupt(LABELS, named_noise("sym:0.4", 10), seed=0).hash
    both = compose(loaded, named_noise("pair:0.1", 10), seed=1)
    assert class_names(both) == tuple(names)
    assert all("classes" not in step for step in both.noise["steps"])
    incomplete = Corruption(LABELS, LABELS, 10, 0, {"classes": ["one"], "data_set": "cifar10"})
    assert (class_names(incomplete) or ("",))[9] == "truck"


def test_corruption_repr() -> None:
    record = corrupt(LABELS, named_noise("sym:0.4", 10), seed=7)
    assert repr(record) == (
        f"Corruption('sym:0.4', 40.00 % of 3,000 labels wrong, 10 classes, seed 7, hash {record.hash})"
    )
    assert "seed None" in repr(Corruption(LABELS, LABELS, 10, None, {}))


def test_class_names_of_published_data_sets() -> None:
    def record(num_classes: int, **noise: str) -> Corruption:
        return Corruption(np.array([0]), np.array([0]), num_classes, 0, noise)

    assert class_names(record(10, data_set="cifar10")) is not None
    assert class_names(record(9, data_set="cifar10")) is None
    assert class_names(record(10)) is None
    groups = superclass_groups(record(100, name="asym_superclasses:0.4"))
    assert groups is not None
    assert groups["trees"] == (47, 52, 56, 59, 96)
    assert superclass_groups(record(100, name="sym:0.4")) is None


def test_compose_flips_noisy_labels_and_keeps_clean_ones() -> None:
    p = np.full((3000, 10), 0.01) + 0.9 * np.eye(10)[LABELS]
    first = poly_margin(p, LABELS, "II", 1.5, seed=1)
    noise = asymmetric({k: (k + 1) % 10 for k in range(10)}, 10, 1.0)
    both = compose(first, noise, seed=2)
    assert (both.clean == LABELS).all()
    assert (both.noisy == (first.noisy + 1) % 10).all()
    assert both.seed == 2
    assert both.noise["name"] == "poly_margin:II, then asymmetric"
    assert [(step["name"], step["seed"]) for step in both.noise["steps"]] == [("poly_margin:II", 1), ("asymmetric", 2)]
    thrice = compose(both, noise, seed=3)
    assert [step["seed"] for step in thrice.noise["steps"]] == [1, 2, 3]
    assert thrice.noise["name"] == "poly_margin:II, then asymmetric, then asymmetric"


def test_compose_rate_follows_matrix_product() -> None:
    one, two = symmetric(10, 0.3, include_true=False), named_noise("coteaching:pair:0.4", 10)
    record = compose(corrupt(np.repeat(LABELS, 20), one, seed=0), two, seed=1)
    expected = 1 - np.trace(one.transition @ two.transition) / 10
    assert record.rate == pytest.approx(expected, abs=0.005)
    assert len({corrupt(LABELS, one, 0).hash, record.hash, compose(corrupt(LABELS, one, 0), two, 1).hash}) == 3


def test_compose_refuses_other_number_of_classes() -> None:
    with pytest.raises(ValueError, match="the record has 10 classes, but the noise has 2"):
        compose(corrupt(LABELS, named_noise("sym:0.4", 10), 0), from_matrix(np.eye(2)), seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"about": "{"}, "is not a noise record: its description is not a JSON object"),
        ({"about": "[1]"}, "is not a noise record: its description is not a JSON object"),
        ({"hash": "missing"}, "is not a noise record: it lacks hash"),
        ({"noise": "sym"}, "is not a noise record: its description has wrong types"),
        ({"num_classes": "ten"}, "is not a noise record: its description has wrong types"),
        ({"num_classes": 5}, r"is damaged: labels must be in 0\.\.4, but 1,500 positions"),
        ({"clean": LABELS[:-1]}, "is damaged: 2999 clean labels, but 3000 noisy labels"),
    ],
)
def test_corruption_load_refuses_other_files(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    assert Corruption.load(write_record(tmp_path)).rate == 0.4
    with pytest.raises(ValueError, match=rf"noise\.npz {message}"):
        Corruption.load(write_record(tmp_path, **changes))


def test_corruption_load_refuses_truncated_file(tmp_path: Path) -> None:
    path = corrupt(LABELS, named_noise("sym:0.4", 10), seed=0).save(tmp_path / "noise.npz")
    content = path.read_bytes()
    path.write_bytes(content[:200])
    with pytest.raises(ValueError, match=r"noise\.npz is not a noise record: it is not a complete \.npz file"):
        Corruption.load(path)
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    with pytest.raises(ValueError, match=r"noise\.npz is damaged"):
        Corruption.load(path)
    with pytest.raises(FileNotFoundError, match=r"noise record .*noisy\.npz does not exist, did you mean noise\.npz\?"):
        Corruption.load(tmp_path / "noisy.npz")
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a noise record"):
        Corruption.load(tmp_path)
