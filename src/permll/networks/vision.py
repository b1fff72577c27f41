"""Networks from timm and torchvision, made for any number of classes."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from permll.networks._options import options_of, refuse_unknown
from permll.networks.weights import load_weights
from permll.utils.messages import did_you_mean

Shape = tuple[int, int, int]

# What decides about classes, channels and weights is not an option: build_network is told otherwise.
_SETTLED = {
    "in_chans": "input_shape",
    "weights": "pretrained",
    "checkpoint_path": "pretrained",
    "pretrained_cfg": "pretrained",
    "pretrained_cfg_overlay": "pretrained",
}


def vision_network(
    name: str, shape: Shape, num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    """Return the network "timm:NAME" or "torchvision:NAME".

    It is tried on one black image, so that one that takes no such images, or gives no logits, is refused before
    training and not in its first step.

    Args:
        name: collection and name, with a colon between.
        shape: (C, H, W) of an image.
        num_classes: c.
        pretrained: begin with the weights its makers publish, which are downloaded once; all but the head.
        options: further arguments of the network.
    """
    for option in options:
        if option in _SETTLED:
            raise TypeError(f"{name} takes no option {option!r} here: say it with {_SETTLED[option]}.")
    make = _from_timm if name.startswith("timm:") else _from_torchvision
    try:
        net = make(name, shape, num_classes, pretrained, options)
    except TypeError:
        if options:
            plain = make(name, shape, num_classes, False, {})
            refuse_unknown(name, options, options_of(type(plain)))
        raise
    _try(net, name, shape, num_classes)
    return net


def _from_timm(name: str, shape: Shape, num_classes: int, pretrained: bool, options: Mapping[str, Any]) -> nn.Module:
    timm, own = imported("timm"), name.partition(":")[2]
    if not timm.is_model(own):
        raise unknown(name, timm.list_models())
    return timm.create_model(own, pretrained=pretrained, num_classes=num_classes, in_chans=shape[0], **options)


def _from_torchvision(
    name: str, shape: Shape, num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    models, own = imported("torchvision.models"), name.partition(":")[2]
    known = models.list_models(module=models)  # the classifiers: detection and the rest are in modules of their own
    if own not in known:
        raise unknown(name, known)
    if own in ("googlenet", "inception_v3"):
        raise ValueError(
            f"{name} gives more than logits while it trains: take one from timm, such as timm:inception_v3."
        )
    if shape[0] != 3:
        raise ValueError(f"{name} takes images of 3 channels, these have {shape[0]}: take one from timm.")
    net = models.get_model(own, weights=None, num_classes=num_classes, **options)
    if pretrained:
        # With its own weights, torchvision insists on their number of classes.
        donor = models.get_model(own, weights="DEFAULT", progress=False, **options)
        load_weights(net, donor.state_dict(), num_classes, f"torchvision's {own}")
    return net


def imported(module: str) -> Any:
    """Import timm or torchvision; one that is missing or does not load is named with what to do."""
    collection = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise ImportError(f"networks from {collection} need it installed: pip install 'permll[vision]'") from missing
    except RuntimeError as broken:  # its compiled operators did not load
        raise ImportError(
            f"torchvision was built for another torch than {torch.__version__}: install the two from the same place."
        ) from broken


def unknown(name: str, known: Iterable[str]) -> ValueError:
    """Return what to raise for a name that a collection does not have."""
    collection, _, own = name.partition(":")
    return ValueError(f"{collection} has no classifier {own!r}{did_you_mean(own, known) or '.'}")


def _try(net: nn.Module, name: str, shape: Shape, num_classes: int) -> None:
    net.eval()
    try:
        with torch.no_grad():
            out = net(torch.zeros(1, *shape))
    except Exception as problem:
        first = str(problem).partition("\n")[0].rstrip(".")
        raise ValueError(f"{name} fails on an image of shape {shape}: {first}.") from problem
    if not isinstance(out, Tensor) or out.shape != (1, num_classes):
        found = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(
            f"{name} must give logits of shape (1, {num_classes}) for one image; with these options it gives {found}."
        )
    net.train()
