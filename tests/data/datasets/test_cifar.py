"""CIFAR-10 and CIFAR-100: the real data in both official layouts, and damaged files."""

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.inputs import Images
from permll.data.pickles import UnsafePickleError
from permll.data.registry import find_dataset
from tests.helpers.dataset_files import truncate, write_cifar_binary, write_cifar_python
from tests.helpers.real_data import SHARED, real_cifar


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_cifar(tmp_path_factory)


def pixels(data: LabeledData) -> np.ndarray:
    assert isinstance(data.inputs, Images)
    return data.inputs.pixels.numpy()


def moments(images: np.ndarray) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel, to four digits."""
    values, means, deviations = np.arange(256) / 255, [], []
    for channel in range(3):
        counts = np.bincount(images[:, channel].ravel(), minlength=256) / images[:, channel].size
        means.append(float(counts @ values))
        deviations.append(round(float(np.sqrt(counts @ (values - means[-1]) ** 2)), 4))
    return [round(mean, 4) for mean in means], deviations


def from_differences(differences: np.ndarray, row: int) -> np.ndarray:
    """Return one image of the shared .npz file, whose planes hold differences of neighbors modulo 256."""
    planes = [[[int(value) for value in line] for line in differences[channel, row]] for channel in range(3)]
    for plane in planes:
        for y in range(32):
            for x in range(32):
                above, left = plane[y - 1][x] if y else 0, plane[y][x - 1] if x else 0
                corner = plane[y - 1][x - 1] if x and y else 0
                plane[y][x] += above + left - corner
    red, green, blue = (np.array(plane) for plane in planes)
    return np.stack([red + green, green, blue + green]) % 256


def assert_same(one: LabeledData, other: LabeledData) -> None:
    assert (pixels(one) == pixels(other)).all()
    assert torch.equal(one.labels, other.labels)
    assert (one.classes, one.ids) == (other.classes, other.ids)


@pytest.mark.slow
def test_real_cifar10(cifar: Path) -> None:
    train, test = (find_dataset("cifar10").load(cifar, split) for split in ("train", "test"))
    assert train.class_counts.tolist() == [5000] * 10
    assert test.class_counts.tolist() == [1000] * 10
    assert moments(pixels(train)) == ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616])
    assert [train.classes[label] for label in train.labels[:4].tolist()] == ["frog", "truck", "truck", "deer"]
    assert pixels(train)[0, :, 0, 0].tolist() == [59, 62, 63]
    assert (train.ids[0], train.ids[-1], test.ids[7]) == ("train/00000", "train/49999", "test/00007")
    with np.load(SHARED / "cifar10.npz") as shared:
        assert (train.labels.numpy() == shared["y_train"]).all()
        differences = shared["q_train"]
        for row in (0, 9_999, 10_000, 31_415, 49_999):
            assert (pixels(train)[row] == from_differences(differences, row)).all()


def test_real_cifar100_test_split(cifar: Path) -> None:
    fine, coarse = (find_dataset("cifar100").load(cifar, "test", labels=labels) for labels in ("fine", "coarse"))
    assert fine.class_counts.tolist() == [100] * 100
    assert coarse.class_counts.tolist() == [500] * 20
    assert [fine.classes[label] for label in fine.labels[:3].tolist()] == ["mountain", "forest", "seal"]
    assert coarse.classes[int(coarse.labels[2])] == "aquatic_mammals"
    assert (fine.classes, coarse.classes) == (class_names.CIFAR100_FINE, class_names.CIFAR100_COARSE)
    assert fine.ids == coarse.ids
    assert (fine.metadata["labels"], coarse.metadata["labels"]) == ("fine", "coarse")
    with np.load(SHARED / "cifar100_test.npz") as shared:
        assert moments(pixels(fine)) == ([0.5088, 0.4874, 0.4419], [0.2683, 0.2574, 0.2771])
        for row in (0, 5_000, 9_999):
            assert (pixels(fine)[row] == from_differences(shared["q_test"], row)).all()


@pytest.mark.slow
def test_real_cifar10_layouts_are_equal(cifar: Path, tmp_path: Path) -> None:
    binary = find_dataset("cifar10").load(cifar, "train")
    folder = tmp_path / "cifar10" / "cifar-10-batches-py"
    for number in range(5):
        rows = slice(number * 10_000, (number + 1) * 10_000)
        labels = {"labels": binary.labels.numpy()[rows]}
        write_cifar_python(folder / f"data_batch_{number + 1}", labels, pixels(binary)[rows])
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list(class_names.CIFAR10)}, protocol=2))
    python = find_dataset("cifar10").load(tmp_path, "train")
    assert python.metadata["source"] == str(folder)
    assert_same(python, binary)


@pytest.fixture(scope="module")
def random_cifar100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training split of CIFAR-100 with random pixels, in both layouts."""
    root = tmp_path_factory.mktemp("cifar100")
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (50_000, 3, 32, 32), dtype=np.uint8)
    fine = random.permutation(np.repeat(np.arange(100), 500))
    coarse = fine // 5
    write_cifar_binary(root / "bin" / "cifar-100-binary" / "train.bin", [coarse, fine], images)
    write_cifar_python(
        root / "py" / "cifar-100-python" / "train", {"fine_labels": fine, "coarse_labels": coarse}, images
    )
    return root


@pytest.mark.parametrize("labels", ["fine", "coarse"])
@pytest.mark.slow
def test_cifar100_train_split_in_both_layouts(labels: str, random_cifar100: Path) -> None:
    binary, python = (
        find_dataset("cifar100").load(random_cifar100 / layout, "train", labels=labels) for layout in ("bin", "py")
    )
    assert_same(binary, python)
    assert binary.class_counts.tolist() == ([500] * 100 if labels == "fine" else [2500] * 20)
    assert binary.classes == (class_names.CIFAR100_FINE if labels == "fine" else class_names.CIFAR100_COARSE)
    records = np.fromfile(random_cifar100 / "bin" / "cifar-100-binary" / "train.bin", np.uint8).reshape(-1, 3074)
    assert (binary.labels.numpy() == records[:, 1 if labels == "fine" else 0]).all()
    assert (pixels(binary)[123].ravel() == records[123, 2:]).all()


def test_cifar_reads_class_names(cifar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "test_batch.bin").symlink_to(cifar / "cifar-10-batches-bin" / "test_batch.bin")
    assert find_dataset("cifar10").load(tmp_path, "test").classes == class_names.CIFAR10
    (folder / "batches.meta.txt").write_text("".join(f"class {n}\n" for n in range(10)) + "\n")
    assert find_dataset("cifar10").load(tmp_path, "test").classes[3] == "class 3"
    (folder / "batches.meta.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match=r"batches\.meta\.txt must name 10 different classes, but it names 2"):
        find_dataset("cifar10").load(tmp_path, "test")


def test_cifar100_rejects_other_labels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="labels must be one of fine, coarse; got 'medium'"):
        find_dataset("cifar100").load(tmp_path, "test", labels="medium")


@pytest.mark.parametrize(("fraction", "size"), [(0.0, "0"), (0.5, "15,365,000"), (0.99999, "30,729,692")])
def test_truncated_binary_file_raises(fraction: float, size: str, cifar: Path, tmp_path: Path) -> None:
    path = tmp_path / "test_batch.bin"
    shutil.copy(cifar / "cifar-10-batches-bin" / "test_batch.bin", path)
    truncate(path, fraction)
    with pytest.raises(ValueError, match="truncated") as caught:
        find_dataset("cifar10").load(tmp_path, "test")
    assert str(caught.value) == (
        f"{path} is truncated or damaged: expected 30,730,000 bytes (10,000 records of 3,073), got {size}; "
        f"get it with: permll data get cifar10 --root {tmp_path}."
    )


def test_label_out_of_range_is_named_by_record(cifar: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.bin"
    records = np.fromfile(cifar / "cifar-100-binary" / "test.bin", np.uint8).reshape(-1, 3074)
    records[[17, 4711], 1] = 100
    records.tofile(path)
    with pytest.raises(ValueError, match=r"labels must be in 0\.\.99, but 2 records \(17, 4711\) are not: get it with"):
        find_dataset("cifar100").load(tmp_path, "test")
    records[:, 1] = 0
    records[3, 0] = 20
    records.tofile(path)
    with pytest.raises(ValueError, match=r"labels must be in 0\.\.19, but 1 record \(3\) is not"):
        find_dataset("cifar100").load(tmp_path, "test")


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9999])
def test_truncated_cifar_pickle_raises(fraction: float, tmp_path: Path) -> None:
    path = tmp_path / "test_batch"
    write_cifar_python(path, {"labels": np.zeros(10_000, int)}, np.zeros((10_000, 3072), np.uint8))
    truncate(path, fraction)
    with pytest.raises(UnsafePickleError, match="damaged") as caught:
        find_dataset("cifar10").load(tmp_path, "test")
    message = str(caught.value)
    assert message.startswith(f"{path} is damaged or not a pickle: ")
    assert message.endswith(f"get it with: permll data get cifar10 --root {tmp_path}.")
    short = f"it has {path.stat().st_size:,} bytes, a complete one more than 30,720,000;"
    assert (short in message) == (fraction < 0.9)


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("padding", [0, 31_000_000])
@pytest.mark.parametrize("file", ["test_batch", "batches.meta"])
def test_cifar_pickle_with_code_raises(file: str, padding: int, tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    write_cifar_python(tmp_path / "test_batch", {"labels": np.zeros(10_000, int)}, np.zeros((10_000, 3072), np.uint8))
    bad = pickle.dumps({"data": bytes(padding), "labels": Trap(mark)})
    (tmp_path / file).write_bytes(bad)
    with pytest.raises(UnsafePickleError, match=r"was rejected, since it may run code: it uses \w+\.mkdir"):
        find_dataset("cifar10").load(tmp_path, "test")
    assert not mark.exists()
    pickle.loads(bad)  # the trap works
    assert mark.exists()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1, 2], "data must be uint8 (10000, 3072), got NoneType"),
        ({"data": np.zeros((9_999, 3072), np.uint8)}, "data must be uint8 (10000, 3072), got uint8 (9999, 3072)"),
        ({"data": np.zeros((10_000, 3072), np.int8)}, "got int8 (10000, 3072)"),
        ({"data": np.zeros((10_000, 3072), np.uint8)}, "labels must be 10,000 integers, got NoneType"),
        ({"data": np.zeros((10_000, 3072), np.uint8), "labels": [1] * 9}, "integers, got 9 values"),
        ({"data": np.zeros((10_000, 3072), np.uint8), "labels": ["a"] * 10_000}, "integers, got 10,000 values"),
        ({"data": np.zeros((10_000, 3072), np.uint8), "labels": [[1], [2, 3]]}, "integers, got 2 values"),
        (
            {"data": np.zeros((10_000, 3072), np.uint8), "labels": [0] * 9_999 + [-1]},
            "in 0..9, but 1 record (9999) is not",
        ),
    ],
)
def test_pickle_that_is_not_a_batch_raises(batch: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch))
    with pytest.raises(ValueError, match="test_batch is ") as caught:
        find_dataset("cifar10").load(tmp_path, "test")
    assert message in str(caught.value)
    assert "permll data get cifar10" in str(caught.value)


def test_missing_batch_is_named(cifar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for number in (1, 2, 4):
        name = f"data_batch_{number}.bin"
        (folder / name).symlink_to(cifar / folder.name / name)
    with pytest.raises(FileNotFoundError, match=r"is incomplete, 2 files \(data_batch_3, data_batch_5\) missing: get"):
        find_dataset("cifar10").load(tmp_path, "train")
