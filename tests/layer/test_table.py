"""``RowTable`` in all storage formats against a list of rows."""

import copy
import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.layer import table as table_module
from permll.layer.state_keys import pop_parts, saved_shape
from permll.layer.table import RowTable
from permll.layer.top_k import compress, expand

FORMATS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16},
    "disk": {"file": True},
    "top_k": {"top_k": 3},
    "all of them": {"top_k": 3, "dtype": torch.bfloat16, "file": True},
}
ALL_FORMATS = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
LABELS = torch.tensor([4, 0, 2, 2, 5, 1, 0])
N, C = len(LABELS), 6


def make_table(**fmt: Any) -> RowTable:
    return RowTable(N, (C,), labels=LABELS, fill=0.25, at_label=1.5, **fmt)


def initial_rows() -> Tensor:
    return torch.full((N, C), 0.25).scatter_(1, LABELS[:, None], 1.5)


@ALL_FORMATS
def test_table_initial_rows(fmt: dict[str, Any]) -> None:
    table = make_table(**fmt)
    assert len(table) == N
    assert torch.equal(table.values, initial_rows().to(table.dtype))
    assert torch.equal(table.read(torch.tensor([6, 0, 6])), initial_rows()[[6, 0, 6]].to(table.dtype))
    assert torch.equal(table.argmax(), LABELS)
    assert_close(
        table.softmax_at_label(LABELS), initial_rows().softmax(1).gather(1, LABELS[:, None])[:, 0].to(table.dtype)
    )


@ALL_FORMATS
def test_other_rows_do_not_change(fmt: dict[str, Any]) -> None:
    table, before = make_table(**fmt), make_table(**fmt).values
    table.write(torch.tensor([1]), torch.randn(1, C))
    table.add(torch.tensor([4, 1]), torch.randn(2, C))
    moved = (table.values != before).any(1).nonzero()[:, 0]
    assert moved.tolist() == [1, 4]


@ALL_FORMATS
def test_representable_rows_round_trip(fmt: dict[str, Any]) -> None:
    table = make_table(**fmt)
    rows = torch.full((2, C), -0.5)
    rows[0, [0, 4, 5]] = torch.tensor([2.0, 0.125, 3.0])  # three entries differ, one of them the label
    rows[1, [5, 3]] = torch.tensor([-8.0, 1.0])  # the label has the smallest value
    table.write(torch.tensor([0, 4]), rows)
    assert torch.equal(table.read(torch.tensor([4, 0])), rows[[1, 0]].to(table.dtype))


@given(
    k=st.integers(1, 9),
    steps=st.lists(st.lists(st.integers(0, N - 1), min_size=1, max_size=9), min_size=1, max_size=6),
    tail=st.sampled_from(["mean", "logmeanexp"]),
    seed=st.integers(0, 2**31),
)
def test_add_matches_row_by_row_loop(k: int, steps: list[list[int]], tail: str, seed: int) -> None:
    """With k >= c the result is that of a dense table."""
    torch.manual_seed(seed)
    table = make_table(top_k=k, tail=tail, dtype=torch.float64)
    rows = [row.double() for row in initial_rows()]
    for index in steps:
        change = torch.randn(len(index), C, dtype=torch.float64)
        table.add(torch.tensor(index), change, scale=0.3)
        for n in set(index):
            rows[n] = rows[n] + 0.3 * sum(change[place] for place, m in enumerate(index) if m == n)
            rows[n] = expand(compress(rows[n][None], LABELS[n, None], min(k, C), tail), C)[0]
    assert_close(table.values, torch.stack(rows), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [C, C + 5])
def test_top_k_of_all_classes_matches_dense_table(k: int) -> None:
    dense, compressed = make_table(), make_table(top_k=k)
    for _ in range(20):
        index, change = torch.randint(N, (5,)), torch.randn(5, C)
        dense.add(index, change, scale=-0.1)
        compressed.add(index, change, scale=-0.1)
    assert_close(compressed.values, dense.values)
    assert torch.equal(compressed.argmax(), dense.argmax())
    assert_close(compressed.softmax_at_label(LABELS), dense.softmax_at_label(LABELS))


@pytest.mark.parametrize("fmt", [{}, {"dtype": torch.float64}, {"file": True}], ids=["float32", "float64", "disk"])
@given(index=st.lists(st.integers(0, N - 1), min_size=1, max_size=12), seed=st.integers(0, 2**31))
@settings(max_examples=20)
def test_repeated_rows_accumulate(fmt: dict[str, Any], index: list[int], seed: int) -> None:
    table, rows = make_table(**fmt), list(initial_rows())
    change = torch.randn(len(index), C, generator=torch.Generator().manual_seed(seed))
    table.add(torch.tensor(index), change, scale=-0.2)
    for place, n in enumerate(index):
        rows[n] = rows[n] + -0.2 * change[place]
    assert_close(table.values, torch.stack(rows).to(table.dtype))


# --- bfloat16 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [{}, {"top_k": 3}])
def test_bfloat16_accumulates_small_steps(fmt: dict[str, Any]) -> None:
    """1,000 steps of 0.001 from 1.5, where the spacing is 0.0078."""
    table = RowTable(400, (C,), labels=torch.zeros(400, dtype=torch.int64), at_label=1.5, dtype=torch.bfloat16, **fmt)
    step = torch.zeros(400, C).index_fill_(1, torch.tensor([0]), 0.001)
    for _ in range(1000):
        table.add(torch.arange(400), step)
    reached = table.values[:, 0]
    # Each step has a rounding error of mean zero, at most the spacing 2^-6 above 2.
    assert abs(float(reached.mean()) - 2.5) < 4 * 2**-6 * (1000 / 400) ** 0.5 / 2
    assert float(reached.std()) > 0


@pytest.mark.parametrize("fmt", [{}, {"top_k": 3}])
def test_bfloat16_is_reproducible_and_resumes_exactly(fmt: dict[str, Any]) -> None:
    changes = [(torch.randint(N, (4,)), torch.randn(4, C)) for _ in range(12)]

    def after(table: RowTable, chosen: list[Any]) -> RowTable:
        torch.manual_seed(int(torch.randint(10**6, ())))  # other random draws have no influence
        for index, change in chosen:
            table.add(index, change, scale=-0.01)
        return table

    full = after(make_table(dtype=torch.bfloat16, **fmt), changes)
    again = after(make_table(dtype=torch.bfloat16, **fmt), changes)
    assert torch.equal(full.values, again.values)
    first = after(make_table(dtype=torch.bfloat16, **fmt), changes[:5])
    resumed = make_table(dtype=torch.bfloat16, **fmt)
    resumed.load(pop_parts(first.state("rows"), "rows"), torch.arange(N), torch.arange(N))
    assert torch.equal(after(resumed, changes[5:]).values, full.values)
    forgetful = make_table(dtype=torch.bfloat16, **fmt)
    parts = pop_parts(first.state("rows"), "rows") | {"writes": torch.tensor([99])}
    forgetful.load(parts, torch.arange(N), torch.arange(N))
    assert not torch.equal(after(forgetful, changes[5:]).values, full.values)


def test_table_nbytes() -> None:
    assert make_table().nbytes == N * C * 4
    assert make_table(dtype=torch.bfloat16).nbytes == N * C * 2 + 8
    assert make_table(top_k=3).nbytes == N * (6 * 3 + 4)
    assert make_table(top_k=3, dtype=torch.bfloat16).nbytes == N * (4 * 3 + 2) + 8
    many = RowTable(2, (40_000,), labels=torch.tensor([39_999, 7]), at_label=1.0, top_k=4)
    assert many.nbytes == 2 * (8 * 4 + 4)
    assert many.argmax().tolist() == [39_999, 7]


# --- Files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [{}, {"top_k": 3}, {"dtype": torch.bfloat16}, {"top_k": 2, "dtype": torch.float64}])
def test_file_table_matches_memory_and_reopens(fmt: dict[str, Any], tmp_path: Path) -> None:
    memory, disk = make_table(**fmt), make_table(**fmt, file=tmp_path / "rows")
    changes = [(torch.randint(N, (4,)), torch.randn(4, C)) for _ in range(20)]
    for number, (index, change) in enumerate(changes):
        if number == 10:
            del disk
            gc.collect()
            disk = make_table(**fmt, file=str(tmp_path / "rows"))
        memory.add(index, change, scale=-0.1)
        disk.add(index, change, scale=-0.1)
        assert torch.equal(memory.values, disk.values)
    assert disk.nbytes == memory.nbytes
    assert torch.equal(copy.deepcopy(disk).values, disk.values)


def test_state_of_file_table_is_a_view(tmp_path: Path) -> None:
    table = make_table(file=tmp_path / "rows")
    state = table.state("alpha")
    table.write(torch.tensor([0]), torch.full((1, C), 7.0))
    assert state["alpha"][0].tolist() == [7.0] * C
    assert table.to("meta").device.type == "cpu"  # rows on disk stay there
    assert table.double().dtype == torch.float32


def test_table_does_not_overwrite_other_files(tmp_path: Path) -> None:
    make_table(file=tmp_path / "rows")
    before = (tmp_path / "rows").read_bytes()
    with pytest.raises(
        ValueError, match=r"rows was written for another table \(different top_k\): delete it or use another path"
    ):
        make_table(file=tmp_path / "rows", top_k=2)
    with pytest.raises(ValueError, match=r"\(different rows, labels\)"):
        RowTable(2, (C,), labels=LABELS[:2], fill=0.25, at_label=1.5, file=tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == before
    for content in (b"chosen notes", bytes(5000), b"[1, 2]"):
        (tmp_path / "notes").write_bytes(content)
        with pytest.raises(ValueError, match="notes is not a complete file of rows and is not overwritten"):
            make_table(file=tmp_path / "notes")
        assert (tmp_path / "notes").read_bytes() == content
    with pytest.raises(OSError, match=r"nowhere/rows could not be created with [\d,]+ bytes .* more free space"):
        make_table(file=tmp_path / "nowhere" / "rows")


def test_table_rejects_file_larger_than_disk(tmp_path: Path) -> None:
    """Writing to pages without disk space would crash the process."""
    with pytest.raises(OSError, match="could not be created"):
        RowTable(2**50, (1000,), file=tmp_path / "rows")


def test_temporary_file_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = make_table(file=True)
    table.add(torch.tensor([0]), torch.ones(1, C))
    assert table.read(torch.tensor([0]))[0, 0] == 1.25
    assert list(tmp_path.iterdir()) == []


# --- All rows -----------------------------------------------------------------------------------------------------


@ALL_FORMATS
def test_chunks_cover_all_rows(fmt: dict[str, Any]) -> None:
    table = make_table(**fmt)
    table.write(torch.arange(N), torch.randn(N, C))
    parts = list(table.chunks(3))
    assert [len(positions) for positions, _ in parts] == [3, 3, 1]
    assert torch.equal(torch.cat([positions for positions, _ in parts]), torch.arange(N))
    assert torch.equal(torch.cat([rows for _, rows in parts]), table.values)


@ALL_FORMATS
def test_results_do_not_depend_on_chunk_size(fmt: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(**fmt)
    table.write(torch.arange(N), torch.randn(N, C))
    full = table.values.clone(), table.argmax(), table.softmax_at_label(LABELS)
    monkeypatch.setattr(table_module, "CHUNK_SIZE", 2 * C)
    assert torch.equal(table.values, full[0])
    assert torch.equal(table.argmax(), full[1])
    assert torch.equal(table.argmax(), table.values.argmax(1))
    assert torch.equal(table.softmax_at_label(LABELS), full[2])
    assert_close(full[2], full[0].softmax(1).gather(1, LABELS[:, None])[:, 0])


def test_table_of_a_million_rows_is_not_materialized() -> None:
    """A million rows of 21,000 classes take 100 bytes each."""
    rows = 1_000_000
    labels = torch.arange(rows) % 21_000
    table = RowTable(rows, (21_000,), labels=labels, at_label=2.0, top_k=16, tail="logmeanexp")
    assert table.nbytes == 100 * rows
    with pytest.raises(
        ValueError, match=r"1000000 dense rows of 21000 numbers take 78.2 GiB, more than the limit of 4 GiB"
    ):
        table.values  # noqa: B018
    index = torch.tensor([5, 999_999])
    table.add(index, torch.randn(2, 21_000), scale=0.1)
    assert torch.equal(table.argmax()[:5], labels[:5])


# --- Casts, states, arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [{}, {"top_k": 3}, {"dtype": torch.bfloat16}])
def test_table_ignores_casts_below_float32(fmt: dict[str, Any]) -> None:
    table, before = make_table(**fmt), make_table(**fmt).values
    for cast in ("half", "bfloat16", "float"):
        getattr(torch.nn.Sequential(table), cast)()
        assert table.dtype == torch.float32
        assert torch.equal(table.values, before)
    assert table.to("meta").device.type == "meta"


def test_table_double() -> None:
    assert make_table(top_k=3).double().dtype == torch.float64
    assert make_table(dtype=torch.bfloat16).double().dtype == torch.float32, "bfloat16 stays"


@pytest.mark.parametrize("saved", FORMATS.values(), ids=FORMATS)
@ALL_FORMATS
def test_state_converts_between_formats(saved: dict[str, Any], fmt: dict[str, Any]) -> None:
    """Reordered, one row removed, one row added. The rows are representable in every format."""
    there = make_table(**saved)
    rows = torch.full((N, C), -0.5).scatter_(1, LABELS[:, None], torch.arange(N)[:, None] / 4)
    there.write(torch.arange(N), rows)
    parts = pop_parts(there.state("alpha"), "alpha")
    assert saved_shape(parts) == (N, C)
    here = make_table(**fmt)
    here.load(parts, torch.tensor([3, 2, 6]), torch.tensor([2, 3, 1]))  # rows of equal labels
    expected = initial_rows()
    expected[[3, 2, 6]] = rows[[2, 3, 1]]
    assert torch.equal(here.values, expected.to(here.dtype))
    assert here.state("alpha").keys() == make_table(**fmt).state("alpha").keys()


def test_table_rows_of_any_shape_and_dtype() -> None:
    table = RowTable(4, (2, 3), dtype=torch.int32, fill=-1)
    table.write(torch.tensor([2]), torch.ones(1, 2, 3))
    assert table.read(torch.tensor([2, 0])).tolist() == [[[1] * 3] * 2, [[-1] * 3] * 2]
    assert table.values.dtype == torch.int32
    numbers = RowTable(3, fill=0.5, dtype=torch.bfloat16)
    numbers.add(torch.tensor([1, 1]), torch.ones(2))
    assert numbers.values.tolist() == [0.5, 2.5, 0.5]


def test_out_of_range_position_is_named() -> None:
    for fmt in FORMATS.values():
        with pytest.raises(IndexError, match=r"index 7 \(row 1 of the batch\) lies outside the 7 training samples"):
            make_table(**fmt).read(torch.tensor([0, 7]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k must be an integer >= 1, got 0"),
        ({"top_k": 2.0}, "got 2.0"),
        ({"top_k": True}, "got True"),
        ({"top_k": 2, "shape": (2, 3)}, "top_k requires floating point rows with one entry per class"),
        ({"top_k": 2, "labels": None}, "with one entry per class, and labels"),
        ({"top_k": 2, "dtype": torch.int64}, "got torch.int64"),
    ],
)
def test_table_rejects_bad_arguments(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RowTable(N, **{"shape": (C,), "labels": LABELS} | settings)


def test_table_repr() -> None:
    assert repr(make_table()) == "RowTable(7 rows of (6,), torch.float32)"
    assert repr(make_table(top_k=2, file=True)) == "RowTable(7 rows of (6,), top_k=2, torch.float32, on disk)"


@pytest.mark.parametrize("top_k", [None, 2])
def test_writing_no_rows_changes_nothing(top_k: int | None) -> None:
    table = RowTable(3, (4,), labels=torch.tensor([0, 1, 2]), at_label=1.0, dtype=torch.bfloat16, top_k=top_k)
    before = table.values.clone()
    table.write(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 4))
    assert torch.equal(table.values, before)
