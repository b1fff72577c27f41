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
from typing import Any, Literal

from torch import nn

from permll.methods._base import Method
from permll.training.export.graphs import check_onnx, trace, write_onnx, write_torch_export
from permll.training.export.transforms import describe_steps
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


def describe_model(predictor: Predictor, files: Sequence[str]) -> dict[str, Any]:
    """Return the content of ``model.json``: classes, input, preprocessing, architecture, and how to load ``files``."""
    card, input_spec = predictor.card, predictor.input_spec
    note = ""
    if type(predictor.method).predict is not Method.predict:
        note = f" The method {card['method']} has its own way to predict, which only the other files contain."
    elif len(card["networks"]) > 1:
        note = f" Keys begin with {', '.join(card['networks'])}: average their probabilities."
    how_to_load = {
        "model.safetensors": "Build a network of the layers listed here, then network.load_state_dict("
        "safetensors.torch.load_file('model.safetensors')). In eval mode, pass preprocessed samples and take the "
        f"softmax of the output.{note}",
        "model.onnx": "session = onnxruntime.InferenceSession('model.onnx'); session.run(None, {'input': samples}). "
        "Preprocessing is included.",
        "model.pt2": "torch.export.load('model.pt2').module()(samples). Preprocessing is included.",
    }
    return {
        "classes": list(predictor.classes),
        "input": {
            "name": "input",
            "shape": ["batch", *input_spec.shape],
            "dtype": input_spec.dtype,
            "meaning": _describe_input(predictor),
        },
        "output": {"name": "probabilities", "shape": ["batch", len(predictor.classes)], "dtype": "float32"},
        "preprocessing": {"in_words": describe_steps(card["view"]), "steps": card["view"]},
        "encoding": _describe_encoder(predictor),
        "network": {
            **card["network"],
            "networks": card["networks"],
            "input_shape": card["input_shape"],
            "layers": repr(next(iter(predictor.networks.values()))).splitlines(),
        },
        "method": card["method"],
        "epochs": predictor.epoch,
        "how_to_load": {file: how_to_load[file] for file in files},
        "made_by": f"permll {card['permll']}",
    }


def _describe_input(predictor: Predictor) -> str:
    input_spec = predictor.input_spec
    if predictor.encoder is not None:
        return f"vectors, encoded by encoder.npz from {input_spec}: see encoding"
    if input_spec.kind != "images":
        return f"{input_spec}, without preprocessing"
    channels, height, width = input_spec.shape
    colors = {1: "gray", 3: "red, green, blue"}.get(channels, f"{channels} channels")
    resized = f", {'stretched' if input_spec.fit == 'stretch' else 'cropped'} to that size" if input_spec.size else ""
    return f"images of {height} x {width} pixels{resized}, channels first ({colors}), values 0 to 255"


def _describe_encoder(predictor: Predictor) -> dict[str, Any] | None:
    """Return how samples are encoded as vectors; arrays are in encoder.npz."""
    if predictor.encoder is None:
        return None
    about = json.loads(predictor.encoder.to_arrays()["about"].tobytes())
    if about["kind"] == "table":
        text = (
            "columns in this order; numbers: (x - mean) / scale, with the median for an empty cell and, with mark, one "
            "more column that is 1 there; categories: one-hot and, with other, one more column for unknown ones"
        )
        return {"in_words": text, "columns": about["columns"]}
    if about["kind"] == "backbone":
        text = (
            "images in red, green and blue, stretched to size x size pixels, (value / 255 - mean) / std for each "
            "channel; then the inputs of the network's head; its weights are in encoder.npz as weights/NAME"
        )
        return {"in_words": text, **{key: value for key, value in about.items() if key != "kind"}}
    if about["kind"] == "sentences":
        return {"in_words": "embeddings of the sentence-transformers model, length 1", "model": about["name"]}
    text = (
        "tf-idf (words of two letters or more and pairs of them, lower case; 1 + log count, times weights, length 1) "
        "@ directions.T, then length sqrt(dims); weights, directions and, as JSON in the bytes of about, words are in "
        "encoder.npz"
    )
    return {"in_words": text, "words": len(about["words"])}
