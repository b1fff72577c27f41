"""A pretrained network that stays as it is: what it sees in an image, as a vector.

Nothing is downloaded unless a backbone is asked for by name: ``at_hand`` only looks at what is there already.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from permll.data.encoding import Arrays, json_to_array
from permll.data.inputs import Images, Inputs, LazyImages, Vectors
from permll.networks.vision import imported, unknown
from permll.networks.weights import load_weights, read_weights

TIMM = "timm:"
GOOD = (  # looked for in this order: what gives good features in a short time
    "vit_small_patch16_224.augreg_in21k_ft_in1k",
    "convnext_tiny.in12k_ft_in1k",
    "resnet50.tv_in1k",
    "resnet50.tv2_in1k",
    "resnet50.a1_in1k",
    "resnet18.tv_in1k",
    "resnet18.a1_in1k",
    "efficientnet_b0.ra_in1k",
    "mobilenetv3_large_100.ra_in1k",
)
_TORCHVISION = {  # what torchvision calls the same weights where it keeps them
    "resnet50.tv_in1k": "resnet50-0676ba61.pth",
    "resnet50.tv2_in1k": "resnet50-11ad3fa6.pth",
    "resnet18.tv_in1k": "resnet18-f37072fd.pth",
}
_BATCH = 32
_CLASSES = 2  # of a head that is put on to read weights, and taken off again


@dataclass(frozen=True, eq=False, repr=False)
class Backbone:
    """From images to ``Vectors``: what the head of a pretrained network would see.

    Args:
        name: "timm:NAME".
        weights: name -> tensor, without a head.
        size: pixels of a side that it takes; images are stretched to it.
        mean: of each channel, of values from 0 to 1.
        std: of each channel.
    """

    kind: ClassVar[str] = "backbone"
    takes: ClassVar[str] = "images"
    name: str
    weights: Mapping[str, Tensor]
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __repr__(self) -> str:
        return f"Backbone {self.name}"

    @classmethod
    def load(cls, name: str, weights: Path | str | None = None) -> "Backbone":
        """Return a backbone with the weights of a file; without one, those its makers publish, downloaded if need be.

        Args:
            name: "timm:NAME", NAME as ``timm.list_pretrained()`` has it, or without the part after the dot.
            weights: a .safetensors file, or a saved state dict; its head is left out.
        """
        own = name.removeprefix(TIMM)
        if not name.startswith(TIMM) or not own:
            raise ValueError(f"a backbone is named timm:NAME, like timm:resnet50; got {name!r}.")
        timm = imported("timm")
        if not timm.is_model(own):
            raise unknown(name, timm.list_models())
        try:
            published = timm.get_pretrained_cfg(own)
        except RuntimeError:
            there = ", ".join(timm.list_pretrained(f"{own.partition('.')[0]}.*"))
            raise ValueError(f"timm has no weights called {own!r}: there are {there}.") from None
        file = weights or _cached(getattr(published, "hf_hub_id", None) or "", own)
        net = timm.create_model(own, num_classes=_CLASSES) if file else _downloaded(timm, name)
        if file:
            load_weights(net, read_weights(file), _CLASSES, str(file))
        net.reset_classifier(0)
        about = net.pretrained_cfg
        return cls(name, net.state_dict(), about["input_size"][-1], tuple(about["mean"]), tuple(about["std"]))

    @cached_property
    def _network(self) -> nn.Module:
        net: nn.Module = imported("timm").create_model(self.name.removeprefix(TIMM), num_classes=0)
        try:
            net.load_state_dict(self.weights)
        except RuntimeError:
            raise ValueError(f"{self.name} is another network in this version of timm: install that of then.") from None
        return net.eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of images of any size, grey or in colour."""
        if not isinstance(inputs, Images | LazyImages):
            raise TypeError(f"{self.name} takes images, it cannot encode {inputs!r}.")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network = self._network.to(device)
        mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (self.mean, self.std))
        found = []
        for rows in torch.arange(len(inputs)).split(_BATCH):
            pixels = _pixels(inputs, rows, self.size)
            found.append(network(((pixels / 255 - mean) / std).to(device)).float().cpu())
        return Vectors(torch.cat(found))

    def to_arrays(self) -> Arrays:
        """Return the backbone as arrays, weights and all: a run needs no file but its own."""
        about = {"kind": self.kind, "name": self.name, "size": self.size, "mean": self.mean, "std": self.std}
        return {"about": json_to_array(about)} | {
            f"weights/{key}": value.numpy() for key, value in self.weights.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Backbone":
        """Return the backbone that was saved."""
        about = json.loads(arrays["about"].tobytes())
        weights = {
            key.removeprefix("weights/"): torch.from_numpy(np.array(value))
            for key, value in arrays.items()
            if key.startswith("weights/")
        }
        return cls(about["name"], weights, about["size"], tuple(about["mean"]), tuple(about["std"]))


def at_hand() -> str | None:
    """Return the first of ``GOOD``, as "timm:NAME", whose weights are on this machine and can be used; or None.

    It looks where Hugging Face and torchvision keep what was downloaded earlier, and asks no network.
    """
    if importlib.util.find_spec("timm") is None:
        return None
    found = next((own for own in GOOD if _cached(f"timm/{own}", own)), None)
    try:
        return TIMM + found if found and imported("timm").is_model(found) else None
    except ImportError:  # a torchvision for another torch
        return None


def _cached(repository: str, own: str) -> Path | None:
    """Return the file of weights that was downloaded earlier, if any."""
    from huggingface_hub import try_to_load_from_cache  # comes with timm

    there = try_to_load_from_cache(repository, "model.safetensors") if repository else None
    if isinstance(there, str):
        return Path(there)
    file = Path(torch.hub.get_dir()) / "checkpoints" / _TORCHVISION.get(own, "")
    return file if file.is_file() else None


def _downloaded(timm: Any, name: str) -> Any:
    try:
        return timm.create_model(name.removeprefix(TIMM), pretrained=True)
    except Exception as problem:  # every library of networks fails in its own way
        reason = str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__
        raise ValueError(
            f"the weights of {name} are not on this machine and cannot be downloaded ({reason}): give a file of them, "
            "weights=... or --weights FILE."
        ) from problem


def _pixels(inputs: Images | LazyImages, rows: Tensor, size: int) -> Tensor:
    """Return (B, 3, size, size), values from 0 to 255."""
    if isinstance(inputs, LazyImages):
        return inputs.resize(size, "stretch").batch(rows)
    pixels = inputs.batch(rows)
    if pixels.shape[1] not in (1, 3):
        raise ValueError(f"a backbone takes images in grey or colour, these have {pixels.shape[1]} channels.")
    pixels = pixels.expand(-1, 3, -1, -1).float()
    return nn.functional.interpolate(pixels, size=(size, size), mode="bilinear", antialias=True)
