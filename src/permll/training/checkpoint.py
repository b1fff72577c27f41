"""Checkpoints: nested state in one safetensors file, with its structure as JSON in the header; nothing is unpickled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from permll.training.safetensors_io import write_tensors
from permll.utils.files import atomic_write

NUM_CHECKPOINTS = 2  # the newest, and the previous one in case the newest is damaged
_TENSOR = "tensor:"  # prefix of a tensor's name in the JSON


def save_state(path: Path, state: Mapping[str, Any]) -> Path:
    """Write nested dicts and lists of tensors, numbers, strings and None atomically."""
    tensors: dict[str, Tensor] = {}
    outline = _split_tensors(state, "", tensors)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            write_tensors(file, tensors, {"permll": json.dumps(outline)})
    except OSError as error:
        raise OSError(
            f"{path} could not be written ({error}): free some disk space; the previous checkpoint is intact."
        ) from None
    return path


def load_state(path: Path) -> dict[str, Any]:
    """Read a file of ``save_state``."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            outline = json.loads((file.metadata() or {})["permll"])
            return _join_tensors(outline, file.get_tensor)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a checkpoint, or is damaged: {error}.") from None


class Checkpoints:
    """The checkpoints of a run, named by their number of steps, and the weights of its best epoch.

    With sharded per-sample state, every process writes its rows into a part, and the file of rank 0 has the number of
    parts. Rows are found by sample id, so any number of processes can load them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._best = folder / "best.safetensors"

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Write a checkpoint, and remove all but the two newest."""
        path = save_state(self.folder / f"step-{step:010}.safetensors", state)
        for old in self.paths()[:-NUM_CHECKPOINTS]:
            old.unlink()
        steps = {path.stem.removeprefix("step-") for path in self.paths()}
        for part in self.folder.glob("part-*.safetensors"):
            if part.name.split("-")[1] not in steps:
                part.unlink()
        return path

    def save_part(self, step: int, part: int, state: Mapping[str, Any]) -> Path:
        """Write a part, numbered from 1, before rank 0 writes the checkpoint."""
        return save_state(self._part(step, part), state)

    def _part(self, step: int, part: int) -> Path:
        return self.folder / f"part-{step:010}-{part}.safetensors"

    def paths(self) -> list[Path]:
        """Return the checkpoint files, oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"))

    def newest(self) -> dict[str, Any] | None:
        """Return the newest readable checkpoint, None without any; its entry ``"more"`` has the paths of its parts."""
        errors = []
        for path in reversed(self.paths()):
            try:
                state = load_state(path)
                state["more"] = [self._part(state["step"], part) for part in range(1, state.get("parts", 1))]
                for part in state["more"]:
                    if not part.is_file():
                        raise ValueError(f"{part}, a part of {path}, is missing.")
                return state
            except (ValueError, OSError) as error:
                errors.append(str(error))
        if errors:
            raise ValueError(f"no checkpoint is readable: {' '.join(errors)}")
        return None

    def save_best(self, epoch: int, networks: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write the weights of the best epoch, which ``load_predictor`` prefers to the newest ones."""
        save_state(self._best, {"epoch": epoch, "networks": networks})

    def best(self) -> dict[str, Any] | None:
        """Return ``"epoch"`` and ``"networks"`` of ``save_best``, None if it was not called."""
        return load_state(self._best) if self._best.is_file() else None


def _split_tensors(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return the value as JSON holds it; its tensors are added to ``tensors`` by name."""
    if isinstance(value, Tensor):
        if name in tensors:
            raise ValueError(f"two tensors are called {name}: keys of a state must not contain a slash.")
        tensors[name] = value
        return _TENSOR + name
    if isinstance(value, Mapping):
        return {str(key): _split_tensors(entry, f"{name}/{key}".lstrip("/"), tensors) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_split_tensors(entry, f"{name}/{i}".lstrip("/"), tensors) for i, entry in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which a checkpoint cannot hold.")


def _join_tensors(outline: Any, get_tensor: Any) -> Any:
    if isinstance(outline, str) and outline.startswith(_TENSOR):
        return get_tensor(outline.removeprefix(_TENSOR))
    if isinstance(outline, dict):
        return {key: _join_tensors(entry, get_tensor) for key, entry in outline.items()}
    if isinstance(outline, list):
        return [_join_tensors(entry, get_tensor) for entry in outline]
    return outline
