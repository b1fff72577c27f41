"""Data preparation: load the data of a recipe, split and encode them, and add synthetic label noise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder, encode
from permll.data.inputs import Images, LazyImages
from permll.data.loading import load
from permll.data.readers.image_files import load_small_images
from permll.data.registry import DATASETS
from permll.data.splits import split_rows, stratified_split
from permll.noise.apply_noise import with_noise
from permll.noise.corruption import Corruption
from permll.training.feature_cache import (
    describe_features,
    load_encoder,
    resolve_features,
    small_image_size,
    with_cache,
)
from permll.training.model_card import read_encoder
from permll.training.recipe import AUTO, DataSection, Recipe
from permll.training.run import GivenLabels, Run
from permll.utils.messages import format_list


@dataclass(frozen=True, eq=False)
class PreparedData:
    """Data of a training."""

    train: LabeledData  # with given labels
    validation: LabeledData | None = None  # held out, with labels as noisy as those
    test: LabeledData | None = None
    noise: Corruption | None = None  # record of the noise that was added to train
    clean: Tensor | None = None  # (N,) labels of train before noise was added, if known; for evaluation only
    clean_validation: Tensor | None = None  # (n,) the same for validation
    encoder: Encoder | None = None  # of texts, tables or images
    trusted: Tensor | None = None  # (N,) mask of training samples whose labels are known to be correct
    validation_is_clean: bool = False  # whether it is an official split with verified labels; for evaluation only
    section: DataSection | None = None  # of the recipe, with the settings that were chosen by the data


def prepare_data(
    recipe: Recipe,
    data: LabeledData | None = None,
    test: LabeledData | None = None,
    run: Run | None = None,
    notify: Callable[[str], None] | None = None,
) -> PreparedData:
    """Load, split and encode the data of a recipe, and add label noise.

    Args:
        recipe: the recipe.
        data: training data, instead of those that the recipe names.
        test: test data, instead of those that the recipe names.
        run: in its folder, slow encoders cache their features; one that resumes keeps its split and its encoder.
        notify: called with a sentence about the data and the chosen encoder.
    """
    section = recipe.data
    if data is None and not section.source:
        raise ValueError("the recipe names no data: pass some, in Python permll.train(data, ...).")
    samples = data
    if samples is None:
        samples = load(section.source, root=section.root, shrink_to=small_image_size(recipe, notify), **section.options)
    section = resolve_features(recipe, samples.inputs, notify)
    if notify is not None and recipe.network.name == AUTO and (about := describe_features(section, samples.inputs)):
        notify(about)
    samples = _resize(samples, recipe, section)
    if run is not None and run.exists:
        train, validation = _split_again(samples, section, run.labels)
        encoder = read_encoder(run) or load_encoder(section)
    else:
        train, validation = _split(samples, section)
        encoder = load_encoder(section)
    if isinstance(section.validation, str):
        validation = _load_split(section, section.validation)
    if test is None and data is None:
        test = _load_test(section, notify)
    channels = train.inputs.pixels.shape[1] if isinstance(train.inputs, Images) else None
    train, encoder = encode(train, encoder=with_cache(encoder, run))
    validation, test = (
        part if part is None else encode(_resize(part, recipe, section, channels), encoder=encoder)[0]
        for part in (validation, test)
    )
    if test is not None and test.classes != train.classes:
        raise ValueError(f"the classes of the test data, {test.classes}, are not those of training, {train.classes}.")
    official = isinstance(section.validation, str) and section.source in DATASETS
    prepared = PreparedData(
        train,
        validation,
        test,
        clean_validation=validation.labels if official and validation is not None else None,
        encoder=encoder,
        trusted=_trusted_mask(train, section),
        validation_is_clean=official,
        section=section,
    )
    return _add_noise(prepared, section, samples) if section.noise else prepared


def _resize(data: LabeledData, recipe: Recipe, section: DataSection, channels: int | None = None) -> LabeledData:
    """Return image files in the size of the recipe; small ones as pixels, with the channels of the training images."""
    if not isinstance(data.inputs, LazyImages):
        return data
    images = data.inputs.resize(recipe.views.resize) if recipe.views.resize else data.inputs
    if not section.pixels:
        return data.with_inputs(images)
    inputs = load_small_images(images.resize(section.pixels, "stretch"), data.ids, section.pixels)
    if isinstance(inputs, Images) and channels == 3:
        inputs = Images(inputs.pixels.expand(-1, 3, -1, -1).contiguous())
    if channels == 1 and inputs.batch(torch.arange(1)).shape[1] != 1:
        raise ValueError("the training images are gray, but some validation or test images have colors.")
    return data.with_inputs(inputs)


def _add_noise(prepared: PreparedData, section: DataSection, samples: LabeledData) -> PreparedData:
    """Add noise to the training labels and, unless the validation split is a clean one, to its labels."""
    train, validation, clean = prepared.train, prepared.validation, prepared.train.labels
    clean_validation = None if validation is None else validation.labels
    has_noisy_validation = not prepared.validation_is_clean
    record = _record_for_all(section.noise, samples, train)
    if record is not None:  # a record for the data before the split
        noisy = dict(zip(samples.ids, record.labels_for(samples.labels.numpy()).tolist(), strict=True))
        train = train.relabel([noisy[name] for name in train.ids])
        if validation is not None and has_noisy_validation:
            validation = validation.relabel([noisy[name] for name in validation.ids])
    else:
        train, record = with_noise(train, section.noise, section.noise_seed)
        if validation is not None and has_noisy_validation:
            validation, _ = with_noise(validation, section.noise, section.noise_seed + 1)
    if prepared.trusted is not None:
        train = train.relabel(clean.where(prepared.trusted, train.labels))
        if len(record.clean) == len(train):
            record = replace(record, noisy=train.labels.numpy())
    return replace(
        prepared, train=train, validation=validation, noise=record, clean=clean, clean_validation=clean_validation
    )


def _record_for_all(noise: str, samples: LabeledData, train: LabeledData) -> Corruption | None:
    """Return the noise record that a recipe names, if it is one for all samples and not for the training ones."""
    path = Path(noise).expanduser()
    if len(samples) == len(train) or not (path.suffix == ".npz" or path.is_file()):
        return None
    record = Corruption.load(path)
    return record if len(record.clean) == len(samples) else None


def _split(samples: LabeledData, section: DataSection) -> tuple[LabeledData, LabeledData | None]:
    """Hold out the validation samples, not trusted or whole groups, then draw the training samples from the rest."""
    validation = None
    if isinstance(section.validation, int | float) and (samples.trusted is None or not samples.trusted.all()):
        rows = _rows_to_hold_out(samples)
        rest = samples.take(rows)
        parts = split_rows(rest.labels, rest.groups, section.validation, section.split_seed)
        held_out = rows[parts.validation]
        is_trained = torch.ones(len(samples), dtype=torch.bool).index_fill_(0, held_out, False)
        validation = samples.take(held_out).with_metadata(split="validation", split_how=parts.metadata)
        samples = samples.take(is_trained).with_metadata(split_how=parts.metadata)
    if section.train is not None and section.train != len(samples):
        subset = stratified_split(samples.labels, section.train, section.split_seed)
        samples = samples.take(subset.validation).with_metadata(subset_how=subset.metadata)
    return samples, validation


def _rows_to_hold_out(samples: LabeledData) -> Tensor:
    """Return the rows that are not trusted; with groups all rows, since a reviewed label does not divide one."""
    if samples.trusted is None or samples.groups is not None:
        return torch.arange(len(samples))
    return (~samples.trusted).nonzero()[:, 0]


def _split_again(
    samples: LabeledData, section: DataSection, previous: GivenLabels
) -> tuple[LabeledData, LabeledData | None]:
    """Repeat a split by sample ids, in the same order; new samples are appended to the training ones."""
    row = {name: row for row, name in enumerate(samples.ids)}
    train = [row[name] for name in previous.ids if name in row]
    if section.train is None:
        previous_ids = {*previous.ids, *previous.validation_ids}
        train += [number for name, number in row.items() if name not in previous_ids]
    held_out = [row[name] for name in previous.validation_ids if name in row]
    has_held_out = held_out and isinstance(section.validation, int | float)
    return samples.take(train), samples.take(held_out) if has_held_out else None


def _load_split(section: DataSection, split: str) -> LabeledData:
    return load(section.source, root=section.root, split=split, shrink_to=section.pixels, **section.options)


def _trusted_mask(train: LabeledData, section: DataSection) -> Tensor | None:
    """Return the samples whose labels are known to be correct: a draw before noise is added, or the ids of a file."""
    if section.trusted is None:
        return train.trusted
    if isinstance(section.trusted, str):
        names = set(Path(section.trusted).expanduser().read_text().splitlines()) - {""}
        unknown = sorted(names - set(train.ids))
        if unknown:
            raise ValueError(
                f"{section.trusted} names {format_list(unknown, 'sample')} that are not in the training data; it must "
                "have one id on each line."
            )
        return torch.tensor([name in names for name in train.ids])
    if not section.noise:
        raise ValueError(
            "data.trusted is a number, but no noise is added: set it to a file with the ids of trusted samples."
        )
    trusted = torch.zeros(len(train), dtype=torch.bool)
    trusted[stratified_split(train.labels, section.trusted, section.split_seed).validation] = True
    return trusted


def _load_test(section: DataSection, notify: Callable[[str], None] | None) -> LabeledData | None:
    if not section.test:
        return None
    if section.source in DATASETS:
        return _load_split(section, section.test)
    folder = Path(section.source).expanduser()
    if folder.is_dir() and not Path(section.test).is_absolute() and (folder / section.test).exists():
        return load(folder, split=section.test, shrink_to=section.pixels, **section.options)
    if not Path(section.test).expanduser().exists():
        if section.test == DataSection.model_fields["test"].default:  # the split of built-in sets; others may lack it
            if notify is not None:
                notify(f"{section.source} has no split {section.test!r}: training without test data.")
            return None
        raise FileNotFoundError(
            f"data.test is {section.test!r}, but there is no such split or file: '' stands for none."
        )
    return load(section.test, shrink_to=section.pixels, **section.options)
