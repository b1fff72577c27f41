"""Noise on a data set, given as a name, a Noise, a record or a file."""

from pathlib import Path

import pytest
import torch

from permll.data import load
from permll.noise import Corruption, compose, named_noise, with_noise
from permll.noise.synthetic import symmetric
from tests.helpers.noise_cases import labeled_vectors


def test_with_noise_accepts_name_noise_record_and_file(tmp_path: Path) -> None:
    clean = labeled_vectors()
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
    with pytest.raises(FileNotFoundError, match=r"noise record .*noisy\.npz does not exist, did you mean noise\.npz"):
        with_noise(clean, str(tmp_path / "noisy.npz"))


def test_with_noise_refuses_other_types() -> None:
    with pytest.raises(
        TypeError, match=r"^noise must be a name such as permll:sym:0\.6, a Noise, a Corruption .*; got 0\.4\.$"
    ):
        with_noise(labeled_vectors(), 0.4)  # type: ignore[arg-type]


def test_with_noise_refuses_noisy_data() -> None:
    clean = labeled_vectors(name="digits")
    noisy, record = with_noise(clean, "sym:0.3")
    with pytest.raises(ValueError, match=r"the labels of digits are noisy already: .*permll\.noise\.compose\("):
        with_noise(noisy.take(range(50)), "sym:0.3")
    twice, both = with_noise(clean, compose(record, named_noise("pair:0.1", 10), seed=1))
    assert torch.equal(twice.labels, torch.from_numpy(both.noisy))
    assert both.noise["classes"] == list(clean.classes)


def test_with_noise_asym_uses_class_map_of_data_set() -> None:
    cifar, fashion = (
        with_noise(labeled_vectors(name=name), "permll:asym:0.5")[0] for name in ("cifar10", "fashion_mnist")
    )
    assert set(cifar.labels[180:].tolist()) == {9, 1}  # truck -> automobile
    assert set(fashion.labels[180:].tolist()) == {9, 7}  # ankle boot -> sneaker
    with pytest.raises(ValueError, match=r"^this data set has no published class map for asym"):
        with_noise(labeled_vectors(), "asym:0.4")
    with pytest.raises(ValueError, match=r"^digits has no published class map for asym: use pair, or pass class_map="):
        with_noise(labeled_vectors(name="digits"), "asym:0.4")


def test_with_noise_refuses_record_of_other_labels() -> None:
    _, record = with_noise(labeled_vectors(), "sym:0.3")
    with pytest.raises(ValueError, match="made for"):
        with_noise(labeled_vectors(each=21), record)
    other = labeled_vectors().relabel(torch.arange(10).repeat(20))
    with pytest.raises(ValueError, match="made for"):
        with_noise(other, record)


def test_with_noise_defaults_to_paper_seed() -> None:
    noisy, record = with_noise(load("digits"), "permll:sym:0.6")
    assert isinstance(record, Corruption)
    assert record.seed == 42
    assert 0.52 < record.rate < 0.55
    assert noisy.metadata["noise"]["name"] == "permll:sym:0.6"
