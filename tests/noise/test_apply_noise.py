"""Noise on a data set: by name, by record, by file."""

from pathlib import Path

import pytest
import torch

from permll.data import LabeledData, Vectors, load
from permll.noise import Corruption, named_noise, then, with_noise
from permll.noise.models import symmetric


def data(classes: int = 10, each: int = 20, name: str = "") -> LabeledData:
    labels = torch.arange(classes).repeat_interleave(each)
    ids = tuple(map(str, range(len(labels))))
    return LabeledData(
        Vectors(torch.rand(len(labels), 2)), labels, tuple(map(str, range(classes))), ids, {"name": name}
    )


def test_the_same_record_by_name_noise_record_and_file(tmp_path: Path) -> None:
    clean = data()
    noisy, record = with_noise(clean, "sym:0.3", seed=5)
    assert (noisy.labels != clean.labels).float().mean() == pytest.approx(0.3)
    assert noisy.metadata["noise_hash"] == record.hash
    assert noisy.ids == clean.ids
    assert torch.equal(clean.labels, torch.arange(10).repeat_interleave(20)), "the clean data stay clean"
    again = [
        with_noise(clean, symmetric(10, 0.3, include_true=False, pick="exact"), seed=5),
        with_noise(clean, record, seed=99),
        with_noise(clean, record.save(tmp_path / "noise.npz")),
        with_noise(clean, str(tmp_path / "noise.npz")),
        with_noise(clean, str(record.save(tmp_path / "noise without an ending"))),
    ]
    for other, same in again:
        assert torch.equal(other.labels, noisy.labels)
        assert same.noise["classes"] == other.metadata["noise"]["classes"] == list(clean.classes)
    with pytest.raises(FileNotFoundError, match=r"there is no noise record .*noisy\.npz, did you mean noise\.npz"):
        with_noise(clean, str(tmp_path / "noisy.npz"))


def test_noise_of_another_type_is_one_sentence() -> None:
    with pytest.raises(TypeError, match=r"^noise is a name like permll:sym:0\.6, a Noise, a record .*; got 0\.4\.$"):
        with_noise(data(), 0.4)  # type: ignore[arg-type]


def test_noisy_data_are_not_taken_for_clean_ones() -> None:
    clean = data(name="digits")
    noisy, record = with_noise(clean, "sym:0.3")
    with pytest.raises(ValueError, match=r"the labels of digits carry noise already: .*permll\.noise\.then\("):
        with_noise(noisy.take(range(50)), "sym:0.3")
    twice, both = with_noise(clean, then(record, named_noise("pair:0.1", 10), seed=1))
    assert torch.equal(twice.labels, torch.from_numpy(both.noisy))
    assert both.noise["classes"] == list(clean.classes)


def test_asym_means_the_map_of_the_data_set() -> None:
    cifar, fashion = (with_noise(data(name=name), "permll:asym:0.5")[0] for name in ("cifar10", "fashion_mnist"))
    assert set(cifar.labels[180:].tolist()) == {9, 1}  # truck -> automobile
    assert set(fashion.labels[180:].tolist()) == {9, 7}  # ankle boot -> sneaker
    with pytest.raises(ValueError, match=r"^this data set has no published map of which class is mistaken"):
        with_noise(data(), "asym:0.4")
    with pytest.raises(ValueError, match=r"^digits has no published map .*: use pair, or Noise from permll"):
        with_noise(data(name="digits"), "asym:0.4")


def test_a_record_for_other_labels_is_refused() -> None:
    _, record = with_noise(data(), "sym:0.3")
    with pytest.raises(ValueError, match="made for"):
        with_noise(data(each=21), record)
    other = data().relabel(torch.arange(10).repeat(20))
    with pytest.raises(ValueError, match="made for"):
        with_noise(other, record)


def test_digits_with_the_papers_noise() -> None:
    noisy, record = with_noise(load("digits"), "permll:sym:0.6")
    assert isinstance(record, Corruption)
    assert record.seed == 42
    assert 0.52 < record.rate < 0.55
    assert noisy.metadata["noise"]["name"] == "permll:sym:0.6"
