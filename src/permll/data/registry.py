"""Registry of the built-in datasets: contents, license, label noise, and how to get them.

The registry holds only text and numbers, so that listing the datasets imports nothing heavy; a loader is named as
"module:function" and imported when it is called.
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from permll.utils.messages import did_you_mean

if TYPE_CHECKING:
    from permll.data.dataset import LabeledData

ROOT_VARIABLE = "PERMLL_DATA"


@dataclass(frozen=True)
class Access:
    """How to get a dataset: in a Python package, by ``permll data get``, from its web page, or from its owners."""

    kind: Literal["package", "download", "manual", "request"]
    url: str
    instructions: str  # what to do, as a phrase that begins with a verb


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a built-in dataset."""

    name: str  # on the command line and in recipes
    title: str  # official name
    samples: Mapping[str, int]  # split -> official number of samples
    num_classes: int
    inputs: str  # what a sample is
    license: str
    noise: str  # fraction of wrong training labels
    access: Access
    loader: str  # "module:function" of load(root, split, **options) -> LabeledData
    extra_splits: Mapping[str, int] = field(default_factory=dict)  # only loaded by name

    def check_split(self, split: str) -> str:
        """Return ``split`` if the dataset has it; otherwise raise."""
        splits = (*self.samples, *self.extra_splits)
        if split in splits:
            return split
        hint = did_you_mean(split, splits) or "."
        raise ValueError(f"{self.name} has no split {split!r}{hint} Available: {', '.join(splits)}.")

    def how_to_get(self, root: Path) -> str:
        """Return what to do if the dataset is not in ``root``, as a phrase that begins with a verb."""
        if self.access.kind == "download":
            return f"get it with: permll data get {self.name} --root {root}"
        return f"{self.access.instructions} ({self.access.url})"

    def load(self, root: Path | str | None = None, split: str = "train", **options: Any) -> "LabeledData":
        """Import the loader and return the split."""
        module, function = self.loader.split(":")
        return getattr(importlib.import_module(module), function)(data_root(root), self.check_split(split), **options)


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder of the datasets: the given one, else $PERMLL_DATA, else ~/.cache/permll/data.

    Examples:
        >>> data_root("somewhere").name
        'somewhere'
    """
    return Path(root or os.environ.get(ROOT_VARIABLE) or "~/.cache/permll/data").expanduser()


def find_dataset(name: str) -> DatasetInfo:
    """Return the built-in dataset of that name.

    Examples:
        >>> find_dataset("cifar10").samples["train"]
        50000
        >>> find_dataset("fashion_mist")
        Traceback (most recent call last):
        ValueError: unknown dataset 'fashion_mist', did you mean fashion_mnist? Available: digits, mnist, ...
    """
    try:
        return DATASETS[name]
    except KeyError:
        hint = did_you_mean(name, DATASETS) or "."
        raise ValueError(f"unknown dataset {name!r}{hint} Available: {', '.join(DATASETS)}.") from None


_CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_DOWNLOAD = "download it with permll data get"

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo(
            name="digits",
            title="scikit-learn's digits",
            samples={"train": 1_347, "test": 450},
            num_classes=10,
            inputs="8 x 8 gray images",
            license="CC BY 4.0",
            noise="clean",
            access=Access("package", "https://scikit-learn.org", "install scikit-learn, which contains it"),
            loader="permll.data.datasets.digits:load",
        ),
        DatasetInfo(
            name="mnist",
            title="MNIST",
            samples={"train": 60_000, "test": 10_000},
            num_classes=10,
            inputs="28 x 28 gray images",
            license="CC BY-SA 3.0",
            noise="clean",
            access=Access("download", "http://yann.lecun.com/exdb/mnist/", _DOWNLOAD),
            loader="permll.data.datasets.mnist:mnist",
        ),
        DatasetInfo(
            name="fashion_mnist",
            title="Fashion-MNIST",
            samples={"train": 60_000, "test": 10_000},
            num_classes=10,
            inputs="28 x 28 gray images",
            license="MIT",
            noise="clean",
            access=Access("download", "https://github.com/zalandoresearch/fashion-mnist", _DOWNLOAD),
            loader="permll.data.datasets.mnist:fashion_mnist",
        ),
        DatasetInfo(
            name="cifar10",
            title="CIFAR-10",
            samples={"train": 50_000, "test": 10_000},
            num_classes=10,
            inputs="32 x 32 RGB images",
            license="none stated",
            noise="clean",
            access=Access("download", _CIFAR_PAGE, _DOWNLOAD),
            loader="permll.data.datasets.cifar:cifar10",
        ),
        DatasetInfo(
            name="cifar100",
            title="CIFAR-100",
            samples={"train": 50_000, "test": 10_000},
            num_classes=100,
            inputs="32 x 32 RGB images",
            license="none stated",
            noise="clean",
            access=Access("download", _CIFAR_PAGE, _DOWNLOAD),
            loader="permll.data.datasets.cifar:cifar100",
        ),
        DatasetInfo(
            name="clothing1m",
            title="Clothing1M",
            samples={"train": 1_000_000, "val": 14_313, "test": 10_526},
            num_classes=14,
            inputs="RGB photos, files",
            license="non-commercial research, not to be passed on",
            noise="about 38 % wrong (real)",
            access=Access(
                "request",
                "https://github.com/Cysu/noisy_label",
                "request it from its authors, see their page, and extract images and annotations into one folder",
            ),
            loader="permll.data.datasets.clothing1m:load",
            extra_splits={"clean_train": 47_570},
        ),
        DatasetInfo(
            name="webvision_mini",
            title="WebVision 1.0, first 50 classes",
            samples={"train": 65_944, "val": 2_500},
            num_classes=50,
            inputs="RGB photos, files",
            license="see its page",
            noise="about 20 % wrong (real)",
            access=Access(
                "manual",
                "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html",
                "get info.tar, google_resized_256.tar and val_images_256.tar from its page and extract them together",
            ),
            loader="permll.data.datasets.webvision:load",
        ),
        DatasetInfo(
            name="food101n",
            title="Food-101N",
            samples={"train": 310_009, "test": 25_250},
            num_classes=101,
            inputs="RGB photos, files",
            license="see its page",
            noise="about 18 % wrong (real)",
            access=Access(
                "manual",
                "https://kuanghuei.github.io/Food-101N/",
                "get Food-101N from its page, and Food-101 for the test split, and extract them side by side",
            ),
            loader="permll.data.datasets.food101n:load",
        ),
        DatasetInfo(
            name="animal10n",
            title="ANIMAL-10N",
            samples={"train": 50_000, "test": 5_000},
            num_classes=10,
            inputs="64 x 64 RGB images",
            license="see its page",
            noise="about 8 % wrong (real)",
            access=Access(
                "manual",
                "https://dm.kaist.ac.kr/datasets/animal-10n/",
                "get the raw images from its page and extract them: a folder training and a folder testing",
            ),
            loader="permll.data.datasets.animal10n:load",
        ),
    )
}
