"""Noise on a data set: the record and the data that carry its labels."""

from pathlib import Path

import torch

from permll.data.record import Data
from permll.noise.corruption import Corruption, corrupt
from permll.noise.kinds import Noise
from permll.noise.presets import DATA_SETS, named_noise


def with_noise(data: Data, noise: str | Noise | Corruption | Path, seed: int = 42) -> tuple[Data, Corruption]:
    """Return the data with noisy labels, and the record of them; the labels it has are taken for the clean ones.

    Args:
        data: with clean labels.
        noise: a name (``"permll:sym:0.6"``; the map of ``asym`` follows from the data set), a ``Noise``, or a record
            that was made before, as it is or as its file. A record must have been made for these labels.
        seed: of the draws; a record has had its own.

    Examples:
        >>> from permll.data import load
        >>> noisy, record = with_noise(load("digits"), "sym:0.4", seed=0)
        >>> noisy.about["noise"]["rate"], record.rate
        (0.4, 0.399...)
    """
    if isinstance(noise, str):
        name = data.about.get("name")
        noise = named_noise(noise, data.num_classes, data_set=name if name in DATA_SETS else None, seed=seed)
    if isinstance(noise, Path):
        noise = Corruption.load(noise)
    record = corrupt(data.labels.numpy(), noise, seed) if isinstance(noise, Noise) else noise
    noisy = torch.from_numpy(record.labels_for(data.labels.numpy()))
    return data.relabel(noisy).noted(noise=record.noise, noise_hash=record.hash, noise_seed=record.seed), record
