"""Checkpoints: one safetensors file each, with JSON in its head; written whole or not at all, never unpickled."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from permll.training.safetensors_io import write_file

KEPT = 2  # the newest, and one before it for a file system that lies
_LINK = "tensor:"  # what stands in the JSON for a tensor


def save_state(path: Path, state: Mapping[str, Any]) -> Path:
    """Write nested dicts and lists of tensors, numbers, text and None."""
    tensors: dict[str, Tensor] = {}
    outline = _outline(state, "", tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write_file(partial, tensors, {"permll": json.dumps(outline)})
        partial.replace(path)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise OSError(
            f"{path} could not be written ({problem}): make room; the checkpoint before is still good."
        ) from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return path


def load_state(path: Path) -> dict[str, Any]:
    """Read what ``save_state`` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            outline = json.loads((file.metadata() or {})["permll"])
            found: dict[str, Any] = _fill(outline, file.get_tensor)
            return found
    except (SafetensorError, KeyError, ValueError) as problem:
        raise ValueError(f"{path} is no checkpoint, or a damaged one: {problem}.") from None


class Checkpoints:
    """The checkpoints of a run, named by the number of steps taken.

    Ranks that hold different rows of state write them side by side, each into a part, and the first one's file says
    how many parts belong to it. Rows are known by id, so any number of ranks can read them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Write one, and remove what is older than the one before it."""
        path = save_state(self.folder / f"step-{step:010}.safetensors", state)
        for old in self.paths()[:-KEPT]:
            old.unlink()
        kept = {path.stem.removeprefix("step-") for path in self.paths()}
        for part in self.folder.glob("part-*.safetensors"):
            if part.name.split("-")[1] not in kept:
                part.unlink()
        return path

    def save_part(self, step: int, part: int, state: Mapping[str, Any]) -> Path:
        """Write a part, numbered from 1; the checkpoint itself is to follow."""
        return save_state(self._part(step, part), state)

    def _part(self, step: int, part: int) -> Path:
        return self.folder / f"part-{step:010}-{part}.safetensors"

    def paths(self) -> list[Path]:
        """Return those there are, oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"))

    def newest(self) -> dict[str, Any] | None:
        """Return the newest that can be read; one that was cut short by a broken disk gives way to the one before.

        Under ``"more"`` it has the paths of its other parts.
        """
        problems = []
        for path in reversed(self.paths()):
            try:
                state = load_state(path)
                state["more"] = [self._part(state["step"], part) for part in range(1, state.get("parts", 1))]
                for part in state["more"]:
                    if not part.is_file():
                        raise ValueError(f"{part} is missing, a part of {path}.")
                return state
            except (ValueError, OSError) as problem:
                problems.append(str(problem))
        if problems:
            raise ValueError(f"no checkpoint can be read: {' '.join(problems)}")
        return None


def _outline(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return the value as JSON would hold it, its tensors put aside by name."""
    if isinstance(value, Tensor):
        if name in tensors:
            raise ValueError(f"two tensors are called {name}: no key of a state may hold a slash.")
        tensors[name] = value
        return _LINK + name
    if isinstance(value, Mapping):
        return {str(key): _outline(entry, f"{name}/{key}".lstrip("/"), tensors) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_outline(entry, f"{name}/{number}".lstrip("/"), tensors) for number, entry in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which no checkpoint can hold.")


def _fill(outline: Any, tensor: Any) -> Any:
    if isinstance(outline, str) and outline.startswith(_LINK):
        return tensor(outline.removeprefix(_LINK))
    if isinstance(outline, dict):
        return {key: _fill(entry, tensor) for key, entry in outline.items()}
    if isinstance(outline, list):
        return [_fill(entry, tensor) for entry in outline]
    return outline


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
