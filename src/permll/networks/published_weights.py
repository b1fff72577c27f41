"""Published weights of networks of timm and torchvision: preprocessing, local caches and downloads."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from permll.networks.timm_torchvision import require_timm, require_torchvision
from permll.utils.messages import first_line

LIBRARIES = ("timm", "torchvision")
_TORCHVISION_FILES = {  # weights that timm has, too
    "timm:resnet50.tv_in1k": "resnet50-0676ba61.pth",
    "timm:resnet50.tv2_in1k": "resnet50-11ad3fa6.pth",
    "timm:resnet18.tv_in1k": "resnet18-f37072fd.pth",
}


@dataclass(frozen=True)
class PublishedWeights:
    """Published weights of a network, and the inputs that it was trained on.

    Args:
        name: "timm:NAME" or "torchvision:NAME".
        file: the weights in a local cache, or None.
        fetch: function that downloads the weights and returns name -> tensor.
        size: height and width of the images.
        mean: mean of each channel, of values in [0, 1].
        std: standard deviation of each channel.
    """

    name: str
    file: Path | None
    fetch: Callable[[], Mapping[str, Tensor]]
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def download(self) -> Mapping[str, Tensor]:
        """Download the weights; raise ValueError if this fails."""
        try:
            return self.fetch()
        except Exception as error:  # of any library underneath
            raise ValueError(
                f"the weights of {self.name} are not cached and cannot be downloaded ({first_line(error)}): pass a "
                "weights file, weights=... or --weights FILE."
            ) from error


def find_published_weights(name: str) -> PublishedWeights:
    """Return the published weights of "timm:NAME" or "torchvision:NAME".

    Of several ImageNet weights of torchvision, the newest that is cached is used, or else torchvision's default.
    """
    library, _, model = name.partition(":")
    if library not in LIBRARIES or not model:
        raise ValueError(f"a backbone is named timm:NAME or torchvision:NAME, such as timm:resnet50; got {name!r}.")
    return _find_timm(name) if library == "timm" else _find_torchvision(name)


def is_cached(name: str) -> bool:
    """Return whether a network's library can be imported and its published weights are in a local cache."""
    library, _, model = name.partition(":")
    if importlib.util.find_spec(library) is None:
        return False
    # The import of the library takes seconds, so files are searched first.
    has_file = _timm_file(name, f"timm/{model}") if library == "timm" else any(_hub_folder().glob(f"{model}*.pth"))
    if not has_file:
        return False
    try:
        return find_published_weights(name).file is not None
    except (ImportError, ValueError):  # built for another version of torch, or without this network
        return False


def _find_timm(name: str) -> PublishedWeights:
    timm, model = require_timm(name), name.partition(":")[2]
    try:
        config = timm.get_pretrained_cfg(model)
    except RuntimeError:
        known = ", ".join(timm.list_pretrained(f"{model.partition('.')[0]}.*"))
        raise ValueError(f"timm has no weights {model!r}; choose from {known}.") from None

    def fetch() -> Mapping[str, Tensor]:
        weights: Mapping[str, Tensor] = timm.create_model(model, pretrained=True).state_dict()
        return weights

    file = _timm_file(name, config.hf_hub_id)
    return PublishedWeights(name, file, fetch, config.input_size[-1], tuple(config.mean), tuple(config.std))


def _find_torchvision(name: str) -> PublishedWeights:
    published: Any = require_torchvision(name).get_model_weights(name.partition(":")[2])
    # Other weights, such as IMAGENET1K_SWAG_E2E_V1, are for networks of another image size.
    versions = [version for version in published if version.name.startswith("IMAGENET1K_V")]
    version = next((version for version in reversed(versions) if _hub_file(version.url)), published.DEFAULT)
    inputs = version.transforms()

    def fetch() -> Mapping[str, Tensor]:
        return torch.hub.load_state_dict_from_url(version.url, progress=False, check_hash=True, weights_only=True)

    file = _hub_file(version.url)
    return PublishedWeights(name, file, fetch, inputs.crop_size[0], tuple(inputs.mean), tuple(inputs.std))


def _timm_file(name: str, repository: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache  # comes with timm

    cached = try_to_load_from_cache(repository, "model.safetensors") if repository else None
    if isinstance(cached, str):
        return Path(cached)
    return _hub_file(_TORCHVISION_FILES[name]) if name in _TORCHVISION_FILES else None


def _hub_file(url: str) -> Path | None:
    """Return the file in the cache of torch.hub, if it is there."""
    file = _hub_folder() / url.rpartition("/")[2]
    return file if file.is_file() else None


def _hub_folder() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints"
