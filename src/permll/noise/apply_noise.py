"""Noise on a data set: the record and the data that carry its labels."""

from pathlib import Path

import torch

from permll.data.dataset import LabeledData
from permll.noise.class_names import name_record
from permll.noise.corruption import Corruption, corrupt
from permll.noise.models import Noise
from permll.noise.presets import named_noise


def with_noise(
    data: LabeledData, noise: str | Path | Noise | Corruption, seed: int = 42
) -> tuple[LabeledData, Corruption]:
    """Return the data with noisy labels, and the record of them; the labels it has are taken for the clean ones.

    Args:
        data: with clean labels; data that this function returned are refused.
        noise: a name (``"permll:sym:0.6"``; the map of ``asym`` follows from the data set), a ``Noise``, or a record
            that was made before, as it is or as the path of its file. A record must have been made for these labels.
        seed: of the draws; a record has had its own.

    Examples:
        >>> from permll.data import load
        >>> noisy, record = with_noise(load("digits"), "sym:0.4", seed=0)
        >>> noisy.metadata["noise"]["rate"], record.rate
        (0.4, 0.399...)
    """
    if data.metadata.get("noise"):
        raise ValueError(
            f"the labels of {_name(data)} carry noise already: put more on the record with permll.noise.then(record, "
            "noise, seed), and give what it returns to with_noise, with the clean data."
        )
    record = name_record(_record(data, noise, seed), data.classes)
    noisy = torch.from_numpy(record.labels_for(data.labels.numpy()))
    return data.relabel(noisy).with_metadata(noise=record.noise, noise_hash=record.hash, noise_seed=record.seed), record


def _record(data: LabeledData, noise: str | Path | Noise | Corruption, seed: int) -> Corruption:
    if isinstance(noise, Corruption):
        return noise
    if isinstance(noise, Path) or (isinstance(noise, str) and _is_path(noise)):
        return Corruption.load(noise)
    if isinstance(noise, str):
        noise = named_noise(noise, data.num_classes, data_set=_name(data), seed=seed)
    if not isinstance(noise, Noise):
        raise TypeError(
            f"noise is a name like permll:sym:0.6, a Noise, a record or the path of one; got {noise!r:.80}."
        )
    return corrupt(data.labels.numpy(), noise, seed)


def _is_path(text: str) -> bool:
    return text.endswith(".npz") or Path(text).expanduser().is_file()


def _name(data: LabeledData) -> str:
    return str(data.metadata.get("name") or "this data set")
