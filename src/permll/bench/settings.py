"""The columns of the tables: which data and noise each tier has, and the recipe of each."""

from dataclasses import dataclass
from typing import Any

from permll.report.tables.titles import REAL, TIERS
from permll.utils.messages import did_you_mean

NOISE = ("sym-20", "sym-40", "sym-60", "sym-80", "asym-20", "asym-40")


@dataclass(frozen=True)
class Column:
    """Data and noise that methods are compared on.

    Args:
        data: the data set.
        noise: on it.
        frame: the recipe.
        name: in the names of folders.
    """

    data: str
    noise: str
    frame: str
    name: str


def table1_columns(tier: str) -> list[Column]:
    """Return the columns of Table 1 at a tier; at tiny there is just one.

    Examples:
        >>> [column.name for column in table1_columns("tiny")]
        ['digits-sym-40']
        >>> table1_columns("mini")[2]
        Column(data='fashion_mnist', noise='sym-60', frame='mini/sym-60', name='sym-60')
        >>> len(table1_columns("paper"))
        12
    """
    check_tier(tier)
    if tier == "tiny":
        return [Column("digits", "sym-40", "tiny/digits", "digits-sym-40")]
    if tier == "mini":
        return [Column("fashion_mnist", noise, f"mini/{noise}", noise) for noise in NOISE]
    names = [(data, noise, f"{data}-{noise}") for data in ("cifar10", "cifar100") for noise in NOISE]
    return [Column(data, noise, f"{tier}/{name}", name) for data, noise, name in names]


def read_column(name: str, recipe: Any) -> tuple[str, str]:
    """Return the data set and the noise that a column's name and the recipe of a run in it tell.

    Examples:
        >>> from permll.training import load_recipe
        >>> read_column("sym-60", load_recipe("mini/sym-60")), read_column("labelme-real", load_recipe("auto/default"))
        (('fashion_mnist', 'sym-60'), ('labelme', 'real'))
    """
    noise = next((one for one in (*NOISE, REAL) if name == one or name.endswith(f"-{one}")), "")
    data = name.removesuffix(noise).rstrip("-")
    return data or recipe.data.source, noise


def check_tier(tier: str) -> None:
    """Refuse what is no tier."""
    if tier not in TIERS:
        raise ValueError(
            f"{tier!r} is no tier of the benchmark{did_you_mean(tier, TIERS) or '.'} There are {_list(TIERS)}."
        )


def chosen_columns(columns: list[Column], noise: list[str], tier: str) -> list[Column]:
    """Return the columns that are asked for, by their noise or their whole name, or all.

    Examples:
        >>> names = ["cifar10-sym-60", "asym-40"]
        >>> [column.name for column in chosen_columns(table1_columns("lite"), names, "lite")]
        ['cifar10-sym-60', 'cifar10-asym-40', 'cifar100-asym-40']
    """
    there = dict.fromkeys([*(column.noise for column in columns), *(column.name for column in columns)])
    for one in noise:
        if one not in there:
            raise ValueError(
                f"tier {tier} has no noise {one!r}{did_you_mean(one, there) or '.'} It has {_list(there)}."
            )
    return [column for column in columns if not noise or not {column.noise, column.name}.isdisjoint(noise)]


def _list(words: Any) -> str:
    return ", ".join(words)
