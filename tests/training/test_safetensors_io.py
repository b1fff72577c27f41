"""Files of tensors are read by safetensors as they were written, whatever the tensors look like in memory."""

import io
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from permll.training.safetensors_io import _NAMES, pieces, write_file, write_tensors


def test_all_types_and_shapes_come_back(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    wide = torch.randint(0, 2, (6, 5), generator=draw)
    tensors = {str(dtype): wide.to(dtype) for dtype in _NAMES}
    base = torch.randn(4, 6, generator=draw)
    tensors |= {
        "turned": base.T,
        "part": base[:, 1:3],
        "one": torch.tensor(3.5),
        "none": torch.empty(0, 3),
        "same": base,
    }
    tensors |= {"shared": base.view(2, 12), "Ω/é": torch.arange(3)}
    write_file(tmp_path / "file", tensors, {"what": "Ω"})
    found = load_file(tmp_path / "file")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    with safe_open(tmp_path / "file", framework="pt") as file:
        assert file.metadata() == {"what": "Ω"}


@given(st.lists(st.integers(0, 6), max_size=4), st.integers(1, 100))
def test_pieces_are_the_bytes_in_order_and_small(shape: list[int], size: int) -> None:
    tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.int16).reshape(shape)
    found = list(pieces(tensor, size))
    assert b"".join(piece.numpy().tobytes() for piece in found) == tensor.numpy().tobytes()
    assert all(len(piece) <= max(size, 2) for piece in found)


def test_what_no_file_holds_is_said() -> None:
    with pytest.raises(TypeError, match=r"z holds torch\.complex64, which no file of tensors can"):
        write_tensors(io.BytesIO(), {"z": torch.zeros(2, dtype=torch.complex64)}, {})
