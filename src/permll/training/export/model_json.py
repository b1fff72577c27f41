"""What goes with an exported network: ``model.json``, for people and for programs that do not have permll."""

import json
from collections.abc import Sequence
from typing import Any

from permll.methods._base import Method
from permll.training.export.transforms import in_words
from permll.training.predictor import Predictor


def describe(predictor: Predictor, files: Sequence[str]) -> dict[str, Any]:
    """Return what a user of the exported files must know, as ``model.json`` holds it."""
    card, input_spec = predictor.card, predictor.input_spec
    several = len(card["networks"]) > 1
    note = f" Keys begin with {', '.join(card['networks'])}: average their probabilities." if several else ""
    if type(predictor.method).predict is not Method.predict:
        note = f" The method {card['method']} predicts in a way of its own, which only the other files hold."
    how = {
        "model.safetensors": "network.load_state_dict(safetensors.torch.load_file('model.safetensors')), network being "
        "built of the layers that are listed here; give it preprocessed samples in eval mode, and take the softmax of "
        f"what it returns.{note}",
        "model.onnx": "session = onnxruntime.InferenceSession('model.onnx'); session.run(None, {'input': samples}). "
        "It preprocesses by itself.",
        "model.pt2": "torch.export.load('model.pt2').module()(samples). It preprocesses by itself.",
    }
    return {
        "classes": list(predictor.classes),
        "input": {
            "name": "input",
            "shape": ["batch", *input_spec.shape],
            "dtype": input_spec.dtype,
            "meaning": _meaning(predictor),
        },
        "output": {"name": "probabilities", "shape": ["batch", len(predictor.classes)], "dtype": "float32"},
        "preprocessing": {"in_words": in_words(card["view"]), "steps": card["view"]},
        "encoding": _encoding(predictor),
        "network": {
            **card["network"],
            "networks": card["networks"],
            "input_shape": card["input_shape"],
            "layers": repr(next(iter(predictor.networks.values()))).splitlines(),
        },
        "method": card["method"],
        "epochs": predictor.epoch,
        "how_to_load": {file: how[file] for file in files},
        "made_by": f"permll {card['permll']}",
    }


def _meaning(predictor: Predictor) -> str:
    input_spec = predictor.input_spec
    if predictor.encoder is not None:
        return f"vectors that encoder.npz makes of {input_spec}: see encoding"
    if input_spec.kind != "images":
        return f"{input_spec}, as they are"
    channels, height, width = input_spec.shape
    colors = {1: "grey", 3: "red, green, blue"}.get(channels, f"{channels} channels")
    resized = f", {'stretched' if input_spec.fit == 'stretch' else 'cropped'} to that size" if input_spec.size else ""
    return f"images of {height} x {width} pixels{resized}, channels first ({colors}), values 0 to 255"


def _encoding(predictor: Predictor) -> dict[str, Any] | None:
    """Return how vectors are made, as far as it can be said without arrays."""
    if predictor.encoder is None:
        return None
    about = json.loads(predictor.encoder.to_arrays()["about"].tobytes())
    if about["kind"] == "table":
        words = (
            "columns in this order; numbers: (x - mean) / scale, the median where a cell is empty, and with mark one "
            "more column that is 1 there; categories: one column for each that is known, and with other one more"
        )
        return {"in_words": words, "columns": about["columns"]}
    if about["kind"] == "backbone":
        words = (
            "images in red, green and blue, stretched to size x size pixels, (value / 255 - mean) / std for each "
            "channel; then what the head of the network sees, its weights being in encoder.npz as weights/NAME"
        )
        return {"in_words": words, **{key: value for key, value in about.items() if key != "kind"}}
    if about["kind"] == "sentences":
        return {"in_words": "embeddings of the sentence-transformers model, length 1", "model": about["name"]}
    words = (
        "tf-idf (words of two letters or more and pairs of them, lower case; 1 + log count, times weights, length 1) "
        "@ directions.T, then length sqrt(dims); weights, directions and, as JSON in the bytes of about, words are in "
        "encoder.npz"
    )
    return {"in_words": words, "words": len(about["words"])}
