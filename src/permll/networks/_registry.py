"""Registry of the networks, by name. The module of a network is imported when it is built."""

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from permll.utils.messages import did_you_mean, unknown_name

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class NetworkInfo:
    """Metadata of a built-in network.

    Args:
        name: name on the command line and in recipes.
        description: a few words; parameters are those for ten classes of color images.
        inputs: kind of inputs: ``"vectors"`` (also images, flattened) or ``"images"``.
        import_path: "module:function" of ``build(size, num_classes, **options)``, where size is the number of features
            or channels.
    """

    name: str
    description: str
    inputs: Literal["vectors", "images"]
    import_path: str

    def load(self) -> Callable[..., "nn.Module"]:
        """Import and return the function or class that builds the network."""
        module, function = self.import_path.split(":")
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
            "DivideMix's pre-activation ResNet, 11.2 million parameters",
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
        NetworkInfo("cnn7", "JoCoR's CNN, 0.52 million parameters", "images", "permll.networks.cnn:CNN7"),
        NetworkInfo("cnn9", "Co-teaching's CNN, 4.4 million parameters", "images", "permll.networks.cnn:CNN9"),
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
    """Return a network with logits (B, c) as outputs, on the CPU and in training mode.

    The initial weights depend on ``seed`` only, and the global random state does not change.

    Args:
        name: one of ``NETWORKS``, "timm:NAME" or "torchvision:NAME" (``pip install 'permll[vision]'``).
        input_shape: shape of a sample, (F,) or (C, H, W).
        num_classes: c.
        seed: seed of the initial weights.
        pretrained: weights file, or True to download the weights of timm or torchvision. A head for another number of
            classes is not loaded.
        options: further options of the network, such as ``widths`` of "mlp".

    Examples:
        >>> net = build_network("mlp", input_shape=(4,), num_classes=3, seed=0, widths=(16,))
        >>> net.head
        Linear(in_features=16, out_features=3, bias=True)
        >>> build_network("resent18", input_shape=(3, 32, 32), num_classes=10, seed=0)
        Traceback (most recent call last):
        ValueError: unknown network 'resent18', did you mean resnet18? Choose from mlp, cnn, resnet8, ...
    """
    import torch

    shape = _check_shape(input_shape)
    for argument, number, minimum in (("num_classes", num_classes, 2), ("seed", seed, 0)):
        if not _is_integer(number, minimum):
            raise ValueError(f"{argument} must be an integer >= {minimum}, got {number!r}.")
    if not isinstance(pretrained, bool | str | Path):
        raise TypeError(f"pretrained must be True, False or a path, got {pretrained!r}.")
    is_vision = name.partition(":")[0] in ("timm", "torchvision")
    if not is_vision and name not in NETWORKS:
        raise ValueError(unknown_name("network", name, [*NETWORKS, "timm:NAME", "torchvision:NAME"]))
    if len(shape) != 3 and (is_vision or NETWORKS[name].inputs == "images"):
        raise ValueError(f"{name} takes images of shape (C, H, W), not vectors of {shape[0]} features: use mlp.")
    # Independent of the caller's default device; torch.manual_seed would also seed other devices.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(int(seed))
        if is_vision:
            from permll.networks.timm_torchvision import build_vision_network

            net = build_vision_network(name, shape, int(num_classes), pretrained is True, options)
        else:
            net = _build_built_in(NETWORKS[name], shape, int(num_classes), pretrained is True, options)
    if not isinstance(pretrained, bool):
        from permll.networks.weights import load_weights, read_weights

        load_weights(net, read_weights(pretrained), int(num_classes), str(pretrained))
    return net


def check_options(network: str, options: Iterable[str], build: Callable[..., Any]) -> None:
    """Raise TypeError for the first of ``options`` that is not a parameter of ``build`` with a default.

    Examples:
        >>> check_options("sort", ["revers"], sorted)
        Traceback (most recent call last):
        TypeError: sort has no option 'revers', did you mean reverse? It takes key, reverse.
    """
    parameters = inspect.signature(build).parameters.values()
    known = [one.name for one in parameters if one.default is not one.empty]
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) or "."
            raise TypeError(f"{network} has no option {option!r}{hint} It takes {', '.join(known) or 'none'}.")


def _build_built_in(
    info: NetworkInfo, shape: tuple[int, ...], num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> "nn.Module":
    if pretrained:
        raise ValueError(f"{info.name} has no published weights: set pretrained to a file, or use a network of timm.")
    build = info.load()
    check_options(info.name, options, build)
    return build(prod(shape) if info.inputs == "vectors" else shape[0], num_classes, **options)


def _check_shape(input_shape: tuple[int, ...]) -> tuple[int, ...]:
    shape = tuple(input_shape) if isinstance(input_shape, tuple | list) else ()
    if len(shape) not in (1, 3) or not all(_is_integer(size, 1) for size in shape):
        raise ValueError(f"input_shape must be (F,) or (C, H, W) with integers >= 1; got {input_shape!r}.")
    return tuple(int(size) for size in shape)


def _is_integer(number: object, minimum: int) -> bool:
    return isinstance(number, Integral) and int(number) >= minimum
