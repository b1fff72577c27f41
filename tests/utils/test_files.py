"""Atomic writes: the old file or the new one, and no temporary file left behind."""

from pathlib import Path

import pytest

from permll.utils.files import atomic_path, atomic_write, atomic_write_text, is_partial


def test_atomic_write_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for content in ("first", "second, ä"):
        atomic_write_text(path, content)
        assert path.read_text(encoding="utf-8") == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_failed_atomic_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half of it", "not bytes"])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_atomic_path_has_the_same_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "model.onnx") as partial:
        assert partial.suffix == ".onnx"
        assert is_partial(partial)
        partial.write_bytes(b"graph")
        assert not (tmp_path / "model.onnx").exists()
    assert (tmp_path / "model.onnx").read_bytes() == b"graph"
    assert not is_partial(tmp_path / "model.onnx")
