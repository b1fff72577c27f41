"""From a recipe to what a training needs: noisy data to train and validate on, clean ones to judge by."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder, encode
from permll.data.inputs import Images, LazyImages
from permll.data.loading import load
from permll.data.registry import DATASETS
from permll.data.splits import stratified_split
from permll.noise.apply_noise import with_noise
from permll.noise.corruption import Corruption
from permll.training.feature_cache import keeping, made_small, named_encoder, settle_features
from permll.training.recipe import DataSection, Recipe
from permll.utils.messages import format_list


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
        encoder: that made vectors of texts, a table or images.
        trusted: (N,) which rows of ``train`` have labels known to be right, or None.
        validation_is_clean: the official validation rows of a data set, whose labels were checked: for the judge alone.
        section: the recipe's section on data, with what it left to the data.
    """

    train: LabeledData
    validation: LabeledData | None = None
    test: LabeledData | None = None
    noise: Corruption | None = None
    clean: Tensor | None = None
    clean_validation: Tensor | None = None
    encoder: Encoder | None = None
    trusted: Tensor | None = None
    validation_is_clean: bool = False
    section: DataSection | None = None


@dataclass(frozen=True)
class PreviousSplit:
    """What a run already decided about its data, by name: its data may be in another order now, or be more."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    encoder: Encoder | None


def prepare(
    recipe: Recipe,
    data: LabeledData | None = None,
    test: LabeledData | None = None,
    previous: PreviousSplit | None = None,
    *,
    features: Path | None = None,
    notify: Callable[[str], None] | None = None,
) -> Experiment:
    """Load, split, encode and put noise on the labels.

    Args:
        recipe: what is to be trained.
        data: stands in for what the recipe names.
        test: the same for the test data.
        before: what a run that goes on has decided.
        features: the folder in which slow encoders keep their work.
        say: takes what was understood of the data, in a sentence.
    """
    section = recipe.data
    if data is None and not section.source:
        raise ValueError("the recipe names no data: give some, in Python permll.fit(..., data=...).")
    whole = load(section.source, root=section.root, **section.options) if data is None else data
    section = settle_features(recipe, whole.inputs, notify)
    whole = _resized(whole, recipe, section)
    train, validation = _split(whole, section) if previous is None else _split_as_before(whole, section, previous)
    if test is None and data is None:
        test = _test(section, notify)
    channels = train.inputs.pixels.shape[1] if isinstance(train.inputs, Images) else None
    found = previous.encoder if previous is not None and previous.encoder is not None else named_encoder(section)
    train, encoder = encode(train, encoder=keeping(found, features))
    validation, test = (
        part if part is None else encode(_resized(part, recipe, section, channels), encoder=encoder)[0]
        for part in (validation, test)
    )
    if test is not None and test.classes != train.classes:
        raise ValueError(
            f"the test data have other classes than the training data: {test.classes} and {train.classes}."
        )
    official = isinstance(section.validation, str) and section.source in DATASETS
    experiment = Experiment(
        train,
        validation,
        test,
        clean_validation=validation.labels if official and validation is not None else None,
        encoder=encoder,
        trusted=_trusted(train, section),
        validation_is_clean=official,
        section=section,
    )
    return _with_noise(experiment, section, whole) if section.noise else experiment


def _resized(data: LabeledData, recipe: Recipe, section: DataSection, channels: int | None = None) -> LabeledData:
    """Return images in files in the size that the recipe says."""
    if recipe.views.resize and isinstance(data.inputs, LazyImages):
        data = data.with_inputs(data.inputs.resize(recipe.views.resize))
    return made_small(data, section.pixels, channels) if section.pixels else data


def _with_noise(experiment: Experiment, section: DataSection, whole: LabeledData) -> Experiment:
    """Put noise on the labels to train on and, unless they are to stay clean, on those to validate by."""
    train, validation, trusted = experiment.train, experiment.validation, experiment.trusted
    clean = train.labels
    record = _record_for_all(section.noise, whole, train)
    if record is not None:  # made before, for all rows: each part takes its own of it
        noisy = dict(zip(whole.ids, record.labels_for(whole.labels.numpy()).tolist(), strict=True))
        train = train.relabel([noisy[name] for name in train.ids])
    else:
        train, record = with_noise(train, section.noise, section.noise_seed)
    if trusted is not None:
        train = train.relabel(clean.where(trusted, train.labels))
        if len(record.clean) == len(train):
            record = replace(record, noisy=train.labels.numpy())
    clean_validation = experiment.clean_validation
    if validation is not None and not experiment.validation_is_clean:
        clean_validation = validation.labels
        if len(record.clean) == len(whole) != len(train):
            validation = validation.relabel([noisy[name] for name in validation.ids])
        else:
            validation, _ = with_noise(validation, section.noise, section.noise_seed + 1)
    return replace(
        experiment, train=train, validation=validation, noise=record, clean=clean, clean_validation=clean_validation
    )


def _record_for_all(noise: str, whole: LabeledData, train: LabeledData) -> Corruption | None:
    """Return the record that a recipe names if it was made for all rows, of which some do not train."""
    path = Path(noise).expanduser()
    if len(whole) == len(train) or not (path.suffix == ".npz" or path.is_file()):
        return None
    record = Corruption.load(path)
    return record if len(record.clean) == len(whole) else None


def _split(whole: LabeledData, section: DataSection) -> tuple[LabeledData, LabeledData | None]:
    """Set validation rows aside, then keep as many of the others as are to be trained on."""
    validation = None
    if isinstance(section.validation, str):
        validation = load(section.source, root=section.root, split=section.validation, **section.options)
    elif section.validation is not None:
        parts = stratified_split(whole.labels, section.validation, section.split_seed)
        validation = whole.take(parts.validation).with_metadata(split="validation", split_how=parts.metadata)
        whole = whole.take(parts.train).with_metadata(split_how=parts.metadata)
    if section.train is not None and section.train != len(whole):
        kept = stratified_split(whole.labels, section.train, section.split_seed)
        whole = whole.take(kept.validation).with_metadata(subset_how=kept.metadata)
    return whole, validation


def _split_as_before(
    whole: LabeledData, section: DataSection, previous: PreviousSplit
) -> tuple[LabeledData, LabeledData | None]:
    """Give every row the part it had and, within it, the place; rows that are new are trained on, last."""
    place = {name: row for row, name in enumerate(whole.ids)}
    train = [place[name] for name in previous.train if name in place]
    if section.train is None:
        known = {*previous.train, *previous.validation}
        train += [row for name, row in place.items() if name not in known]
    validation: LabeledData | None = None
    if isinstance(section.validation, str):
        validation = load(section.source, root=section.root, split=section.validation, **section.options)
    elif section.validation is not None:
        rows = [place[name] for name in previous.validation if name in place]
        validation = whole.take(rows) if rows else None
    return whole.take(train), validation


def _trusted(train: LabeledData, section: DataSection) -> Tensor | None:
    """Return which rows are known to be right: a draw before noise comes, or those that a file names."""
    if section.trusted is None:
        return None
    if not isinstance(section.trusted, str) and not section.noise:
        raise ValueError(
            "data.trusted is a number, but there is no noise that rows could be kept from: name a file with their ids."
        )
    if isinstance(section.trusted, str):
        names = set(Path(section.trusted).expanduser().read_text().splitlines()) - {""}
        unknown = sorted(names - set(train.ids))
        if unknown:
            raise ValueError(
                f"{section.trusted} names {format_list(unknown, 'sample')} that are not in the training data: one id a line."
            )
        return torch.tensor([name in names for name in train.ids])
    trusted = torch.zeros(len(train), dtype=torch.bool)
    trusted[stratified_split(train.labels, section.trusted, section.split_seed).validation] = True
    return trusted


def _test(section: DataSection, notify: Callable[[str], None] | None) -> LabeledData | None:
    if not section.test:
        return None
    if section.source in DATASETS:
        return load(section.source, root=section.root, split=section.test, **section.options)
    folder = Path(section.source).expanduser()
    if folder.is_dir() and not Path(section.test).is_absolute() and (folder / section.test).exists():  # it has parts
        return load(folder, split=section.test, **section.options)
    if not Path(section.test).expanduser().exists():
        if section.test == DataSection.model_fields["test"].default:  # what built-in sets call it; others may have none
            if notify is not None:
                notify(f"{section.source} has no part called {section.test}: nothing is tested on.")
            return None
        raise FileNotFoundError(
            f"data.test is {section.test!r}, but there is no such part or file: '' stands for none."
        )
    return load(section.test, **section.options)
