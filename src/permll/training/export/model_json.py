"""``model.json``: description of an exported network, for people and programs without permll."""

import json
from collections.abc import Sequence
from typing import Any

from permll.methods._base import Method
from permll.training.export.transforms import describe_steps
from permll.training.predictor import Predictor


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
