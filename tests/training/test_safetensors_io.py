"""Files of ``write_tensors`` are read by safetensors, for tensors of any layout."""

import io
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from permll.training.safetensors_io import _DTYPES, chunks, write_tensors


def test_tensors_of_any_type_and_shape_round_trip(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    wide = torch.randint(0, 2, (6, 5), generator=draw)
    tensors = {str(dtype): wide.to(dtype) for dtype in _DTYPES}
    base = torch.randn(4, 6, generator=draw)
    tensors |= {
        "transposed": base.T,
        "part": base[:, 1:3],
        "every second": torch.arange(9)[::2],
        "one": torch.tensor(3.5),
        "none": torch.empty(0, 3),
        "same": base,
    }
    tensors |= {"shared": base.view(2, 12), "Ω/é": torch.arange(3)}
    with (tmp_path / "file").open("wb") as file:
        write_tensors(file, tensors, {"what": "Ω"})
    loaded = load_file(tmp_path / "file")
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    with safe_open(tmp_path / "file", framework="pt") as opened:
        assert opened.metadata() == {"what": "Ω"}


@given(st.lists(st.integers(0, 6), max_size=4), st.integers(1, 100))
def test_chunks_are_the_bytes_in_order(shape: list[int], size: int) -> None:
    tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.int16).reshape(shape)
    parts = list(chunks(tensor, size))
    assert b"".join(chunk.numpy().tobytes() for chunk in parts) == tensor.numpy().tobytes()
    assert all(len(chunk) <= max(size, 2) for chunk in parts)


def test_unsupported_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match=r"z has the type torch\.complex64, which safetensors does not support"):
        write_tensors(io.BytesIO(), {"z": torch.zeros(2, dtype=torch.complex64)}, {})
