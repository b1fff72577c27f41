"""Titles and order of methods, data sets and noise in tables."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from permll.methods import METHODS

Row = Mapping[str, Any]  # one finished job of a benchmark
Key = tuple[str, str]  # a method and its variant

DATA_TITLES = {
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
NOISE_TITLES = {"sym": "symmetric", "asym": "asymmetric", "pair": "pair flip", "instance": "instance-dependent"}
REAL = "real"
TRUSTED_MARK = "†"  # marks methods that use rows with trusted labels
_POINT = re.compile(r"m(?P<m>[\d.]+)-eta(?P<eta>[\d.]+(?:e[+-]?\d+)?)")


class Figure3Point(NamedTuple):
    """Hyper-parameters of a run of Figure 3."""

    eta: float
    m: float


def method_key(row: Row) -> Key:
    """Return method and variant of a row, which identify a line of a table."""
    return row["method"], row.get("variant") or ""


def method_title(key: Key) -> str:
    """Return the title of a method; an unregistered one has its class name.

    Examples:
        >>> method_title(("gce", "")), method_title(("permll", "label")), method_title(("mine:Remembered", ""))
        ('GCE', 'PermLL (label)', 'Remembered')
    """
    method, variant = key
    title = METHODS[method].title if method in METHODS else method.rpartition(":")[2]
    return f"{title} ({variant})" if variant else title


def method_words(key: Key) -> str:
    """Return the text that the filter of a page searches.

    Examples:
        >>> method_words(("permll", "label"))
        'permll label permll (label)'
    """
    return " ".join((*key, method_title(key))).lower()


def uses_trusted_rows(key: Key) -> bool:
    """Return whether a method uses rows with trusted labels, which other methods do not have.

    Examples:
        >>> uses_trusted_rows(("glc", "")), uses_trusted_rows(("permll", ""))
        (True, False)
    """
    return key[0] in METHODS and "trusted" in METHODS[key[0]].needs


def method_order(key: Key) -> tuple[int, str, str]:
    """Return a sort key in the order of the registry, with unregistered methods last."""
    return _index(key[0], METHODS), *key


def data_title(data: str) -> str:
    """Return the title of a data set."""
    return DATA_TITLES.get(data, data)


def tier_order(tier: str) -> tuple[int, str]:
    """Return a sort key of tiers from small to large."""
    return _index(tier, TIERS), tier


def split_noise(noise: str) -> tuple[str, float | None]:
    """Return kind and rate in percent.

    Examples:
        >>> split_noise("sym-60"), split_noise("real"), split_noise("human-worst")
        (('sym', 60.0), ('real', None), ('human-worst', None))
    """
    kind, _, rate = noise.rpartition("-")
    return (kind, float(rate)) if kind and re.fullmatch(r"\d+(\.\d+)?", rate) else (noise, None)


def noise_titles(noise: str) -> tuple[str, str]:
    """Return the titles of kind and rate; the latter may be empty.

    Examples:
        >>> noise_titles("asym-40"), noise_titles("real")
        (('asymmetric', '40 %'), ('real noise', ''))
    """
    kind, rate = split_noise(noise)
    if kind == REAL:
        return "real noise", ""
    return NOISE_TITLES.get(kind, kind), "" if rate is None else f"{rate:g} %"


def setting_order(setting: tuple[str, str]) -> tuple[int, str, int, str, float]:
    """Return a sort key of settings: data sets from small to large, then noise by kind and rate."""
    data, noise = setting
    kind, rate = split_noise(noise)
    return _index(data, DATA_TITLES), data, _index(kind, NOISE_TITLES), kind, -1.0 if rate is None else rate


def setting_title(data: str, noise: str) -> str:
    """Return the title of a setting.

    Examples:
        >>> setting_title("cifar10", "sym-60")
        'CIFAR-10, symmetric 60 %'
    """
    return f"{data_title(data)}, {' '.join(noise_titles(noise))}".rstrip()


def figure3_point(row: Row) -> Figure3Point | None:
    """Return eta and m of a run of Figure 3, which is not a line of a table; None for any other row.

    Examples:
        >>> figure3_point({"method": "permll", "variant": "m0.75-eta24"})
        Figure3Point(eta=24.0, m=0.75)
        >>> figure3_point({"method": "permll", "variant": "label"})
    """
    match = _POINT.fullmatch(row.get("variant") or "")
    return Figure3Point(float(match["eta"]), float(match["m"])) if match else None


def _index(name: str, names: Iterable[str]) -> int:
    """Return the index of a name; unknown names come last."""
    names = list(names)
    return names.index(name) if name in names else len(names)
