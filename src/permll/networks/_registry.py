"""Every network by name, and the one way to build it: classes, input and seed decide, and nothing else.

Listing the networks imports nothing that is heavy; a network's code is named as "module:function" and imported when it
is built.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from permll.networks._options import options_of, refuse_unknown
from permll.utils.messages import did_you_mean

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class NetworkInfo:
    """What is known about a built-in network before its code is imported.

    Args:
        name: what to call it on the command line and in recipes.
        description: in a few words; parameters are counted for ten classes of colour images.
        inputs: what it takes, ``"vectors"`` (images too, flattened) or ``"images"``.
        build: "module:function" of ``build(inputs, num_classes, **options)``, inputs being features or channels.
    """

    name: str
    description: str
    inputs: Literal["vectors", "images"]
    build: str

    def load(self) -> Callable[..., "nn.Module"]:
        """Import and return the function that ``build`` names."""
        module, function = self.build.split(":")
        return getattr(importlib.import_module(module), function)


NETWORKS: Mapping[str, NetworkInfo] = {
    info.name: info
    for info in (
        NetworkInfo("mlp", "fully connected, two hidden layers", "vectors", "permll.networks.mlp:MLP"),
        NetworkInfo("cnn", "three convolutions, 95 thousand parameters", "images", "permll.networks.cnn:SmallCNN"),
        NetworkInfo("resnet8", "thin ResNet, 78 thousand parameters", "images", "permll.networks.resnet:resnet8"),
        NetworkInfo("resnet32", "thin ResNet, 0.47 million parameters", "images", "permll.networks.resnet:resnet32"),
        NetworkInfo("resnet18", "ResNet, 11.2 million parameters", "images", "permll.networks.resnet:resnet18"),
        NetworkInfo("resnet34", "ResNet, 21.3 million parameters", "images", "permll.networks.resnet:resnet34"),
        NetworkInfo(
            "preact_resnet18",
            "pre-activation ResNet, 11.2 million parameters",
            "images",
            "permll.networks.preact:preact_resnet18",
        ),
        NetworkInfo(
            "preact_resnet18_dividemix",
            "the form of it in DivideMix's code, 11.2 million parameters",
            "images",
            "permll.networks.preact:preact_resnet18_dividemix",
        ),
        NetworkInfo(
            "preact_resnet32",
            "thin pre-activation ResNet, 0.47 million parameters",
            "images",
            "permll.networks.preact:preact_resnet32",
        ),
        NetworkInfo(
            "wide_resnet16_8",
            "wide pre-activation ResNet, 11.0 million parameters",
            "images",
            "permll.networks.preact:wide_resnet16_8",
        ),
        NetworkInfo("cnn7", "JoCoR's, 0.52 million parameters", "images", "permll.networks.plain:CNN7"),
        NetworkInfo("cnn9", "Co-teaching's, 4.4 million parameters", "images", "permll.networks.plain:CNN9"),
    )
}


def build_network(
    name: str,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    seed: int,
    pretrained: bool | str | Path = False,
    **options: Any,
) -> "nn.Module":
    """Return a network that turns a batch of inputs into logits (B, c), on the CPU and in training mode.

    Its weights depend on the seed and on no random number drawn elsewhere, nor do they change the next one.

    Args:
        name: one of ``NETWORKS``, or "timm:NAME" or "torchvision:NAME" (``pip install 'permll[vision]'``).
        input_shape: of one sample, (F,) or (C, H, W).
        num_classes: c.
        seed: what the initial weights are drawn from.
        pretrained: a file of weights to begin with; True for those that timm or torchvision download. A head for
            another number of classes is left out.
        options: what else the network takes, such as ``widths`` of "mlp".

    Examples:
        >>> net = build_network("mlp", input_shape=(4,), num_classes=3, seed=0, widths=(16,))
        >>> net.head
        Linear(in_features=16, out_features=3, bias=True)
        >>> build_network("resent18", input_shape=(3, 32, 32), num_classes=10, seed=0)
        Traceback (most recent call last):
        ValueError: 'resent18' is no network, did you mean resnet18? There are mlp, cnn, resnet8, ...
    """
    import torch

    shape = _read_shape(input_shape)
    for word, number, least in (("num_classes", num_classes, 2), ("seed", seed, 0)):
        if not _is_whole(number, least):
            raise ValueError(f"{word} must be a whole number, at least {least}, got {number!r}.")
    if not isinstance(pretrained, bool | str | Path):
        raise TypeError(f"pretrained must be True, False or a path, got {pretrained!r}.")
    build = _vision if name.partition(":")[0] in ("timm", "torchvision") else _built_in
    # Neither the caller's device nor, as torch.manual_seed would, the generators of other devices come into it.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(int(seed))
        net = build(name, shape, int(num_classes), pretrained is True, options)
    if not isinstance(pretrained, bool):
        from permll.networks.weights import load_weights, read_weights

        load_weights(net, read_weights(pretrained), int(num_classes), str(pretrained))
    return net


def _built_in(
    name: str, shape: tuple[int, ...], num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> "nn.Module":
    if name not in NETWORKS:
        hint = did_you_mean(name, NETWORKS) or "."
        raise ValueError(
            f"{name!r} is no network{hint} There are {', '.join(NETWORKS)}, and timm:NAME and torchvision:NAME."
        )
    info = NETWORKS[name]
    if pretrained:
        raise ValueError(f"there are no published weights for {name}: give pretrained a file, or take one from timm.")
    if info.inputs == "images":
        _check_images(name, shape)
    build = info.load()
    refuse_unknown(name, options, options_of(build))
    return build(prod(shape) if info.inputs == "vectors" else shape[0], num_classes, **options)


def _vision(
    name: str, shape: tuple[int, ...], num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> "nn.Module":
    from permll.networks.vision import vision_network

    _check_images(name, shape)
    channels, height, width = shape
    return vision_network(name, (channels, height, width), num_classes, pretrained, options)


def _check_images(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3:
        raise ValueError(f"{name} takes images of shape (C, H, W), these are vectors of {shape[0]} numbers: take mlp.")


def _read_shape(input_shape: tuple[int, ...]) -> tuple[int, ...]:
    shape = tuple(input_shape) if isinstance(input_shape, tuple | list) else ()
    if len(shape) not in (1, 3) or not all(_is_whole(size, 1) for size in shape):
        raise ValueError(f"input_shape must be (F,) or (C, H, W), whole numbers from 1; got {input_shape!r}.")
    return tuple(int(size) for size in shape)


def _is_whole(number: object, least: int) -> bool:
    return isinstance(number, Integral) and int(number) >= least
