"""Image features of a frozen pretrained network: one that is named, one in a local cache, or a downloaded default."""

import importlib.util
import json
from collections.abc import Callable, Mapping
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
from permll.networks.pretrained_files import download
from permll.networks.published_weights import find_published_weights, is_cached
from permll.networks.timm_torchvision import build_vision_network, remove_head
from permll.networks.weights import load_weights, read_weights

PREFERRED_BACKBONES = (  # in this order: good features in a short time
    "timm:vit_small_patch16_224.augreg_in21k_ft_in1k",
    "timm:convnext_tiny.in12k_ft_in1k",
    "timm:resnet50.tv_in1k",
    "timm:resnet50.tv2_in1k",
    "timm:resnet50.a1_in1k",
    "timm:resnet18.tv_in1k",
    "timm:resnet18.a1_in1k",
    "timm:efficientnet_b0.ra_in1k",
    "timm:mobilenetv3_large_100.ra_in1k",
    "torchvision:convnext_tiny",
    "torchvision:resnet101",
    "torchvision:resnet34",
    "torchvision:efficientnet_b0",
    "torchvision:mobilenet_v3_large",
    "torchvision:mobilenet_v2",
)
DOWNLOAD_MB = 88  # of the first one
_BATCH_SIZE = 32
_NUM_CLASSES = 2  # of the temporary head while weights are loaded


@dataclass(frozen=True, eq=False, repr=False)
class Backbone:
    """Encoder from images to ``Vectors``: the inputs of the head of a pretrained network.

    Args:
        name: "timm:NAME" or "torchvision:NAME".
        weights: name -> tensor, without the head.
        size: height and width of the network's inputs; images are resized to it, without keeping their aspect ratio.
        mean: mean of each channel, of values in [0, 1].
        std: standard deviation of each channel.
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
        """Return a backbone with the weights of a file; default the published weights, downloaded if necessary.

        Args:
            name: "timm:NAME", NAME as in ``timm.list_pretrained()``, or without the part after the dot; or
                "torchvision:NAME", NAME as in ``torchvision.models.list_models()``.
            weights: .safetensors file, or a saved state dict; its head is not used.
        """
        published = find_published_weights(name)
        file = weights or published.file
        net = _build(name, published.size)
        load_weights(net, read_weights(file) if file else published.download(), _NUM_CLASSES, str(file or name))
        return cls(name, remove_head(net).state_dict(), published.size, published.mean, published.std)

    @cached_property
    def _network(self) -> nn.Module:
        net = remove_head(_build(self.name, self.size))
        try:
            net.load_state_dict(self.weights)
        except RuntimeError:
            library = self.name.partition(":")[0]
            raise ValueError(
                f"{self.name} has other layers in this version of {library}: install the version that the run used."
            ) from None
        return net.eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of grayscale or color images of any size."""
        if not isinstance(inputs, Images | LazyImages):
            raise TypeError(f"{self.name} takes images, it cannot encode {inputs!r}.")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network = self._network.to(device)
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        features = []
        for rows in torch.arange(len(inputs)).split(_BATCH_SIZE):
            pixels = _pixels(inputs, rows, self.size)
            features.append(network(((pixels / 255 - mean) / std).to(device)).float().cpu())
        return Vectors(torch.cat(features))

    def to_arrays(self) -> Arrays:
        """Return the backbone as arrays, with its weights."""
        about = {"kind": self.kind, "name": self.name, "size": self.size, "mean": self.mean, "std": self.std}
        return {"about": json_to_array(about)} | {
            f"weights/{key}": value.numpy() for key, value in self.weights.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Backbone":
        """Return the backbone that ``to_arrays`` saved."""
        about = json.loads(arrays["about"].tobytes())
        weights = {
            key.removeprefix("weights/"): torch.from_numpy(np.array(value))
            for key, value in arrays.items()
            if key.startswith("weights/")
        }
        return cls(about["name"], weights, about["size"], tuple(about["mean"]), tuple(about["std"]))


def default_backbone(notify: Callable[[str], None] | None = None) -> str | None:
    """Return ``find_cached_backbone``; else the first of ``PREFERRED_BACKBONES``, downloaded once; else None.

    Args:
        notify: called with a sentence before a download.
    """
    if found := find_cached_backbone():
        return found
    if importlib.util.find_spec("timm") is None:
        return None
    name = PREFERRED_BACKBONES[0]
    about = f"{name} ({DOWNLOAD_MB} MB, once); --backbone none trains on pixels instead"
    downloaded = download(name.replace(":", "/"), ["model.safetensors"], about, notify)
    return find_cached_backbone() if downloaded else None


def find_cached_backbone() -> str | None:
    """Return the first of ``PREFERRED_BACKBONES`` with weights in the caches of Hugging Face and torch.hub, or None."""
    return next((name for name in PREFERRED_BACKBONES if is_cached(name)), None)


def _build(name: str, size: int) -> nn.Module:
    return build_vision_network(name, (3, size, size), _NUM_CLASSES, pretrained=False, options={})


def _pixels(inputs: Images | LazyImages, rows: Tensor, size: int) -> Tensor:
    """Return pixels (B, 3, size, size) with values in 0..255."""
    if isinstance(inputs, LazyImages):
        return inputs.resize(size, "stretch").batch(rows)
    pixels = inputs.batch(rows)
    if pixels.shape[1] not in (1, 3):
        raise ValueError(f"a backbone takes images with 1 or 3 channels, not {pixels.shape[1]}.")
    pixels = pixels.expand(-1, 3, -1, -1).float()
    return nn.functional.interpolate(pixels, size=(size, size), mode="bilinear", antialias=True)
