"""Weights from a file: read without running anything in it, and put into a network with a head for other classes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from permll.utils.messages import format_list

Shapes = Mapping[str, tuple[int, ...]]


def new_head(own: Shapes, given: Shapes, num_classes: int) -> set[str]:
    """Return the tensors of the head, if the given weights have none or one for another number of classes.

    The tensors of a head have one row per class. In the file they have another number of rows, or are not there.

    Args:
        own: name -> shape in the network.
        given: name -> shape in the file.
        num_classes: c of the network.

    Examples:
        >>> body = {"body.weight": (8, 3)}
        >>> sorted(new_head(body | {"head.weight": (5, 8), "head.bias": (5,)}, body | {"head.weight": (9, 8)}, 5))
        ['head.bias', 'head.weight']
    """
    by_class = {name for name, shape in own.items() if shape[:1] == (num_classes,)}
    other = {name for name in by_class & given.keys() if given[name][:1] != own[name][:1]}
    other = {name for name in other if given[name][1:] == own[name][1:]}
    # A body without a head lacks the last module and nothing else: a layer before it may have as many rows.
    last = [*own][-1].rpartition(".")[0]
    missing = _missing(own, given)
    if missing <= by_class and all(name.rpartition(".")[0] == last for name in missing):
        return other | missing
    return other


def load_weights(net: nn.Module, state: Mapping[str, Tensor], num_classes: int, source: str) -> None:
    """Copy ``state`` into ``net``; a head for another number of classes is left out, and ``net`` keeps its own.

    Args:
        net: a network of c classes.
        state: name -> tensor.
        num_classes: c.
        source: what to call the weights in an error.
    """
    tensors = net.state_dict()
    own = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    given = {name: tuple(tensor.shape) for name, tensor in state.items()}
    head = new_head(own, given, num_classes)
    problems = {
        "missing": _missing(own, given) - head,
        "unknown to it": given.keys() - own.keys(),
        "of another shape": {name for name in own.keys() & given.keys() if own[name] != given[name]} - head,
    }
    said = [f"{format_list(sorted(names), 'tensor')} {problem}" for problem, names in problems.items() if names]
    if said:
        raise ValueError(f"{source} does not fit this network: {'; '.join(said)}.")
    with torch.no_grad():
        for name in given.keys() - head:
            tensors[name].copy_(state[name])


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return name -> tensor of a .safetensors file, or of one that ``torch.save`` wrote of a state dict.

    Only tensors are read: no file can run code. A state dict inside a checkpoint is found under "state_dict" or
    "model"; the "module." that data-parallel training puts before each name is taken off.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there are no weights at {path}: give a .safetensors file or a saved state dict.")
    try:
        found = _read(Path(path))
    except Exception as problem:
        raise ValueError(
            f"{path} cannot be read as weights: give a .safetensors file, or what torch.save(net.state_dict(), path) "
            "wrote."
        ) from problem
    for key in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not found or not all(isinstance(one, Tensor) for one in found.values()):
        raise ValueError(f"{path} holds no state dict: write one with torch.save(net.state_dict(), path).")
    if all(name.startswith("module.") for name in found):
        return {name.removeprefix("module."): tensor for name, tensor in found.items()}
    return dict(found)


def _read(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def _missing(own: Shapes, given: Shapes) -> set[str]:
    # Old files do not count batches; torch begins at 0 then.
    return {name for name in own.keys() - given.keys() if not name.endswith(".num_batches_tracked")}
