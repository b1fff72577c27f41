"""The record: labels for whom it was made, its file, what it comes to, and one noise on top of another."""

import json
from pathlib import Path

import numpy as np
import pytest

from permll.noise import Corruption, corrupt, named_noise, then
from permll.noise.class_names import class_names, name_record
from permll.noise.instance import poly_margin
from permll.noise.models import from_matrix, mapped, symmetric
from permll.noise.summary import by_class, summary, superclass_groups

LABELS = np.repeat(np.arange(10), 300)


def test_labels_are_given_only_to_whom_they_were_made_for() -> None:
    record = corrupt(LABELS, named_noise("sym:0.4", 10), seed=0)
    noisy = record.labels_for(LABELS.tolist())
    assert (noisy == record.noisy).all()
    noisy[:] = 0
    assert record.rate == 0.4  # a copy was given
    with pytest.raises(ValueError, match=r"made for 3,000 labels, but there are 2,999; make it for these"):
        record.labels_for(LABELS[1:])
    other = LABELS.copy()
    other[[7, 900]] = 9
    with pytest.raises(ValueError, match=r"made for other labels: they differ at 2 positions \(7, 900\)"):
        record.labels_for(other)
    with pytest.raises(ValueError, match=r"they differ at 3,000 positions \(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\)"):
        record.labels_for((LABELS + 1) % 10)
    with pytest.raises(ValueError, match=r"outside 0\.\.9"):
        record.labels_for(LABELS + 5)


def test_what_became_of_each_class_adds_up() -> None:
    record = corrupt(LABELS, named_noise("permll:asym:0.4", 10, data_set="cifar10"), seed=42)
    shares = by_class(record)
    for share in shares:
        own = record.noisy[share.label == LABELS]
        wrong = own[own != share.label]
        assert (share.samples, share.wrong) == (len(own), len(wrong))
        assert share.rate == len(wrong) / len(own)
        assert share.given == np.count_nonzero(record.noisy == share.label)
        assert share.taken_for == (np.bincount(wrong).argmax() if len(wrong) else None)
    about = json.loads(json.dumps(summary(record)))
    assert (about["nominal"], about["rate"], about["wrong"], about["hash"]) == (0.4, 0.2, 600, record.hash)
    assert sum(entry["wrong"] for entry in about["by_class"]) == 600


def test_a_class_without_samples_has_no_rate() -> None:
    record = corrupt([0, 0, 2], mapped({0: 1}, 3, 1.0), seed=0)
    empty = by_class(record)[1]
    assert (empty.samples, empty.rate, empty.taken_for, empty.given) == (0, None, None, 2)


def test_no_class_is_picked_out_of_several_that_are_alike() -> None:
    def first(*noisy: int, classes: int = 4) -> tuple[int | None, int]:
        share = by_class(Corruption(np.zeros(len(noisy), dtype=np.int64), np.array(noisy), classes, 0, {}))[0]
        return share.taken_for, share.alike

    assert first(0, 0) == (None, 0)
    assert first(0, 2) == (2, 1)
    assert first(1, 2, 2) == (2, 1)
    assert first(1, 2) == (None, 2)
    assert first(0, 1, 2, 3) == (None, 3)
    assert first(1, classes=2) == (1, 1)


def test_a_record_keeps_the_names_of_its_classes(tmp_path: Path) -> None:
    names = [f"class {k}" for k in range(10)]
    record = name_record(corrupt(LABELS, named_noise("sym:0.4", 10), seed=0), names)
    loaded = Corruption.load(record.save(tmp_path / "noise.npz"))
    assert class_names(loaded) == tuple(names)
    assert summary(loaded)["class_names"] == names
    assert name_record(loaded, ["other"] * 10) is loaded
    assert loaded.hash == corrupt(LABELS, named_noise("sym:0.4", 10), seed=0).hash
    both = then(loaded, named_noise("pair:0.1", 10), seed=1)
    assert class_names(both) == tuple(names)
    assert all("classes" not in step for step in both.noise["steps"])
    few = Corruption(LABELS, LABELS, 10, 0, {"classes": ["one"], "data_set": "cifar10"})
    assert (class_names(few) or ("",))[9] == "truck"


def test_a_record_is_shown_in_one_line() -> None:
    record = corrupt(LABELS, named_noise("sym:0.4", 10), seed=7)
    assert repr(record) == (
        f"Corruption('sym:0.4', 40.00 % of 3,000 labels wrong, 10 classes, seed 7, hash {record.hash})"
    )
    assert "seed None" in repr(Corruption(LABELS, LABELS, 10, None, {}))


def test_names_are_those_of_the_data_set_or_none() -> None:
    def record(num_classes: int, **noise: str) -> Corruption:
        return Corruption(np.array([0]), np.array([0]), num_classes, 0, noise)

    assert class_names(record(10, data_set="cifar10")) is not None
    assert class_names(record(9, data_set="cifar10")) is None
    assert class_names(record(10)) is None
    groups = superclass_groups(record(100, name="asym_superclasses:0.4"))
    assert groups is not None
    assert groups["trees"] == (47, 52, 56, 59, 96)
    assert superclass_groups(record(100, name="sym:0.4")) is None


def test_noise_on_top_of_noise_flips_noisy_labels_and_keeps_the_clean_ones() -> None:
    p = np.full((3000, 10), 0.01) + 0.9 * np.eye(10)[LABELS]
    first = poly_margin(p, LABELS, "II", 1.5, seed=1)
    noise = mapped({k: (k + 1) % 10 for k in range(10)}, 10, 1.0)
    both = then(first, noise, seed=2)
    assert (both.clean == LABELS).all()
    assert (both.noisy == (first.noisy + 1) % 10).all()
    assert both.seed == 2
    assert both.noise["name"] == "poly_margin:II, then mapped"
    assert [(step["name"], step["seed"]) for step in both.noise["steps"]] == [("poly_margin:II", 1), ("mapped", 2)]
    thrice = then(both, noise, seed=3)
    assert [step["seed"] for step in thrice.noise["steps"]] == [1, 2, 3]
    assert thrice.noise["name"] == "poly_margin:II, then mapped, then mapped"


def test_the_rate_of_two_noises_is_that_of_the_product_of_their_matrices() -> None:
    one, two = symmetric(10, 0.3, include_true=False), named_noise("coteaching:pair:0.4", 10)
    record = then(corrupt(np.repeat(LABELS, 20), one, seed=0), two, seed=1)
    expected = 1 - np.trace(one.transition @ two.transition) / 10
    assert record.rate == pytest.approx(expected, abs=0.005)
    assert len({corrupt(LABELS, one, 0).hash, record.hash, then(corrupt(LABELS, one, 0), two, 1).hash}) == 3


def test_noises_of_different_sizes_do_not_mix() -> None:
    with pytest.raises(ValueError, match="the record has 10 classes, the noise on top of it 2"):
        then(corrupt(LABELS, named_noise("sym:0.4", 10), 0), from_matrix(np.eye(2)), seed=0)


def saved(tmp_path: Path, **changes: object) -> Path:
    """Write a file like a record's, but for ``changes`` of its arrays or of its description."""
    record = corrupt(LABELS, named_noise("sym:0.4", 10), seed=0)
    about = {"num_classes": 10, "seed": 0, "noise": record.noise, "hash": record.hash}
    arrays = {"clean": record.clean, "noisy": record.noisy}
    about |= {key: value for key, value in changes.items() if key in about}
    arrays |= {key: value for key, value in changes.items() if key in arrays}
    about = {key: value for key, value in about.items() if value != "missing"}
    np.savez(tmp_path / "noise.npz", about=np.array(changes.get("about", json.dumps(about))), **arrays)
    return tmp_path / "noise.npz"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"about": "{"}, "is no noise record: its description is no JSON object"),
        ({"about": "[1]"}, "is no noise record: its description is no JSON object"),
        ({"hash": "missing"}, "is no noise record: it lacks hash"),
        ({"noise": "sym"}, "is no noise record: its description is not one that save wrote"),
        ({"num_classes": "ten"}, "is no noise record: its description is not one that save wrote"),
        ({"num_classes": 5}, r"is damaged: 1500 labels lie outside 0\.\.4"),
        ({"clean": LABELS[:-1]}, "is damaged: 2999 clean labels, 3000 noisy ones"),
    ],
)
def test_a_file_that_is_no_record_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    assert Corruption.load(saved(tmp_path)).rate == 0.4
    with pytest.raises(ValueError, match=rf"noise\.npz {message}"):
        Corruption.load(saved(tmp_path, **changes))


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = corrupt(LABELS, named_noise("sym:0.4", 10), seed=0).save(tmp_path / "noise.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    with pytest.raises(
        ValueError, match=r"noise\.npz is no noise record: it is not a \.npz file, or only a part of one"
    ):
        Corruption.load(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    with pytest.raises(ValueError, match=r"noise\.npz is damaged"):
        Corruption.load(path)
    with pytest.raises(FileNotFoundError, match=r"there is no noise record .*noisy\.npz, did you mean noise\.npz\?"):
        Corruption.load(tmp_path / "noisy.npz")
    with pytest.raises(IsADirectoryError, match="is a folder: name the noise record in it"):
        Corruption.load(tmp_path)
