"""From a recipe to what a training needs: noisy data to train and validate on, clean ones to judge by."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from permll.data.encoding import Encoder, encode
from permll.data.inputs import LazyImages
from permll.data.loading import load
from permll.data.record import Data
from permll.data.registry import SETS
from permll.data.splits import stratified
from permll.noise.applying import with_noise
from permll.noise.corruption import Corruption
from permll.training.recipe import DataSection, Recipe


@dataclass(frozen=True, eq=False)
class Experiment:
    """Data for one training.

    Args:
        train: with the labels to train on.
        validation: with labels as noisy as those, or None.
        test: as it comes.
        noise: the record of the noise that was put on ``train``, or None.
        clean: labels of ``train`` before that, or None where nobody knows. For the judge alone.
        clean_validation: the same for ``validation``.
        encoder: that made vectors of texts or a table.
    """

    train: Data
    validation: Data | None = None
    test: Data | None = None
    noise: Corruption | None = None
    clean: Tensor | None = None
    clean_validation: Tensor | None = None
    encoder: Encoder | None = None


@dataclass(frozen=True)
class Before:
    """What a run already decided about its data, by name: its data may be in another order now, or be more."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    encoder: Encoder | None


def prepare(
    recipe: Recipe, data: Data | None = None, test: Data | None = None, before: Before | None = None
) -> Experiment:
    """Load, split, encode and put noise on the labels; ``data`` and ``test`` stand in for what the recipe names."""
    section = recipe.data
    if data is None and not section.source:
        raise ValueError("the recipe names no data: give some, in Python permll.fit(..., data=...).")
    whole = load(section.source, root=section.root, **section.options) if data is None else data
    if recipe.views.resize and isinstance(whole.inputs, LazyImages):
        whole = whole.with_inputs(whole.inputs.resized(recipe.views.resize))
    train, validation = _split(whole, section) if before is None else _split_as_before(whole, section, before)
    if test is None and data is None:
        test = _test(section)
    train, encoder = encode(train, like=None if before is None else before.encoder)
    validation, test = (part if part is None else encode(part, like=encoder)[0] for part in (validation, test))
    if test is not None and test.classes != train.classes:
        raise ValueError(
            f"the test data have other classes than the training data: {test.classes} and {train.classes}."
        )
    if not section.noise:
        return Experiment(train, validation, test, encoder=encoder)
    clean, clean_validation = train.labels, None if validation is None else validation.labels
    train, record = with_noise(train, section.noise, section.noise_seed)
    if validation is not None:
        validation, _ = with_noise(validation, section.noise, section.noise_seed + 1)
    return Experiment(train, validation, test, record, clean, clean_validation, encoder)


def _split(whole: Data, section: DataSection) -> tuple[Data, Data | None]:
    """Set validation rows aside, then keep as many of the others as are to be trained on."""
    validation = None
    if isinstance(section.validation, str):
        validation = load(section.source, root=section.root, split=section.validation, **section.options)
    elif section.validation is not None:
        parts = stratified(whole.labels, section.validation, section.split_seed)
        validation = whole.take(parts.validation).noted(split="validation", split_how=parts.about)
        whole = whole.take(parts.train).noted(split_how=parts.about)
    if section.train is not None and section.train != len(whole):
        kept = stratified(whole.labels, section.train, section.split_seed)
        whole = whole.take(kept.validation).noted(subset_how=kept.about)
    return whole, validation


def _split_as_before(whole: Data, section: DataSection, before: Before) -> tuple[Data, Data | None]:
    """Give every row the part it had and, within it, the place; rows that are new are trained on, last."""
    place = {name: row for row, name in enumerate(whole.ids)}
    train = [place[name] for name in before.train if name in place]
    if section.train is None:
        known = {*before.train, *before.validation}
        train += [row for name, row in place.items() if name not in known]
    if isinstance(section.validation, str):
        validation = load(section.source, root=section.root, split=section.validation, **section.options)
    elif section.validation is not None:
        validation = whole.take([place[name] for name in before.validation if name in place])
    else:
        validation = None
    return whole.take(train), validation


def _test(section: DataSection) -> Data | None:
    if not section.test:
        return None
    if section.source in SETS:
        return load(section.source, root=section.root, split=section.test, **section.options)
    folder = Path(section.source).expanduser()
    if (folder / section.test).exists():  # a folder with parts
        return load(folder, split=section.test, **section.options)
    return load(section.test, **section.options) if Path(section.test).expanduser().exists() else None
