"""Pretrained weights: reading files without running code, and loading with a new head."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from permll.utils.messages import format_list

Shapes = Mapping[str, tuple[int, ...]]
# Names in published files of torchvision's DenseNets and vision transformers, and in its networks.
_RENAMED = (
    (re.compile(r"(denselayer\d+\.(?:norm|conv))\.(?=[12]\.)"), r"\1"),
    (re.compile(r"\.mlp\.linear_1\."), ".mlp.0."),
    (re.compile(r"\.mlp\.linear_2\."), ".mlp.3."),
)


def find_new_head(expected: Shapes, given: Shapes, num_classes: int) -> set[str]:
    """Return the tensors of the head if the given weights have none, or one for another number of classes.

    The tensors of a head have one row per class. In the file they have another number of rows, or are missing.

    Args:
        expected: name -> shape in the network.
        given: name -> shape in the file.
        num_classes: c of the network.

    Examples:
        >>> body = {"body.weight": (8, 3)}
        >>> expected = body | {"head.weight": (5, 8), "head.bias": (5,)}
        >>> sorted(find_new_head(expected, body | {"head.weight": (9, 8)}, 5))
        ['head.bias', 'head.weight']
    """
    by_class = {name for name, shape in expected.items() if shape[:1] == (num_classes,)}
    other = {name for name in by_class & given.keys() if given[name][:1] != expected[name][:1]}
    other = {name for name in other if given[name][1:] == expected[name][1:]}
    # A file without a head lacks the last module only; an earlier layer may happen to have c rows.
    last = [*expected][-1].rpartition(".")[0]
    missing = _missing(expected, given)
    if missing <= by_class and all(name.rpartition(".")[0] == last for name in missing):
        return other | missing
    return other


def load_weights(net: nn.Module, state: Mapping[str, Tensor], num_classes: int, source: str) -> None:
    """Copy ``state`` into ``net``; a head for another number of classes is not loaded.

    Args:
        net: network with c classes.
        state: name -> tensor.
        num_classes: c.
        source: name of the weights in error messages.
    """
    tensors = net.state_dict()
    expected = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    state = {name if name in expected else _current_name(name): tensor for name, tensor in state.items()}
    given = {name: tuple(tensor.shape) for name, tensor in state.items()}
    head = find_new_head(expected, given, num_classes)
    mismatched = {name for name in expected.keys() & given.keys() if expected[name] != given[name]}
    problems = {
        "missing": _missing(expected, given) - head,
        "unexpected": given.keys() - expected.keys(),
        "with another shape": mismatched - head,
    }
    details = [f"{format_list(sorted(names), 'tensor')} {problem}" for problem, names in problems.items() if names]
    if details:
        raise ValueError(f"{source} does not match this network: {'; '.join(details)}.")
    with torch.no_grad():
        for name in given.keys() - head:
            tensors[name].copy_(state[name])


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return name -> tensor of a .safetensors file, or of a state dict that ``torch.save`` wrote.

    Only tensors are read, so no file can run code. A state dict inside a checkpoint is found under "state_dict" or
    "model"; the prefix "module." of data-parallel training is removed.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no weights file at {path}: pass a .safetensors file or a saved state dict.")
    try:
        if Path(path).suffix == ".safetensors":
            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read as weights: pass a .safetensors file, or a file that "
            "torch.save(net.state_dict(), path) wrote."
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not state or not all(isinstance(one, Tensor) for one in state.values()):
        raise ValueError(f"{path} contains no state dict: write one with torch.save(net.state_dict(), path).")
    if all(name.startswith("module.") for name in state):
        return {name.removeprefix("module."): tensor for name, tensor in state.items()}
    return dict(state)


def _current_name(name: str) -> str:
    for pattern, replacement in _RENAMED:
        name = pattern.sub(replacement, name)
    return name


def _missing(expected: Shapes, given: Shapes) -> set[str]:
    # Old files lack these counters; torch then starts at 0.
    return {name for name in expected.keys() - given.keys() if not name.endswith(".num_batches_tracked")}
