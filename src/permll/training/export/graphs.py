"""Export of a predictor as a graph, preprocessing included: torch.export and ONNX."""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from permll.methods._base import Method
from permll.training.export.transforms import Preprocessing
from permll.training.predictor import Predictor
from permll.utils.files import atomic_path, atomic_write
from permll.utils.messages import first_line, install_hint


class Classifier(nn.Module):
    """Preprocessing and networks in one module, from samples as they are read to probabilities.

    Probabilities are the mean over the networks, or those of the method if it overrides ``predict``.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(predictor.card["view"])
        self.is_mean = type(predictor.method).predict is Method.predict
        if self.is_mean:
            self.networks = nn.ModuleList(predictor.networks.values())
        else:
            self.method = predictor.method
        self.eval()

    def forward(self, input: Tensor) -> Tensor:
        """Return probabilities (B, c)."""
        x = self.preprocessing(input)
        if not self.is_mean:
            return self.method.predict(x)
        return torch.stack([network(x).float().softmax(-1) for network in self.networks]).mean(0)


def trace(predictor: Predictor) -> ExportedProgram:
    """Return the graph of a predictor, without per-sample state and without paths of this machine."""
    module = Classifier(predictor)
    try:
        with _quiet():
            program = _export(module, predictor)
            unused = _unused_buffers(program)
            for name in unused:  # per-sample state of the method
                owner, _, attribute = name.rpartition(".")
                setattr(module.get_submodule(owner), attribute, torch.empty(0))
            if unused:
                program = _export(module, predictor)
    except Exception as error:  # code of a user's network can raise anything
        raise ValueError(
            f"the network cannot be exported as a graph: {first_line(error)}; export its weights only, with "
            "formats=['safetensors']."
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def write_torch_export(program: ExportedProgram, description: Mapping[str, Any], path: Path) -> None:
    """Write a graph for ``torch.export.load``, with ``model.json`` inside."""
    with _quiet(), atomic_write(path) as file:
        torch.export.save(program, file, extra_files={"model.json": json.dumps(description)})


def write_onnx(program: ExportedProgram, description: Mapping[str, Any], path: Path) -> None:
    """Write a graph as ONNX, with the classes in its metadata."""
    with _quiet():
        onnx_program = torch.onnx.export(
            program,
            (),
            input_names=["input"],
            output_names=["probabilities"],
            dynamic_shapes={"input": {0: "batch"}},
            dynamo=True,
            verbose=False,
        )
        assert onnx_program is not None
        onnx_program.model.metadata_props["classes"] = json.dumps(description["classes"])
        with atomic_path(path) as partial:
            onnx_program.save(partial, external_data=False)  # one file


def check_onnx() -> None:
    """Raise ``ImportError`` if a package for the ONNX export is missing."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise ImportError(f"the format onnx needs onnx and onnxscript: {install_hint('export')}") from None


def _export(module: Classifier, predictor: Predictor) -> ExportedProgram:
    dtype = getattr(torch, predictor.input_spec.dtype)
    example = torch.zeros(2, *predictor.input_spec.shape, dtype=dtype)  # a batch of 1 would become a constant size
    shapes = {"input": {0: torch.export.Dim("batch")}}
    with torch.no_grad():
        return torch.export.export(module, (example,), dynamic_shapes=shapes)


def _unused_buffers(program: ExportedProgram) -> list[str]:
    """Return the buffers of the method, outside its networks, that its predictions do not use."""
    used = {node.name for node in program.graph.nodes if node.users}
    return [
        name
        for arg, name in program.graph_signature.inputs_to_buffers.items()
        if name.startswith("method.") and not name.startswith("method.networks.") and arg not in used
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings and logs of torch's exporters."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
