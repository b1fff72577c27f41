"""Settings of a benchmark: the combinations of data set and noise at each tier."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from permll.bench.real_noise import dataset_name
from permll.report.tables.titles import REAL, TIERS
from permll.training.recipe import Recipe
from permll.utils.messages import did_you_mean, unknown_name

NOISES = ("sym-20", "sym-40", "sym-60", "sym-80", "asym-20", "asym-40")


@dataclass(frozen=True)
class Setting:
    """Data set and noise that methods are compared on: a column of a table."""

    data: str
    noise: str
    recipe_name: str  # of the built-in recipe
    name: str  # prefix of folder names
    source: Path | None = None  # file with real noisy labels, if the data come from one


def table1_settings(tier: str) -> list[Setting]:
    """Return the settings of Table 1 at a tier.

    Examples:
        >>> [setting.name for setting in table1_settings("tiny")]
        ['digits-sym-40']
        >>> table1_settings("mini")[2]
        Setting(data='fashion_mnist', noise='sym-60', recipe_name='mini/sym-60', name='sym-60', source=None)
        >>> len(table1_settings("paper"))
        12
    """
    check_tier(tier)
    if tier == "tiny":
        return [Setting("digits", "sym-40", "tiny/digits", "digits-sym-40")]
    if tier == "mini":
        return [Setting("fashion_mnist", noise, f"mini/{noise}", noise) for noise in NOISES]
    names = [(data, noise, f"{data}-{noise}") for data in ("cifar10", "cifar100") for noise in NOISES]
    return [Setting(data, noise, f"{tier}/{name}", name) for data, noise, name in names]


def table2_settings(tier: str, files: Iterable[Path]) -> list[Setting]:
    """Return the settings of Table 2: Clothing1M at tier paper, files of real noisy labels at the other tiers.

    Examples:
        >>> [setting.name for setting in table2_settings("mini", [Path("trec_rules.npz")])]
        ['trec-real']
    """
    if tier == "paper":
        return [Setting("clothing1m", REAL, "paper/clothing1m", f"clothing1m-{REAL}")]
    names = {file: dataset_name(file) for file in files}
    return [Setting(name, REAL, "auto/default", f"{name}-{REAL}", file) for file, name in names.items()]


def parse_setting_name(name: str, recipe: Recipe) -> tuple[str, str]:
    """Return the data set and the noise of a setting's name; a name without data set takes that of the recipe.

    Examples:
        >>> from permll.training import load_recipe
        >>> parse_setting_name("sym-60", load_recipe("mini/sym-60"))
        ('fashion_mnist', 'sym-60')
        >>> parse_setting_name("labelme-real", load_recipe("auto/default"))
        ('labelme', 'real')
    """
    noise = next((noise for noise in (*NOISES, REAL) if name == noise or name.endswith(f"-{noise}")), "")
    data = name.removesuffix(noise).rstrip("-")
    return data or recipe.data.source, noise


def check_tier(tier: str) -> None:
    """Raise ValueError for an unknown tier."""
    if tier not in TIERS:
        raise ValueError(unknown_name("tier", tier, TIERS))


def select_settings(settings: Sequence[Setting], names: Sequence[str], tier: str) -> list[Setting]:
    """Return the settings whose noise or full name is in ``names``; without names, all of them.

    Examples:
        >>> names = ["cifar10-sym-60", "asym-40"]
        >>> [setting.name for setting in select_settings(table1_settings("lite"), names, "lite")]
        ['cifar10-sym-60', 'cifar10-asym-40', 'cifar100-asym-40']
    """
    known = dict.fromkeys([*(setting.noise for setting in settings), *(setting.name for setting in settings)])
    for name in names:
        if name not in known:
            raise ValueError(
                f"unknown noise {name!r} at tier {tier}{did_you_mean(name, known) or '.'} "
                f"Available: {', '.join(known)}."
            )
    return [setting for setting in settings if not names or not {setting.noise, setting.name}.isdisjoint(names)]
