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
from permll.networks.timm_torchvision import import_library, unknown_model
from permll.networks.weights import load_weights, read_weights
from permll.utils.messages import first_line

PREFIX = "timm:"
PREFERRED_BACKBONES = (  # in this order: good features in a short time
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
DOWNLOAD_MB = 88  # of the first one
_TORCHVISION_FILES = {  # the same weights in torchvision's cache
    "resnet50.tv_in1k": "resnet50-0676ba61.pth",
    "resnet50.tv2_in1k": "resnet50-11ad3fa6.pth",
    "resnet18.tv_in1k": "resnet18-f37072fd.pth",
}
_BATCH_SIZE = 32
_NUM_CLASSES = 2  # of the temporary head while weights are loaded


@dataclass(frozen=True, eq=False, repr=False)
class Backbone:
    """Encoder from images to ``Vectors``: the inputs of the head of a pretrained network.

    Args:
        name: "timm:NAME".
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
            name: "timm:NAME", NAME as in ``timm.list_pretrained()``, or without the part after the dot.
            weights: .safetensors file, or a saved state dict; its head is not used.
        """
        model = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or not model:
            raise ValueError(f"the name of a backbone must be timm:NAME, such as timm:resnet50; got {name!r}.")
        timm = import_library("timm")
        if not timm.is_model(model):
            raise unknown_model(name, timm.list_models())
        try:
            published = timm.get_pretrained_cfg(model)
        except RuntimeError:
            known = ", ".join(timm.list_pretrained(f"{model.partition('.')[0]}.*"))
            raise ValueError(f"timm has no weights {model!r}; choose from {known}.") from None
        file = weights or _cached_file(getattr(published, "hf_hub_id", None) or "", model)
        net = timm.create_model(model, num_classes=_NUM_CLASSES) if file else _download(timm, name)
        if file:
            load_weights(net, read_weights(file), _NUM_CLASSES, str(file))
        net.reset_classifier(0)
        config = net.pretrained_cfg
        return cls(name, net.state_dict(), config["input_size"][-1], tuple(config["mean"]), tuple(config["std"]))

    @cached_property
    def _network(self) -> nn.Module:
        net: nn.Module = import_library("timm").create_model(self.name.removeprefix(PREFIX), num_classes=0)
        try:
            net.load_state_dict(self.weights)
        except RuntimeError:
            raise ValueError(
                f"{self.name} has other layers in this version of timm: install the version that the run used."
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
    model = PREFERRED_BACKBONES[0]
    about = f"{PREFIX}{model} ({DOWNLOAD_MB} MB, once); --backbone none trains on pixels instead"
    return find_cached_backbone() if download(f"timm/{model}", ["model.safetensors"], about, notify) else None


def find_cached_backbone() -> str | None:
    """Return the first of ``PREFERRED_BACKBONES`` with cached weights, as "timm:NAME", or None.

    The caches of Hugging Face and torchvision are searched; nothing is downloaded.
    """
    if importlib.util.find_spec("timm") is None:
        return None
    model = next((model for model in PREFERRED_BACKBONES if _cached_file(f"timm/{model}", model)), None)
    try:
        return PREFIX + model if model and import_library("timm").is_model(model) else None
    except ImportError:  # torchvision was built for another torch
        return None


def _cached_file(repository: str, model: str) -> Path | None:
    """Return the cached weights file, if there is one."""
    from huggingface_hub import try_to_load_from_cache  # comes with timm

    cached = try_to_load_from_cache(repository, "model.safetensors") if repository else None
    if isinstance(cached, str):
        return Path(cached)
    file = Path(torch.hub.get_dir()) / "checkpoints" / _TORCHVISION_FILES.get(model, "")
    return file if file.is_file() else None


def _download(timm: Any, name: str) -> Any:
    try:
        return timm.create_model(name.removeprefix(PREFIX), pretrained=True)
    except Exception as error:  # of any library underneath
        raise ValueError(
            f"the weights of {name} are not cached and cannot be downloaded ({first_line(error)}): pass a weights "
            "file, weights=... or --weights FILE."
        ) from error


def _pixels(inputs: Images | LazyImages, rows: Tensor, size: int) -> Tensor:
    """Return pixels (B, 3, size, size) with values in 0..255."""
    if isinstance(inputs, LazyImages):
        return inputs.resize(size, "stretch").batch(rows)
    pixels = inputs.batch(rows)
    if pixels.shape[1] not in (1, 3):
        raise ValueError(f"a backbone takes images with 1 or 3 channels, not {pixels.shape[1]}.")
    pixels = pixels.expand(-1, 3, -1, -1).float()
    return nn.functional.interpolate(pixels, size=(size, size), mode="bilinear", antialias=True)
