"""Model card of a run: architecture, classes, preprocessing and inputs of its networks, and their encoder."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from permll._version import __version__
from permll.data.encoding import Encoder
from permll.data.readers.input_spec import InputSpec
from permll.distributed.network import DistributedNetwork
from permll.methods._base import Method
from permll.training.export.transforms import transform_to_steps
from permll.training.feature_cache import encoder_from_arrays
from permll.training.run import Run
from permll.utils.files import atomic_write, atomic_write_text

if TYPE_CHECKING:
    from permll.training.data_preparation import PreparedData
    from permll.training.trainer import Trainer

MODEL_CARD, ENCODER = "network.json", "encoder.npz"


def write_model_card(run: Run, trainer: "Trainer", prepared: "PreparedData") -> None:
    """Write ``network.json`` and, with an encoder, ``encoder.npz``: all that inference needs beside the weights."""
    recipe, view, inputs = run.recipe, trainer.views["plain"], prepared.train.inputs
    resized = {"image_size": recipe.data.pixels} if recipe.data.pixels else {}
    input_spec = InputSpec.of(prepared.train, prepared.encoder, recipe.data.options | resized)
    shape = view(inputs.batch(torch.arange(1)), torch.arange(1)).shape[1:]
    settings = {key: value for key, value in recipe.network.settings.items() if key != "pretrained"}
    card = {
        "permll": __version__,
        "method": recipe.method.name,
        "networks": list(trainer.method.network_names),
        "network": {"name": recipe.network.name, "options": settings, "class": _network_class(trainer.method)},
        "classes": list(prepared.train.classes),
        "input_shape": list(shape),
        "view": transform_to_steps(view),
        "input_spec": input_spec.to_dict(),
    }
    if prepared.encoder is not None:
        with atomic_write(run.folder / ENCODER) as file:
            np.savez(file, **prepared.encoder.to_arrays())  # type: ignore[arg-type]
    atomic_write_text(run.folder / MODEL_CARD, json.dumps(card, indent=2) + "\n")


def read_model_card(run: Run) -> dict[str, Any]:
    """Return the content of ``network.json``."""
    run.check_format()
    run.check_trained()
    if (estimator := run.recipe.estimator) is not None:
        raise FileNotFoundError(
            f"{run.folder} has no network, since {estimator.name} checked its labels: permll train --data DATA trains "
            "one, best on the corrected data."
        )
    if not (run.folder / MODEL_CARD).is_file():
        raise FileNotFoundError(
            f"{run.folder} has no {MODEL_CARD}: permll train {run.folder} writes it if the run is not finished; "
            "otherwise train it again."
        )
    return json.loads((run.folder / MODEL_CARD).read_text())


def read_encoder(run: Run) -> Encoder | None:
    """Return the encoder of texts, tables or images of a run, None if it has none."""
    if not (run.folder / ENCODER).is_file():
        return None
    with np.load(run.folder / ENCODER, allow_pickle=False) as arrays:
        return encoder_from_arrays(dict(arrays))


def class_name(network: nn.Module | type[nn.Module]) -> str:
    """Return the class of a network with its module."""
    kind = network if isinstance(network, type) else type(network)
    return f"{kind.__module__}.{kind.__qualname__}"


def _network_class(method: Method) -> str:
    from lightning_fabric.wrappers import _FabricModule

    network = next(iter(method.networks.values()))
    if isinstance(network, DistributedNetwork):
        return class_name(network.kind)
    return class_name(network.module if isinstance(network, _FabricModule) else network)
