"""Transforms of the plain view as JSON, as text, and as a module in an exported graph."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from permll.data.transforms.defaults import identity
from permll.data.transforms.image_transforms import CenterCrop, Compose, Normalize, Transform
from permll.data.transforms.vector_transforms import Standardize

Steps = Sequence[Mapping[str, Any]]


def transform_to_steps(view: Transform) -> list[dict[str, Any]]:
    """Return the steps of a plain view as JSON objects.

    Examples:
        >>> transform_to_steps(Compose(CenterCrop(24), Normalize((0.5,), (0.25,))))
        [{'step': 'center_crop', 'size': 24}, {'step': 'normalize', 'mean': [0.5], 'std': [0.25]}]
    """
    if isinstance(view, Compose):
        return [entry for step in view.steps for entry in transform_to_steps(step)]
    if view is identity:
        return []
    if isinstance(view, CenterCrop):
        return [{"step": "center_crop", "size": view.size}]
    if isinstance(view, Normalize):
        return [{"step": "normalize", "mean": list(view.mean), "std": list(view.std)}]
    if isinstance(view, Standardize):
        return [{"step": "standardize", "mean": view.mean.tolist(), "std": view.std.tolist()}]
    raise TypeError(f"{view!r} cannot be saved: a plain view consists of CenterCrop, Normalize and Standardize.")


def transform_from_steps(steps: Steps) -> Transform:
    """Undo ``transform_to_steps``."""
    views: list[Transform] = []
    for entry in steps:
        if entry["step"] == "center_crop":
            views.append(CenterCrop(entry["size"]))
        elif entry["step"] == "normalize":
            views.append(Normalize(tuple(entry["mean"]), tuple(entry["std"])))
        else:
            views.append(Standardize(torch.tensor(entry["mean"]), torch.tensor(entry["std"])))
    return Compose(*views)


def describe_steps(steps: Steps) -> str:
    """Return the steps as a sentence.

    Examples:
        >>> describe_steps([{"step": "center_crop", "size": 24}, {"step": "normalize", "mean": [0.5], "std": [0.25]}])
        'Crop the center of 24 x 24 pixels; then (value / 255 - mean) / std for each channel.'
        >>> describe_steps([])
        'None.'
    """
    texts = {
        "center_crop": "crop the center of {size} x {size} pixels",
        "normalize": "(value / 255 - mean) / std for each channel",
        "standardize": "(value - mean) / std for each column",
    }
    text = "; then ".join(texts[entry["step"]].format(**entry) for entry in steps) or "none"
    return f"{text[0].upper()}{text[1:]}."


class Preprocessing(nn.Module):
    """The steps as a module.

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
        """Return the inputs of the networks."""
        for number, entry in enumerate(self.steps):
            if entry["step"] == "center_crop":
                size = entry["size"]
                top, left = (x.shape[2] - size) // 2, (x.shape[3] - size) // 2
                x = x[:, :, top : top + size, left : left + size]
                continue
            mean, std = getattr(self, f"mean{number}"), getattr(self, f"std{number}")
            if entry["step"] == "normalize":
                mean, std = mean[:, None, None], std[:, None, None]
                x = x.to(torch.float32) * (1 / (255 * std)) - mean / std
            else:
                x = (x - mean) / std
        return x
