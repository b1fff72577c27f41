"""Recipe files: built-in recipes, the settings of each method, user files, and single overrides.

A built-in recipe has data, noise, network, optimizer and schedule. ``recipes/methods/NAME.toml`` has the settings that
a method overrides, by tier, data set and kind of noise:

    [mini.method]                 # settings at tier mini
    [paper.cifar10.optimizer]     # the optimizer for CIFAR-10 at tier paper
    [paper.cifar10.asym.method]   # settings there under asymmetric noise

A user's file overrides both, and single values override everything.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from permll.data.registry import DATASETS
from permll.training.recipe import Recipe, parse_recipe
from permll.utils.messages import did_you_mean

Content = dict[str, Any]
_FOLDER = Path(__file__).parents[1] / "recipes"  # of the built-in recipes
_METHODS = "methods/"


def load_recipe(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Return a built-in recipe (``permll recipes list``) or one from a file, with overrides.

    Args:
        name: ``"mini/sym-60"``, or the path of a TOML file, in which ``extends = "name"`` names a base recipe.
        overrides: values by dotted key, ``{"training.epochs": 3}``. Another ``method.name`` comes with that method's
            settings for this tier and data.

    Examples:
        >>> load_recipe("tiny/digits", {"training.epochs": 3}).training.epochs
        3
    """
    built_in, user = _read_with_bases(str(name))
    changes = [*user, *_unflatten(overrides or {})]
    if built_in:
        recipe = _merge(*built_in, *changes)
        method = recipe.get("method", {}).get("name", "")
        built_in = [*built_in, {"method": {"name": method}}, *_overrides_for(method, recipe)]
    return parse_recipe(_merge(*built_in, *changes), f"recipe {name}")


def resolve_recipe(recipe: Recipe | Path | str | None, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with changes by dotted key; None stands for ``auto/default``, which accepts any data."""
    if isinstance(recipe, Recipe):
        content = recipe.model_dump(mode="json", exclude_none=True)
        return parse_recipe(_merge(content, *_unflatten(changes)), "the recipe") if changes else recipe
    if recipe is None and changes.get("data.source") in DATASETS:
        changes = {"data.test": "test", **changes}  # every built-in data set has a test split
    return load_recipe(recipe or "auto/default", changes)


def recipe_names() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(
        name
        for name in _built_in_files()
        if not name.startswith(_METHODS) and not name.rpartition("/")[2].startswith("_")
    )


def method_overrides(method: str) -> Content:
    """Return the content of a method's file, by tier; {} if it has none."""
    file = _built_in_files().get(_METHODS + method)
    return {} if file is None else tomllib.loads(file.read_text())


def _read_with_bases(name: str) -> tuple[list[Content], list[Content]]:
    """Return the contents of a recipe and of its bases, bases first: of built-in files, and of user files."""
    files = _built_in_files()
    is_built_in = name in files and not name.startswith(_METHODS)
    path = files[name] if is_built_in else Path(name).expanduser()
    if path.exists() and path.suffix != ".toml":
        raise ValueError(f"{name} is not a recipe or a run; to train on it as data: permll train --data {name}")
    if path.suffix != ".toml" or not path.is_file():
        raise ValueError(
            f"{name!r} is not a recipe, a .toml file or a run{did_you_mean(name, recipe_names()) or '.'} See permll "
            "recipes list."
        )
    try:
        content = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: {error}.") from None
    for key in ("format", "task"):  # of a run's recipe.toml
        content.pop(key, None)
    base = content.pop("extends", None)
    built_in, user = _read_with_bases(str(base)) if base is not None else ([], [])
    return ([*built_in, content], user) if is_built_in else (built_in, [*user, content])


def _overrides_for(method: str, recipe: Mapping[str, Any]) -> Iterator[Content]:
    """Yield the overrides of a method for the tier, the data set and the kind of noise of a recipe."""
    data = recipe.get("data", {})
    level: Any = method_overrides(method)
    noise = str(data.get("noise", "")).split(":")
    kind = next((word for word in noise if word in ("sym", "asym")), "")
    for word in (recipe.get("tier", ""), str(data.get("source", "")), kind):
        level = level.get(word, {}) if isinstance(level, Mapping) else {}
        yield {name: section for name, section in level.items() if name in Recipe.model_fields}


def _merge(base: Content, *changes: Mapping[str, Any]) -> Content:
    """Return the base with changes; a section with another ``name`` replaces the old one with its settings."""
    merged = dict(base)
    for change in changes:
        for key, value in change.items():
            old = merged.get(key)
            if (
                isinstance(value, Mapping)
                and isinstance(old, dict)
                and value.get("name", old.get("name")) == old.get("name")
            ):
                merged[key] = _merge(old, value)
            else:
                merged[key] = value
    return merged


def _unflatten(changes: Mapping[str, Any]) -> list[Content]:
    """Return each change by dotted key as nested content."""
    contents = []
    for name, value in changes.items():
        content = value
        for key in reversed(name.split(".")):
            content = {key: content}
        contents.append(content)
    return contents


def _built_in_files() -> dict[str, Path]:
    return {path.relative_to(_FOLDER).with_suffix("").as_posix(): path for path in _FOLDER.rglob("*.toml")}
