"""Float arrays with the shape of images."""

import numpy as np
import pytest
import torch
from datasets import Array3D, Dataset, Features, Value
from torch.utils.data import Subset, TensorDataset

from permll.data import Images, Items, Vectors
from permll.data.readers import read

Y = [0, 1, 0, 1]
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 6), dtype=np.uint8)
FRACTIONS = (PIXELS / 255).astype(np.float32)
ASSUMED = ["values in [0, 1] were multiplied by 255 and rounded to pixels"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("last", [False, True])
def test_fractions_become_pixels(kind: type, last: bool) -> None:
    array = FRACTIONS.astype(kind)
    data = read(array.transpose(0, 2, 3, 1) if last else array, labels=Y)
    assert isinstance(data.inputs, Images)
    assert torch.equal(data.inputs.pixels, torch.from_numpy(PIXELS))
    assert data.metadata["kind"] == "images"
    assert data.metadata["assumed"] == ASSUMED


def test_fractions_from_all_array_sources(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", x=FRACTIONS, y=Y)
    np.save(tmp_path / "x.npy", FRACTIONS)
    tensor = torch.from_numpy(FRACTIONS)
    sources = [
        read(tmp_path / "a.npz"),
        read(tmp_path / "x.npy", labels=Y),
        read({"x": FRACTIONS, "y": Y}),
        read(tensor, labels=Y),
        read(list(tensor), labels=Y),
        read(TensorDataset(tensor, torch.tensor(Y))),
    ]
    for data in sources:
        assert torch.equal(data.inputs.pixels, torch.from_numpy(PIXELS))
        assert data.metadata["assumed"] == ASSUMED
    part = read(Subset(TensorDataset(tensor, torch.tensor(Y)), [3, 0, 2, 1]))
    assert torch.equal(part.inputs.pixels, torch.from_numpy(PIXELS[[3, 0, 2, 1]]))


def test_fractions_are_rounded() -> None:
    data = read(np.full((4, 6, 7, 1), [[[[0.5]]], [[[0.0]]], [[[1.0]]], [[[0.001]]]]), labels=Y)
    assert data.inputs.pixels.shape == (4, 1, 6, 7)
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [128, 0, 255, 0]
    tolerance = np.full((4, 1, 2, 2), 1 + 1e-7)
    tolerance[0] = -1e-7
    assert read(tolerance, labels=Y).inputs.pixels[:, 0, 0, 0].tolist() == [0, 255, 255, 255]


def test_fractions_in_dataset_column() -> None:
    features = Features({"id": Value("string"), "v": Array3D((3, 5, 6), "float32"), "label": Value("int64")})
    dataset = Dataset.from_dict({"id": list("abcd"), "v": FRACTIONS, "label": Y}, features)
    data = read(dataset)
    assert torch.equal(data.inputs.pixels, torch.from_numpy(PIXELS))
    assert data.metadata["assumed"] == ["column 'id' holds the ids", *ASSUMED]
    assert data.ids == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            FRACTIONS * 255,
            r"shape of images, \(4, 3, 5, 6\), but holds float32 from 0 to 255: give uint8 or floats in",
        ),
        ((FRACTIONS - 0.5) / 0.25, r"float32 from -2 to 2: .* or flatten it to \(N, F\) for vectors\."),
        (PIXELS.astype(np.int64), r"holds int64 from 0 to 255: give uint8"),
        (PIXELS > 9, r"holds bool from 0 to 1: give uint8"),
        (np.where(PIXELS[2, 0, 0, 0] == PIXELS, np.nan, FRACTIONS), r"the data holds NaN or infinity in \d rows? \("),
    ],
)
def test_fractions_outside_unit_interval_raise(array: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(array, labels=Y)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=message.replace("the data", "the first tensor")):
        read(TensorDataset(torch.from_numpy(array), torch.tensor(Y)))


def test_other_shapes_are_not_images() -> None:
    assert isinstance(read(FRACTIONS[:, 0], labels=Y).inputs, Vectors)
    assert isinstance(read(np.zeros((4, 7, 5, 6)), labels=Y).inputs, Vectors)
    assert isinstance(read((FRACTIONS * 9).reshape(4, -1), labels=Y).inputs, Vectors)
    assert isinstance(read(TensorDataset(torch.zeros(4, 7, 5, 6), torch.tensor(Y))).inputs, Items)
