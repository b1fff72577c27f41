"""Noise by name: each convention is what its authors' code does, measured."""

import numpy as np
import pytest

from permll.noise import corrupt, named_noise
from permll.noise.presets import CONVENTIONS

LABELS = {10: np.repeat(np.arange(10), 450), 100: np.repeat(np.arange(100), 45)}

# Symmetric 40 %: the realised rate, and whether it, or that of each class, is the same for every seed.
SYMMETRIC = {
    "plain": (0.4, "whole"),
    "permll": (0.36, "class"),
    "elr": (0.36, "coin"),
    "joint": (0.36, "coin"),
    "dividemix": (0.36, "coin"),
    "pencil": (0.36, "coin"),
    "coteaching": (0.4, "coin"),
    "forward": (0.4, "coin"),
    "sl": (0.4, "class"),
}


def test_every_convention_is_measured() -> None:
    assert set(SYMMETRIC) == set(CONVENTIONS)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_symmetric(convention: str) -> None:
    rate, fixed = SYMMETRIC[convention]
    noise = named_noise(f"{convention}:sym:0.4", 10)
    records = [corrupt(LABELS[10], noise, seed) for seed in range(4)]
    assert all(record.rate == pytest.approx(rate, abs=0.02) for record in records)
    assert (len({record.rate for record in records}) == 1) == (fixed != "coin")
    classes = {tuple(record.changed.reshape(10, 450).sum(1)) for record in records}
    assert (len(classes) == 1) == (fixed == "class")


@pytest.mark.parametrize(
    ("name", "data_set", "rate"),
    [
        ("permll:asym:0.4", "cifar10", 0.2),
        ("permll:asym_cifar10_without_dog_to_cat:0.4", None, 0.16),
        ("elr:asym:0.4", "cifar10", 0.2),  # 18.4 % in its own code, which flips some labels back
        ("dividemix:asym:0.4", "cifar10", 0.2),
        ("asym:0.4", "fashion_mnist", 0.24),
        ("coteaching:pair:0.45", None, 0.45),
    ],
)
def test_mapped_on_ten_classes(name: str, data_set: str | None, rate: float) -> None:
    assert corrupt(LABELS[10], named_noise(name, 10, data_set=data_set), 0).rate == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("permll:asym:0.4", 0.4),
        ("permll:asym_superclasses:0.4", 0.4),
        ("sl:asym:0.4", 0.16),
        ("coteaching:pair:0.4", 0.4),
    ],
)
def test_mapped_on_a_hundred_classes(name: str, rate: float) -> None:
    assert corrupt(LABELS[100], named_noise(name, 100, data_set="cifar100"), 0).rate == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize(
    ("name", "classes", "data_set", "message"),
    [
        ("0.4", 10, None, r"noise is named convention:kind:rate, .* got '0\.4'\. Without a convention it is kind:rate"),
        ("permll:sym", 10, None, r"convention:kind:rate, .* got 'permll:sym', where the rate is missing\.$"),
        ("sym", 10, None, r"got 'sym', where the rate is missing\.$"),
        ("permll:0.4", 10, None, r"got 'permll:0\.4', where the kind is missing\.$"),
        ("permll:sym:lots", 10, None, r"the rate in 'permll:sym:lots' is not a number: 'lots'"),
        ("xyz:sym:0.4", 10, None, r"'xyz' is no convention\. There are plain, permll"),
        ("perml:sym:0.4", 10, None, r"'perml' is no convention, did you mean permll\? There are plain, permll"),
        ("symm:0.4", 10, None, r"'symm' is no kind of noise, did you mean sym\?"),
        ("asym:0.4", 10, None, r"asym means another map for each data set: name the data set"),
        ("asym:0.4", 10, "cifar", r"'cifar' is no data set with a published map, did you mean cifar10\? There"),
        ("asym:0.4", 10, "digits", r"^digits has no published map of which class is .* use pair, or Noise from"),
        ("asym_blocks:0.4", 10, None, r"asym_blocks is a map of 100 classes, but there are 10"),
        ("sym:1.4", 10, None, r"rate must lie in \[0, 1\]"),
    ],
)
def test_bad_names(name: str, classes: int, data_set: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        named_noise(name, classes, data_set=data_set)
