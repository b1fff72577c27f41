"""The plain view written down: as JSON, in words, and as a module that goes into an exported graph."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from permll.data.transforms.defaults import identity
from permll.data.transforms.image_transforms import CenterCrop, Compose, Normalize, Transform
from permll.data.transforms.vector_transforms import Standardize

Steps = Sequence[Mapping[str, Any]]


def steps_of(view: Transform) -> list[dict[str, Any]]:
    """Return the steps of a plain view as JSON holds them.

    Examples:
        >>> steps_of(Compose(CenterCrop(24), Normalize((0.5,), (0.25,))))
        [{'step': 'centre_crop', 'size': 24}, {'step': 'normalise', 'mean': [0.5], 'std': [0.25]}]
    """
    if isinstance(view, Compose):
        return [entry for step in view.steps for entry in steps_of(step)]
    if view is identity:
        return []
    if isinstance(view, CenterCrop):
        return [{"step": "centre_crop", "size": view.size}]
    if isinstance(view, Normalize):
        return [{"step": "normalise", "mean": list(view.mean), "std": list(view.std)}]
    if isinstance(view, Standardize):
        return [{"step": "standardise", "mean": view.mean.tolist(), "std": view.std.tolist()}]
    raise TypeError(f"{view!r} cannot be written down: a plain view is made of CenterCrop, Normalize and Standardize.")


def view_of(steps: Steps) -> Transform:
    """Undo ``steps_of``."""
    views: list[Transform] = []
    for entry in steps:
        if entry["step"] == "centre_crop":
            views.append(CenterCrop(entry["size"]))
        elif entry["step"] == "normalise":
            views.append(Normalize(tuple(entry["mean"]), tuple(entry["std"])))
        else:
            views.append(Standardize(torch.tensor(entry["mean"]), torch.tensor(entry["std"])))
    return Compose(*views)


def in_words(steps: Steps) -> str:
    """Return the steps as a sentence; their numbers stand in ``steps``.

    Examples:
        >>> in_words([{"step": "centre_crop", "size": 24}, {"step": "normalize", "mean": [0.5], "std": [0.25]}])
        'Take the middle 24 x 24 pixels; then (value / 255 - mean) / std for each channel.'
        >>> in_words([])
        'None: samples are taken as they are.'
    """
    if not steps:
        return "None: samples are taken as they are."
    words = {
        "centre_crop": "take the middle {size} x {size} pixels",
        "normalise": "(value / 255 - mean) / std for each channel",
        "standardise": "(value - mean) / std for each column",
    }
    said = "; then ".join(words[entry["step"]].format(**entry) for entry in steps)
    return f"{said[0].upper()}{said[1:]}."


class Preprocessing(nn.Module):
    """The steps as a module, for graphs that are used without permll.

    Examples:
        >>> module = Preprocessing([{"step": "normalize", "mean": [0.5], "std": [0.25]}])
        >>> module(torch.zeros(1, 1, 2, 2, dtype=torch.uint8)).unique()
        tensor([-2.])
    """

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = [dict(entry) for entry in steps]
        for number, entry in enumerate(self.steps):
            for name in ("mean", "std"):
                if name in entry:
                    self.register_buffer(f"{name}{number}", torch.tensor(entry[name]))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the networks take."""
        for number, entry in enumerate(self.steps):
            if entry["step"] == "centre_crop":
                size = entry["size"]
                top, left = (x.shape[2] - size) // 2, (x.shape[3] - size) // 2
                x = x[:, :, top : top + size, left : left + size]
                continue
            mean, std = getattr(self, f"mean{number}"), getattr(self, f"std{number}")
            if entry["step"] == "normalise":
                mean, std = mean[:, None, None], std[:, None, None]
                x = x.to(torch.float32) * (1 / (255 * std)) - mean / std
            else:
                x = (x - mean) / std
        return x
