"""Networks of timm and torchvision, for any number of classes."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from permll.networks._registry import check_options
from permll.networks.weights import load_weights
from permll.utils.messages import did_you_mean, first_line, install_hint

Shape = tuple[int, ...]

# Options of the libraries that arguments of build_network replace.
_REPLACED = {
    "in_chans": "input_shape",
    "weights": "pretrained",
    "checkpoint_path": "pretrained",
    "pretrained_cfg": "pretrained",
    "pretrained_cfg_overlay": "pretrained",
}


def build_vision_network(
    name: str, shape: Shape, num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    """Return the network "timm:NAME" or "torchvision:NAME".

    It is applied to one black image, so that a network for other shapes or without logits fails before training.

    Args:
        name: library and name, separated by a colon.
        shape: (C, H, W) of an image.
        num_classes: c.
        pretrained: whether to load the published weights except the head, which are downloaded once.
        options: further arguments of the network.
    """
    for option in options:
        if option in _REPLACED:
            raise TypeError(f"{name} does not take the option {option!r} here: use {_REPLACED[option]}.")
    build = _build_timm if name.startswith("timm:") else _build_torchvision
    try:
        net = build(name, shape, num_classes, pretrained, options)
    except TypeError:
        if options:
            plain = build(name, shape, num_classes, False, {})
            check_options(name, options, type(plain))
        raise
    _check_output(net, name, shape, num_classes)
    return net


def _build_timm(name: str, shape: Shape, num_classes: int, pretrained: bool, options: Mapping[str, Any]) -> nn.Module:
    timm, model = require_timm(name), name.partition(":")[2]
    return timm.create_model(model, pretrained=pretrained, num_classes=num_classes, in_chans=shape[0], **options)


def _build_torchvision(
    name: str, shape: Shape, num_classes: int, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    models, model = require_torchvision(name), name.partition(":")[2]
    if shape[0] != 3:
        raise ValueError(f"{name} takes images with 3 channels, not {shape[0]}: use a network of timm.")
    net = models.get_model(model, weights=None, num_classes=num_classes, **options)
    if pretrained:
        # torchvision accepts its weights only with their number of classes.
        donor = models.get_model(model, weights="DEFAULT", progress=False, **options)
        load_weights(net, donor.state_dict(), num_classes, f"torchvision's {model}")
    return net


def remove_head(net: nn.Module) -> nn.Module:
    """Replace the last linear layer by the identity, in place, so that the network returns the inputs of its head."""
    if callable(reset := getattr(net, "reset_classifier", None)):  # of timm
        reset(0)
    else:  # the head has the last tensor of every classifier of torchvision
        net.set_submodule([*net.state_dict()][-1].rpartition(".")[0], nn.Identity())
    return net


def require_timm(name: str) -> Any:
    """Return the package timm; raise an error if it cannot be imported or does not have the network "timm:NAME"."""
    timm = _import_library("timm")
    if not timm.is_model(name.partition(":")[2]):
        raise _unknown_model(name, timm.list_models())
    return timm


def require_torchvision(name: str) -> Any:
    """Return torchvision.models; raise an error if it cannot be imported or "torchvision:NAME" is not usable."""
    models, model = _import_library("torchvision.models"), name.partition(":")[2]
    classifiers = models.list_models(module=models)  # models of other tasks are in submodules
    if model not in classifiers:
        raise _unknown_model(name, classifiers)
    if model in ("googlenet", "inception_v3"):
        raise ValueError(f"{name} returns more than logits in training: use a network of timm, e.g. timm:inception_v3.")
    return models


def _import_library(module: str) -> Any:
    """Import timm or torchvision; raise ImportError with the remedy if this fails."""
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"networks of {library} need {library}: {install_hint('vision')}") from error
    except RuntimeError as error:  # of compiled operators
        raise ImportError(
            f"torchvision was built for another torch than {torch.__version__}: install both from the same index."
        ) from error


def _unknown_model(name: str, known: Iterable[str]) -> ValueError:
    library, _, model = name.partition(":")
    return ValueError(f"{library} has no classifier {model!r}{did_you_mean(model, known) or '.'}")


def _check_output(net: nn.Module, name: str, shape: Shape, num_classes: int) -> None:
    net.eval()
    try:
        with torch.no_grad():
            output = net(torch.zeros(1, *shape))
    except Exception as error:
        raise ValueError(f"{name} fails on an image of shape {shape}: {first_line(error)}.") from error
    if not isinstance(output, Tensor) or output.shape != (1, num_classes):
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(
            f"{name} must return logits of shape (1, {num_classes}) for one image; with these options it returns {got}."
        )
    net.train()
