"""The trained network alone leaves the house: files that are used without permll.

model.safetensors   the weights, with what the network is in its head
model.onnx          from samples as they are to probabilities, for ONNX runtimes
model.pt2           the same for torch.export.load
model.json          classes, input, preprocessing, and how to load each file
encoder.npz         of texts or tables: from those to the vectors that the network takes
"""

import json
import logging
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from permll.methods._base import Method
from permll.training.export.model_json import describe
from permll.training.export.transforms import Preprocessing
from permll.training.predictor import ENCODER, Predictor, load_predictor
from permll.training.run import Run
from permll.utils.files import atomic_write_text
from permll.utils.messages import did_you_mean

Format = Literal["safetensors", "onnx", "torch_export"]
_FILES = {"safetensors": "model.safetensors", "onnx": "model.onnx", "torch_export": "model.pt2"}


class Classifier(nn.Module):
    """From samples as they are read to probabilities: preprocessing and networks in one.

    Where a method predicts in its own way, that way is taken; otherwise the mean over its networks.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(predictor.card["view"])
        self.plain = type(predictor.method).predict is Method.predict
        if self.plain:
            self.networks = nn.ModuleList(predictor.networks.values())
        else:
            self.method = predictor.method
        self.eval()

    def forward(self, input: Tensor) -> Tensor:
        """Return probabilities (B, c)."""
        x = self.preprocessing(input)
        if not self.plain:
            return self.method.predict(x)
        return torch.stack([network(x).float().softmax(-1) for network in self.networks]).mean(0)


def export_model(
    run: Run,
    out: Path | str,
    formats: Sequence[Format] = ("safetensors", "onnx", "torch_export"),
    network: nn.Module | None = None,
) -> list[Path]:
    """Write the network of a run, finished or not, into a folder; return the files.

    Args:
        run: the run.
        out: the folder; it is made if it is not there.
        formats: which files to write; ``model.json`` is written in any case.
        network: the module that ``fit`` was given, if it was given one.
    """
    for name in formats:
        if name not in _FILES:
            raise ValueError(f"{name!r} is no format{did_you_mean(name, _FILES) or '.'} There are {', '.join(_FILES)}.")
    if "onnx" in formats:
        _need_onnx()
    predictor = load_predictor(run, network)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = [_FILES[name] for name in formats]
    about = describe(predictor, files)
    paths = [folder / file for file in files]
    if "safetensors" in formats:
        _write_weights(predictor, folder / _FILES["safetensors"])
    if "onnx" in formats or "torch_export" in formats:
        _write_graphs(predictor, about, folder, formats)
    if predictor.encoder is not None:
        with _whole(folder / ENCODER) as partial:
            shutil.copyfile(run.folder / ENCODER, partial)
        paths.append(folder / ENCODER)
    atomic_write_text(folder / "model.json", json.dumps(about, indent=2) + "\n")
    return [*paths, folder / "model.json"]


def _write_weights(predictor: Predictor, path: Path) -> None:
    from safetensors.torch import save

    networks = predictor.networks
    weights = {
        (f"{name}.{key}" if len(networks) > 1 else key): tensor.contiguous().clone()  # shared memory is refused
        for name, network in networks.items()
        for key, tensor in network.state_dict().items()
    }
    card = predictor.card
    head = {"classes": card["classes"], "network": card["network"], "input_shape": card["input_shape"]}
    head |= {"preprocessing": card["view"], "networks": card["networks"], "method": card["method"]}
    metadata = {"format": "pt", **{key: json.dumps(value) for key, value in head.items()}}
    with _whole(path) as partial:
        partial.write_bytes(save(weights, metadata))  # save_file would make it readable to its owner alone


def _write_graphs(predictor: Predictor, about: dict[str, Any], folder: Path, formats: Sequence[Format]) -> None:
    with _silence():
        try:
            program = _traced(predictor)
        except Exception as problem:  # a network's own code can fail in any way
            first = str(problem).strip().partition("\n")[0].rstrip(".")
            raise ValueError(
                f"the network cannot be written as a graph: {first}; export its weights alone with "
                "formats=['safetensors']."
            ) from problem
        if "torch_export" in formats:
            with _whole(folder / _FILES["torch_export"]) as partial:
                torch.export.save(program, partial, extra_files={"model.json": json.dumps(about)})
        if "onnx" in formats:
            _write_onnx(program, about, folder / _FILES["onnx"])


def _traced(predictor: Predictor) -> torch.export.ExportedProgram:
    module = Classifier(predictor)
    program = _program(module, predictor)
    unused = _unused(program)
    if unused:  # what a method kept for each training sample stays at home
        for name in unused:
            owner, _, own = name.rpartition(".")
            setattr(module.get_submodule(owner), own, torch.empty(0))
        program = _program(module, predictor)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # as do the paths of this machine
    return program


def _program(module: Classifier, predictor: Predictor) -> torch.export.ExportedProgram:
    dtype = getattr(torch, predictor.input_spec.dtype)
    example = torch.zeros(2, *predictor.input_spec.shape, dtype=dtype)  # two: one would be taken for the only size
    shapes = {"input": {0: torch.export.Dim("batch")}}
    with torch.no_grad():
        return torch.export.export(module, (example,), dynamic_shapes=shapes)


def _unused(program: torch.export.ExportedProgram) -> list[str]:
    """Return the buffers of the method itself that its predictions do not ask."""
    asked = {node.name for node in program.graph.nodes if node.users}
    buffers = program.graph_signature.inputs_to_buffers
    own = {arg: name for arg, name in buffers.items() if name.startswith("method.")}
    return [name for arg, name in own.items() if arg not in asked and not name.startswith("method.networks.")]


def _write_onnx(program: torch.export.ExportedProgram, about: dict[str, Any], path: Path) -> None:
    made = torch.onnx.export(
        program,
        (),
        input_names=["input"],
        output_names=["probabilities"],
        dynamic_shapes={"input": {0: "batch"}},
        dynamo=True,
        verbose=False,
    )
    assert made is not None
    made.model.metadata_props["classes"] = json.dumps(about["classes"])
    with _whole(path) as partial:
        made.save(partial, external_data=False)  # one file


def _need_onnx() -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise ImportError("the format onnx needs onnx and onnxscript: pip install 'permll[export]'") from None


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a name to write to; the file gets its own name when it is whole."""
    partial = path.with_name(f".{os.getpid()}.{path.name}")  # its ending stays: torch looks at it
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep torch's exporters from telling users about each other."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
