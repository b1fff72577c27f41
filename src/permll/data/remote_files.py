"""URLs and digests of the dataset files that can be downloaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

_SCHEMES = ("http", "https", "ftp", "file")


@dataclass(frozen=True)
class RemoteFile:
    """A published file."""

    name: str
    mirrors: tuple[str, ...]  # URLs of the folders that contain it, tried in turn
    md5: str
    target: str  # folder of the file below the data root; for an archive, the extracted folder
    members: Mapping[str, str] = field(default_factory=dict)  # file -> MD5 of an archive's members


_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
_FASHION = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)

_CIFAR10_PYTHON = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
_CIFAR100_PYTHON = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}

REMOTE_FILES: Mapping[str, tuple[RemoteFile, ...]] = {
    "mnist": (
        RemoteFile("train-images-idx3-ubyte.gz", _MNIST, "f68b3c2dcbeaaa9fbdd348bbdeb94873", "mnist"),
        RemoteFile("train-labels-idx1-ubyte.gz", _MNIST, "d53e105ee54ea40749a09fcbcd1e9432", "mnist"),
        RemoteFile("t10k-images-idx3-ubyte.gz", _MNIST, "9fb629c4189551a2d022fa330f9573f3", "mnist"),
        RemoteFile("t10k-labels-idx1-ubyte.gz", _MNIST, "ec29112dd5afa0611ce80d1b7f02629c", "mnist"),
    ),
    "fashion_mnist": (
        RemoteFile("train-images-idx3-ubyte.gz", _FASHION, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "fashion_mnist"),
        RemoteFile("train-labels-idx1-ubyte.gz", _FASHION, "25c81989df183df01b3e8a0aad5dffbe", "fashion_mnist"),
        RemoteFile("t10k-images-idx3-ubyte.gz", _FASHION, "bef4ecab320f06d8554ea6380940ec79", "fashion_mnist"),
        RemoteFile("t10k-labels-idx1-ubyte.gz", _FASHION, "bb300cfdad3c16e7a12a480ee83cd310", "fashion_mnist"),
    ),
    "cifar10": (
        RemoteFile(
            "cifar-10-python.tar.gz",
            _TORONTO,
            "c58f30108f718f92721af3b95e74349a",
            "cifar-10-batches-py",
            _CIFAR10_PYTHON,
        ),
    ),
    "cifar100": (
        RemoteFile(
            "cifar-100-python.tar.gz",
            _TORONTO,
            "eb9058c3a382ffc7106e4002c42a8d85",
            "cifar-100-python",
            _CIFAR100_PYTHON,
        ),
    ),
}

# Dataset -> file -> MD5 of its decompressed content, which is the same for a .gz file that was compressed again.
CONTENT_MD5: Mapping[str, Mapping[str, str]] = {
    "mnist": {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    "fashion_mnist": {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    "cifar10": {
        **_CIFAR10_PYTHON,
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    "cifar100": {
        **_CIFAR100_PYTHON,
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
}


def mirror_url(mirror: str | Path) -> str:
    """Return the URL of a folder with published files; a local folder gets a file: URL.

    Examples:
        >>> mirror_url("https://example.org/sets")
        'https://example.org/sets'
        >>> mirror_url("nonsense")
        Traceback (most recent call last):
        ValueError: mirror must be a URL (https://...) or an existing folder, got 'nonsense'.
    """
    folder = Path(mirror).expanduser()
    if str(mirror) and folder.is_dir():  # "" would be the current folder
        return folder.absolute().as_uri()
    try:
        parts = urlsplit(str(mirror))
        is_url = parts.scheme in _SCHEMES and bool(parts.path if parts.scheme == "file" else parts.hostname)
    except ValueError:  # an invalid IPv6 address
        is_url = False
    if not is_url:
        raise ValueError(f"mirror must be a URL (https://...) or an existing folder, got {str(mirror)!r:.200}.")
    return str(mirror)
