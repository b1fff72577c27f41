"""``export_model``: write the trained network of a run to files that are used without permll.

model.safetensors   weights, with the architecture in the header
model.onnx          from samples to probabilities, for ONNX runtimes
model.pt2           the same for torch.export.load
model.json          classes, input, preprocessing, and how to load each file
encoder.npz         encoder of texts, tables or images, from those to the inputs of the network
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from torch import nn

from permll.training.export.graphs import check_onnx, trace, write_onnx, write_torch_export
from permll.training.export.model_json import describe_model
from permll.training.model_card import ENCODER
from permll.training.predictor import Predictor, load_predictor
from permll.training.run import Run
from permll.utils.files import atomic_path, atomic_write, atomic_write_text
from permll.utils.messages import unknown_name

Format = Literal["safetensors", "onnx", "torch_export"]
_FILES = {"safetensors": "model.safetensors", "onnx": "model.onnx", "torch_export": "model.pt2"}


def export_model(
    run: Run,
    out: Path | str,
    formats: Sequence[Format] = ("safetensors", "onnx", "torch_export"),
    network: nn.Module | None = None,
) -> list[Path]:
    """Write the network of a run to a folder, and return the files.

    Args:
        run: the run, finished or not.
        out: the folder; it is created if needed.
        formats: files to write, beside ``model.json``.
        network: a module of the class that was passed to ``train``, if one was.
    """
    for name in formats:
        if name not in _FILES:
            raise ValueError(unknown_name("format", name, _FILES))
    if "onnx" in formats:
        check_onnx()
    predictor = load_predictor(run, network)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / _FILES[name] for name in formats}
    description = describe_model(predictor, [path.name for path in paths.values()])
    if "safetensors" in formats:
        _write_weights(predictor, paths["safetensors"])
    if "onnx" in formats or "torch_export" in formats:
        program = trace(predictor)
        if "torch_export" in formats:
            write_torch_export(program, description, paths["torch_export"])
        if "onnx" in formats:
            write_onnx(program, description, paths["onnx"])
    files = list(paths.values())
    if predictor.encoder is not None:
        with atomic_path(folder / ENCODER) as partial:
            shutil.copyfile(run.folder / ENCODER, partial)
        files.append(folder / ENCODER)
    atomic_write_text(folder / "model.json", json.dumps(description, indent=2) + "\n")
    return [*files, folder / "model.json"]


def _write_weights(predictor: Predictor, path: Path) -> None:
    from safetensors.torch import save

    networks = predictor.networks
    weights = {
        (f"{name}.{key}" if len(networks) > 1 else key): tensor.contiguous().clone()  # shared memory is refused
        for name, network in networks.items()
        for key, tensor in network.state_dict().items()
    }
    card = predictor.card
    header = {"classes": card["classes"], "network": card["network"], "input_shape": card["input_shape"]}
    header |= {"preprocessing": card["view"], "networks": card["networks"], "method": card["method"]}
    metadata = {"format": "pt", **{key: json.dumps(value) for key, value in header.items()}}
    with atomic_write(path) as file:
        file.write(save(weights, metadata))
