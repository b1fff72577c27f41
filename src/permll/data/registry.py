"""The built-in data sets: what each holds, under which licence, how wrong its labels are, and how to get it.

Everything here is plain text and numbers, so listing the sets imports nothing that is heavy; a loader is named as
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

VARIABLE = "PERMLL_DATA"


@dataclass(frozen=True)
class Access:
    """How to come by a set.

    Args:
        kind: ``"package"`` (installed with one), ``"download"`` (``permll data get`` does it), ``"manual"`` (from its
            page, by hand), ``"request"`` (its owners must be asked).
        address: the page it comes from.
        todo: what a user does, as a phrase that begins with a verb.
    """

    kind: Literal["package", "download", "manual", "request"]
    address: str
    todo: str


@dataclass(frozen=True)
class SetInfo:
    """What is known about a built-in set before any file of it is opened.

    Args:
        name: what to call it on the command line and in recipes.
        title: what people call it.
        samples: split -> official number of samples.
        num_classes: c.
        inputs: what a sample is.
        licence: in a few words.
        noise: how many of its training labels are wrong.
        access: how to get it.
        loader: "module:function" of ``load(root, split, **options) -> Data``.
        on_request: further splits, which are used only where they are named.
    """

    name: str
    title: str
    samples: Mapping[str, int]
    num_classes: int
    inputs: str
    licence: str
    noise: str
    access: Access
    loader: str
    on_request: Mapping[str, int] = field(default_factory=dict)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that belong to every use of the set."""
        return tuple(self.samples)

    def known_split(self, split: str) -> str:
        """Return ``split`` if the set has it; otherwise say which there are."""
        splits = (*self.samples, *self.on_request)
        if split in splits:
            return split
        hint = did_you_mean(split, splits) or "."
        raise ValueError(f"{self.name} has no split {split!r}{hint} There are {', '.join(splits)}.")

    def how_to_get(self, root: Path) -> str:
        """Return what to do if the set is not below ``root``, as a phrase that begins with a verb."""
        if self.access.kind == "download":
            return f"get it with: permll data get {self.name} --root {root}"
        return f"{self.access.todo} ({self.access.address})"

    def load(self, root: Path | str | None = None, split: str = "train", **options: Any) -> "LabeledData":
        """Import the loader and return the split."""
        module, function = self.loader.split(":")
        return getattr(importlib.import_module(module), function)(data_root(root), self.known_split(split), **options)


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder below which data sets lie: the given one, else $PERMLL_DATA, else ~/.cache/permll/data.

    Examples:
        >>> data_root("somewhere").name
        'somewhere'
    """
    return Path(root or os.environ.get(VARIABLE) or "~/.cache/permll/data").expanduser()


def find(name: str) -> SetInfo:
    """Return the set of that name.

    Examples:
        >>> find("cifar10").samples["train"]
        50000
        >>> find("fashion_mist")
        Traceback (most recent call last):
        ValueError: 'fashion_mist' is no built-in data set, did you mean fashion_mnist? There are digits, mnist, ...
    """
    try:
        return SETS[name]
    except KeyError:
        hint = did_you_mean(name, SETS) or "."
        raise ValueError(f"{name!r} is no built-in data set{hint} There are {', '.join(SETS)}.") from None


_CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_DOWNLOAD = "let permll download it"

SETS: dict[str, SetInfo] = {
    info.name: info
    for info in (
        SetInfo(
            name="digits",
            title="scikit-learn's digits",
            samples={"train": 1_347, "test": 450},
            num_classes=10,
            inputs="8 x 8 grey images",
            licence="CC BY 4.0",
            noise="clean",
            access=Access("package", "https://scikit-learn.org", "install scikit-learn, which holds it"),
            loader="permll.data.datasets.digits:load",
        ),
        SetInfo(
            name="mnist",
            title="MNIST",
            samples={"train": 60_000, "test": 10_000},
            num_classes=10,
            inputs="28 x 28 grey images",
            licence="CC BY-SA 3.0",
            noise="clean",
            access=Access("download", "http://yann.lecun.com/exdb/mnist/", _DOWNLOAD),
            loader="permll.data.datasets.mnist:mnist",
        ),
        SetInfo(
            name="fashion_mnist",
            title="Fashion-MNIST",
            samples={"train": 60_000, "test": 10_000},
            num_classes=10,
            inputs="28 x 28 grey images",
            licence="MIT",
            noise="clean",
            access=Access("download", "https://github.com/zalandoresearch/fashion-mnist", _DOWNLOAD),
            loader="permll.data.datasets.mnist:fashion_mnist",
        ),
        SetInfo(
            name="cifar10",
            title="CIFAR-10",
            samples={"train": 50_000, "test": 10_000},
            num_classes=10,
            inputs="32 x 32 RGB images",
            licence="none stated",
            noise="clean",
            access=Access("download", _CIFAR_PAGE, _DOWNLOAD),
            loader="permll.data.datasets.cifar:cifar10",
        ),
        SetInfo(
            name="cifar100",
            title="CIFAR-100",
            samples={"train": 50_000, "test": 10_000},
            num_classes=100,
            inputs="32 x 32 RGB images",
            licence="none stated",
            noise="clean",
            access=Access("download", _CIFAR_PAGE, _DOWNLOAD),
            loader="permll.data.datasets.cifar:cifar100",
        ),
        SetInfo(
            name="clothing1m",
            title="Clothing1M",
            samples={"train": 1_000_000, "val": 14_313, "test": 10_526},
            num_classes=14,
            inputs="RGB photos, files",
            licence="non-commercial research, not to be passed on",
            noise="about 38 % wrong (real)",
            access=Access(
                "request",
                "https://github.com/Cysu/noisy_label",
                "ask its authors for it, as their page says, and unpack images and annotations into one folder",
            ),
            loader="permll.data.datasets.clothing1m:load",
            on_request={"clean_train": 47_570},
        ),
        SetInfo(
            name="webvision_mini",
            title="WebVision 1.0, first 50 classes",
            samples={"train": 65_944, "val": 2_500},
            num_classes=50,
            inputs="RGB photos, files",
            licence="see its page",
            noise="about 20 % wrong (real)",
            access=Access(
                "manual",
                "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html",
                "fetch info.tar, google_resized_256.tar and val_images_256.tar from its page and unpack them together",
            ),
            loader="permll.data.datasets.webvision:load",
        ),
        SetInfo(
            name="food101n",
            title="Food-101N",
            samples={"train": 310_009, "test": 25_250},
            num_classes=101,
            inputs="RGB photos, files",
            licence="see its page",
            noise="about 18 % wrong (real)",
            access=Access(
                "manual",
                "https://kuanghuei.github.io/Food-101N/",
                "fetch Food-101N from its page, and Food-101 for the test split, and unpack them side by side",
            ),
            loader="permll.data.datasets.food101n:load",
        ),
        SetInfo(
            name="animal10n",
            title="ANIMAL-10N",
            samples={"train": 50_000, "test": 5_000},
            num_classes=10,
            inputs="64 x 64 RGB images",
            licence="see its page",
            noise="about 8 % wrong (real)",
            access=Access(
                "manual",
                "https://dm.kaist.ac.kr/datasets/animal-10n/",
                "fetch the raw images from its page and unpack them: a folder training and a folder testing",
            ),
            loader="permll.data.datasets.animal10n:load",
        ),
    )
}
