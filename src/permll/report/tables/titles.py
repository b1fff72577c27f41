"""What methods, data and noise are called in tables, and in which order they stand."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from permll.methods import METHODS

Row = Mapping[str, Any]  # one finished cell of a benchmark
Key = tuple[str, str]  # a method and its variant

DATA = {
    "digits": "Digits",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "clothing1m": "Clothing1M",
    "labelme": "LabelMe",
    "trec": "TREC",
    "trec_rules": "TREC",
}
TIERS = ("tiny", "mini", "lite", "paper")
KINDS = {"sym": "symmetric", "asym": "asymmetric", "pair": "pair flip", "instance": "instance-dependent"}
REAL = "real"
TRUSTED = "†"  # marks methods that are given rows with right labels
_POINT = re.compile(r"m(?P<m>[\d.]+)-eta(?P<eta>[\d.]+(?:e[+-]?\d+)?)")


class Point(NamedTuple):
    """Settings of a cell of Figure 3."""

    eta: float
    m: float


def method_key(row: Row) -> Key:
    """Return what makes a line of a table."""
    return row["method"], row.get("variant") or ""


def method_title(key: Key) -> str:
    """Return what a method is called; one that is not registered by its own name.

    Examples:
        >>> method_title(("gce", "")), method_title(("permll", "label")), method_title(("mine:Remembered", ""))
        ('GCE', 'PermLL (label)', 'Remembered')
    """
    method, variant = key
    title = METHODS[method].title if method in METHODS else method.rpartition(":")[2]
    return f"{title} ({variant})" if variant else title


def is_trusted(key: Key) -> bool:
    """Return whether a method is given rows that are known to be right, which the others are not.

    Examples:
        >>> is_trusted(("glc", "")), is_trusted(("permll", ""))
        (True, False)
    """
    return key[0] in METHODS and "trusted" in METHODS[key[0]].needs


def line_title(key: Key) -> str:
    """Return what a method is called in a table, with the mark of those that are given right labels.

    Examples:
        >>> line_title(("glc", "")), line_title(("ce", ""))
        ('GLC †', 'Cross-entropy')
    """
    return f"{method_title(key)} {TRUSTED}" if is_trusted(key) else method_title(key)


def method_order(key: Key) -> tuple[int, str, str]:
    """Return a key that sorts as the registry does: plain training first, PermLL last, then what is not registered."""
    names = list(METHODS)
    return (names.index(key[0]) if key[0] in names else len(names)), *key


def data_title(data: str) -> str:
    """Return what a data set is called."""
    return DATA.get(data, data)


def data_order(data: str) -> tuple[int, str]:
    """Return a key that sorts data sets from small to large."""
    return (list(DATA).index(data) if data in DATA else len(DATA)), data


def split_noise(noise: str) -> tuple[str, float | None]:
    """Return kind and rate in per cent.

    Examples:
        >>> split_noise("sym-60"), split_noise("real"), split_noise("human-worst")
        (('sym', 60.0), ('real', None), ('human-worst', None))
    """
    kind, _, rate = noise.rpartition("-")
    return (kind, float(rate)) if kind and re.fullmatch(r"\d+(\.\d+)?", rate) else (noise, None)


def noise_titles(noise: str) -> tuple[str, str]:
    """Return the title of the kind and that of the rate, which may be empty.

    Examples:
        >>> noise_titles("asym-40"), noise_titles("real")
        (('asymmetric', '40 %'), ('real noise', ''))
    """
    kind, rate = split_noise(noise)
    if kind == REAL:
        return "real noise", ""
    return KINDS.get(kind, kind), "" if rate is None else f"{rate:g} %"


def noise_order(noise: str) -> tuple[int, str, float]:
    """Return a key that sorts noise by kind, then by rate."""
    kind, rate = split_noise(noise)
    return (list(KINDS).index(kind) if kind in KINDS else len(KINDS)), kind, -1.0 if rate is None else rate


def setting_title(data: str, noise: str) -> str:
    """Return data and noise in words.

    Examples:
        >>> setting_title("cifar10", "sym-60")
        'CIFAR-10, symmetric 60 %'
    """
    return f"{data_title(data)}, {' '.join(noise_titles(noise))}".rstrip()


def point(row: Row) -> Point | None:
    """Return eta and m of a cell of Figure 3, which is no line of a table; None for any other.

    Examples:
        >>> point({"method": "permll", "variant": "m0.75-eta24"})
        Point(eta=24.0, m=0.75)
        >>> point({"method": "permll", "variant": "label"})
    """
    found = _POINT.fullmatch(row.get("variant") or "")
    return Point(float(found["eta"]), float(found["m"])) if found else None
