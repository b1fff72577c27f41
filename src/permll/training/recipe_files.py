"""Where recipes come from: built-in frames, what each method changes in them, a user's files, single values.

A built-in recipe is a frame: data, noise, network, optimizer, schedule. ``recipes/methods/NAME.toml`` says what a
method changes in the frames of a tier, of a data set in it, and of a kind of noise on that:

    [mini.method]                 # settings at tier mini
    [paper.cifar10.optimizer]     # the optimizer for CIFAR-10 at tier paper
    [paper.cifar10.asym.method]   # settings there under asymmetric noise

The user's own file comes after both, and single values last.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from permll.data.registry import DATASETS
from permll.training.recipe import Recipe, read_recipe
from permll.utils.messages import did_you_mean

Content = dict[str, Any]
_METHODS = "methods/"


def load_recipe(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Return a built-in recipe by name (``permll recipes list``) or one from a file, with some values changed.

    Args:
        name: ``"mini/sym-60"``, or the path of a TOML file. ``extends = "name"`` in it begins with another recipe.
        overrides: dotted keys, ``{"training.epochs": 3}``. Another ``method.name`` brings that method's settings for
            this tier and data.

    Examples:
        >>> load_recipe("tiny/digits", {"training.epochs": 3}).training.epochs
        3
    """
    frame, own = _chain(str(name))
    changes = [*own, *_nested(overrides or {})]
    if frame:
        whole = _merged(*frame, *changes)
        method = whole.get("method", {}).get("name", "")
        frame = [*frame, {"method": {"name": method}}, *_of_method(method, whole)]
    return read_recipe(_merged(*frame, *changes), f"recipe {name}")


def choose_recipe(recipe: Recipe | Path | str | None, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with changes by dotted keys; None stands for ``auto/default``, which takes any data."""
    if isinstance(recipe, Recipe):
        content = recipe.model_dump(mode="json", exclude_none=True)
        return read_recipe(_merged(content, *_nested(changes)), "the recipe") if changes else recipe
    if recipe is None and changes.get("data.source") in DATASETS:
        changes = {"data.test": "test", **changes}  # a built-in set has one
    return load_recipe(recipe or "auto/default", changes)


def recipe_names() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(
        name for name in _built_in() if not name.startswith(_METHODS) and not name.rpartition("/")[2].startswith("_")
    )


def method_changes(method: str) -> Content:
    """Return what the file of a method says, by tier; nothing if it has none."""
    file = _built_in().get(_METHODS + method)
    return {} if file is None else tomllib.loads(file.read_text())


def _chain(name: str) -> tuple[list[Content], list[Content]]:
    """Return what a recipe is made of, the first first: what is built in, and what a user wrote."""
    files = _built_in()
    path = Path(name).expanduser()
    built_in = name in files and not name.startswith(_METHODS)
    if built_in:
        text = files[name].read_text()
    elif path.suffix == ".toml" and path.is_file():
        text = path.read_text()
    else:
        if path.exists() and path.suffix != ".toml":
            raise ValueError(f"{name} is no recipe and no run: to train on it, permll train --data {name}")
        raise ValueError(
            f"{name!r} is no recipe, no .toml file and no run{did_you_mean(name, recipe_names()) or '.'} See permll recipes "
            "list."
        )
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise ValueError(f"{name} is no TOML: {wrong}.") from None
    base = content.pop("extends", None)
    frame, own = _chain(str(base)) if base is not None else ([], [])
    return ([*frame, content], own) if built_in else (frame, [*own, content])


def _of_method(method: str, recipe: Mapping[str, Any]) -> Iterator[Content]:
    """Yield what a method changes in a recipe: for its tier, its data, its kind of noise."""
    data = recipe.get("data", {})
    level: Any = method_changes(method)
    noise = str(data.get("noise", "")).split(":")
    kind = next((word for word in noise if word in ("sym", "asym")), "")
    for word in (recipe.get("tier", ""), str(data.get("source", "")), kind):
        level = level.get(word, {}) if isinstance(level, Mapping) else {}
        yield {name: section for name, section in level.items() if name in Recipe.model_fields}


def _merged(base: Content, *changes: Mapping[str, Any]) -> Content:
    """Return the base with changes; a section that names something else begins anew."""
    merged = dict(base)
    for change in changes:
        for key, value in change.items():
            old = merged.get(key)
            if (
                isinstance(value, Mapping)
                and isinstance(old, dict)
                and value.get("name", old.get("name")) == old.get("name")
            ):
                merged[key] = _merged(old, value)
            else:
                merged[key] = value
    return merged


def _nested(changes: Mapping[str, Any]) -> list[Content]:
    """Return each change as the content of a recipe."""
    found = []
    for name, value in changes.items():
        nested = value
        for key in reversed(name.split(".")):
            nested = {key: nested}
        found.append(nested)
    return found


def _built_in() -> dict[str, Any]:
    return dict(_walk(resources.files("permll") / "recipes", ""))


def _walk(folder: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml"), entry
