"""``RowTable`` in all its forms against a list of rows: what is read is what was written, and nothing else moves."""

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
from permll.layer.state_keys import saved_shape, take_parts
from permll.layer.table import RowTable
from permll.layer.top_k import compress, expand

FORMS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16},
    "disk": {"file": True},
    "top_k": {"top_k": 3},
    "all of them": {"top_k": 3, "dtype": torch.bfloat16, "file": True},
}
EVERY = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
LABELS = torch.tensor([4, 0, 2, 2, 5, 1, 0])
N, C = len(LABELS), 6


def make(**form: Any) -> RowTable:
    return RowTable(N, (C,), labels=LABELS, fill=0.25, at_label=1.5, **form)


def initial() -> Tensor:
    return torch.full((N, C), 0.25).scatter_(1, LABELS[:, None], 1.5)


@EVERY
def test_rows_begin_as_they_were_described(form: dict[str, Any]) -> None:
    table = make(**form)
    assert len(table) == N
    assert torch.equal(table.values, initial().to(table.dtype))
    assert torch.equal(table.read(torch.tensor([6, 0, 6])), initial()[[6, 0, 6]].to(table.dtype))
    assert torch.equal(table.argmax(), LABELS)
    assert_close(table.softmax_at_label(LABELS), initial().softmax(1).gather(1, LABELS[:, None])[:, 0].to(table.dtype))


@EVERY
def test_rows_outside_never_move(form: dict[str, Any]) -> None:
    table, before = make(**form), make(**form).values
    table.write(torch.tensor([1]), torch.randn(1, C))
    table.add(torch.tensor([4, 1]), torch.randn(2, C))
    moved = (table.values != before).any(1).nonzero()[:, 0]
    assert moved.tolist() == [1, 4]


@EVERY
def test_what_can_be_kept_is_read_as_it_was_written(form: dict[str, Any]) -> None:
    table = make(**form)
    rows = torch.full((2, C), -0.5)
    rows[0, [0, 4, 5]] = torch.tensor([2.0, 0.125, 3.0])  # the label is one of three
    rows[1, [5, 3]] = torch.tensor([-8.0, 1.0])  # though it is the smallest
    table.write(torch.tensor([0, 4]), rows)
    assert torch.equal(table.read(torch.tensor([4, 0])), rows[[1, 0]].to(table.dtype))


@given(
    k=st.integers(1, 9),
    steps=st.lists(st.lists(st.integers(0, N - 1), min_size=1, max_size=9), min_size=1, max_size=6),
    tail=st.sampled_from(["mean", "logmeanexp"]),
    seed=st.integers(0, 2**31),
)
def test_adding_is_reading_adding_and_compressing_row_by_row(
    k: int, steps: list[list[int]], tail: str, seed: int
) -> None:
    """With a list of rows and a loop; with k >= c they are those of a dense table."""
    torch.manual_seed(seed)
    table = make(top_k=k, tail=tail, dtype=torch.float64)
    rows = [row.double() for row in initial()]
    for index in steps:
        change = torch.randn(len(index), C, dtype=torch.float64)
        table.add(torch.tensor(index), change, scale=0.3)
        for n in set(index):
            rows[n] = rows[n] + 0.3 * sum(change[place] for place, m in enumerate(index) if m == n)
            rows[n] = expand(compress(rows[n][None], LABELS[n, None], min(k, C), tail), C)[0]
    assert_close(table.values, torch.stack(rows), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [C, C + 5])
def test_keeping_all_classes_is_the_dense_table(k: int) -> None:
    dense, kept = make(), make(top_k=k)
    for _ in range(20):
        index, change = torch.randint(N, (5,)), torch.randn(5, C)
        dense.add(index, change, scale=-0.1)
        kept.add(index, change, scale=-0.1)
    assert_close(kept.values, dense.values)
    assert torch.equal(kept.argmax(), dense.argmax())
    assert_close(kept.softmax_at_label(LABELS), dense.softmax_at_label(LABELS))


@pytest.mark.parametrize("form", [{}, {"dtype": torch.float64}, {"file": True}], ids=["float32", "float64", "disk"])
@given(index=st.lists(st.integers(0, N - 1), min_size=1, max_size=12), seed=st.integers(0, 2**31))
@settings(max_examples=20)
def test_dense_rows_that_come_twice_add_up_in_order(form: dict[str, Any], index: list[int], seed: int) -> None:
    table, rows = make(**form), list(initial())
    change = torch.randn(len(index), C, generator=torch.Generator().manual_seed(seed))
    table.add(torch.tensor(index), change, scale=-0.2)
    for place, n in enumerate(index):
        rows[n] = rows[n] + -0.2 * change[place]
    assert_close(table.values, torch.stack(rows).to(table.dtype))


# --- bfloat16 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [{}, {"top_k": 3}])
def test_small_steps_arrive_in_bfloat16(form: dict[str, Any]) -> None:
    """A thousand steps of 0.001 from 1.5, where the next number is 0.0078 away."""
    table = RowTable(400, (C,), labels=torch.zeros(400, dtype=torch.int64), at_label=1.5, dtype=torch.bfloat16, **form)
    step = torch.zeros(400, C).index_fill_(1, torch.tensor([0]), 0.001)
    for _ in range(1000):
        table.add(torch.arange(400), step)
    reached = table.values[:, 0]
    # Each step is off by at most the gap of neighbors, 2^-6 above 2, with mean zero.
    assert abs(float(reached.mean()) - 2.5) < 4 * 2**-6 * (1000 / 400) ** 0.5 / 2
    assert float(reached.std()) > 0


@pytest.mark.parametrize("form", [{}, {"top_k": 3}])
def test_bfloat16_repeats_to_the_bit_and_goes_on_to_the_bit(form: dict[str, Any]) -> None:
    changes = [(torch.randint(N, (4,)), torch.randn(4, C)) for _ in range(12)]

    def after(table: RowTable, some: list[Any]) -> RowTable:
        torch.manual_seed(int(torch.randint(10**6, ())))  # whatever else is drawn
        for index, change in some:
            table.add(index, change, scale=-0.01)
        return table

    whole = after(make(dtype=torch.bfloat16, **form), changes)
    again = after(make(dtype=torch.bfloat16, **form), changes)
    assert torch.equal(whole.values, again.values)
    first = after(make(dtype=torch.bfloat16, **form), changes[:5])
    resumed = make(dtype=torch.bfloat16, **form)
    resumed.load(take_parts(first.state("rows"), "rows"), torch.arange(N), torch.arange(N))
    assert torch.equal(after(resumed, changes[5:]).values, whole.values)
    forgetful = make(dtype=torch.bfloat16, **form)
    parts = take_parts(first.state("rows"), "rows") | {"writes": torch.tensor([99])}
    forgetful.load(parts, torch.arange(N), torch.arange(N))
    assert not torch.equal(after(forgetful, changes[5:]).values, whole.values)


def test_it_takes_half_the_room() -> None:
    assert make().nbytes == N * C * 4
    assert make(dtype=torch.bfloat16).nbytes == N * C * 2 + 8
    assert make(top_k=3).nbytes == N * (6 * 3 + 4)
    assert make(top_k=3, dtype=torch.bfloat16).nbytes == N * (4 * 3 + 2) + 8
    many = RowTable(2, (40_000,), labels=torch.tensor([39_999, 7]), at_label=1.0, top_k=4)
    assert many.nbytes == 2 * (8 * 4 + 4)
    assert many.argmax().tolist() == [39_999, 7]


# --- Files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [{}, {"top_k": 3}, {"dtype": torch.bfloat16}, {"top_k": 2, "dtype": torch.float64}])
def test_a_file_is_as_good_as_memory_and_outlives_its_table(form: dict[str, Any], tmp_path: Path) -> None:
    memory, disk = make(**form), make(**form, file=tmp_path / "rows")
    changes = [(torch.randint(N, (4,)), torch.randn(4, C)) for _ in range(20)]
    for number, (index, change) in enumerate(changes):
        if number == 10:
            del disk
            gc.collect()
            disk = make(**form, file=str(tmp_path / "rows"))
        memory.add(index, change, scale=-0.1)
        disk.add(index, change, scale=-0.1)
        assert torch.equal(memory.values, disk.values)
    assert disk.nbytes == memory.nbytes
    assert torch.equal(copy.deepcopy(disk).values, disk.values)


def test_a_state_of_a_table_on_disk_is_no_copy(tmp_path: Path) -> None:
    table = make(file=tmp_path / "rows")
    state = table.state("alpha")
    table.write(torch.tensor([0]), torch.full((1, C), 7.0))
    assert state["alpha"][0].tolist() == [7.0] * C
    assert table.to("meta").device.type == "cpu"  # it stays where it is
    assert table.double().dtype == torch.float32


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    make(file=tmp_path / "rows")
    before = (tmp_path / "rows").read_bytes()
    with pytest.raises(ValueError, match=r"rows holds other rows \(other top_k\): delete it, or name another file"):
        make(file=tmp_path / "rows", top_k=2)
    with pytest.raises(ValueError, match=r"\(other rows, labels\)"):
        RowTable(2, (C,), labels=LABELS[:2], fill=0.25, at_label=1.5, file=tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == before
    for content in (b"a diary", bytes(5000), b"[1, 2]"):
        (tmp_path / "diary").write_bytes(content)
        with pytest.raises(ValueError, match="diary is no finished file of rows, and is not written over"):
            make(file=tmp_path / "diary")
        assert (tmp_path / "diary").read_bytes() == content
    with pytest.raises(OSError, match=r"nowhere/rows could not be made with [\d,]+ bytes .* where there is room"):
        make(file=tmp_path / "nowhere" / "rows")


def test_a_file_for_which_there_is_no_room_is_not_begun(tmp_path: Path) -> None:
    """Pages that a disk has no room for would end the process when they are written."""
    with pytest.raises(OSError, match="could not be made"):
        RowTable(2**50, (1000,), file=tmp_path / "rows")


def test_nothing_remains_of_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = make(file=True)
    table.add(torch.tensor([0]), torch.ones(1, C))
    assert table.read(torch.tensor([0]))[0, 0] == 1.25
    assert list(tmp_path.iterdir()) == []


# --- Whole tables -------------------------------------------------------------------------------------------------


@EVERY
def test_chunks_come_to_all_rows(form: dict[str, Any]) -> None:
    table = make(**form)
    table.write(torch.arange(N), torch.randn(N, C))
    parts = list(table.chunks(3))
    assert [len(positions) for positions, _ in parts] == [3, 3, 1]
    assert torch.equal(torch.cat([positions for positions, _ in parts]), torch.arange(N))
    assert torch.equal(torch.cat([rows for _, rows in parts]), table.values)


@EVERY
def test_a_table_in_chunks_is_the_same(form: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(**form)
    table.write(torch.arange(N), torch.randn(N, C))
    whole = table.values.clone(), table.argmax(), table.softmax_at_label(LABELS)
    monkeypatch.setattr(table_module, "CHUNK", 2 * C)
    assert torch.equal(table.values, whole[0])
    assert torch.equal(table.argmax(), whole[1])
    assert torch.equal(table.argmax(), table.values.argmax(1))
    assert torch.equal(table.softmax_at_label(LABELS), whole[2])
    assert_close(whole[2], whole[0].softmax(1).gather(1, LABELS[:, None])[:, 0])


def test_more_rows_than_fit_are_not_made() -> None:
    """A million rows of 21,000 classes: 100 bytes a row."""
    rows = 1_000_000
    labels = torch.arange(rows) % 21_000
    table = RowTable(rows, (21_000,), labels=labels, at_label=2.0, top_k=16, tail="logmeanexp")
    assert table.nbytes == 100 * rows
    with pytest.raises(
        ValueError, match=r"1000000 rows of 21000 numbers would take 78.2 GiB, and only up to 4 are made"
    ):
        table.values  # noqa: B018
    index = torch.tensor([5, 999_999])
    table.add(index, torch.randn(2, 21_000), scale=0.1)
    assert torch.equal(table.argmax()[:5], labels[:5])


# --- Casting, states, settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [{}, {"top_k": 3}, {"dtype": torch.bfloat16}])
def test_a_cast_of_the_network_does_not_reach_it_below_float32(form: dict[str, Any]) -> None:
    table, before = make(**form), make(**form).values
    for cast in ("half", "bfloat16", "float"):
        getattr(torch.nn.Sequential(table), cast)()
        assert table.dtype == torch.float32
        assert torch.equal(table.values, before)
    assert table.to("meta").device.type == "meta"


def test_double_is_double() -> None:
    assert make(top_k=3).double().dtype == torch.float64
    assert make(dtype=torch.bfloat16).double().dtype == torch.float32, "what was chosen stays"


@pytest.mark.parametrize("saved", FORMS.values(), ids=FORMS)
@EVERY
def test_a_state_of_any_form_becomes_one_of_any_other(saved: dict[str, Any], form: dict[str, Any]) -> None:
    """Re-ordered, with one row gone and one that is new. These rows fit every form, and so come out as they were."""
    there = make(**saved)
    rows = torch.full((N, C), -0.5).scatter_(1, LABELS[:, None], torch.arange(N)[:, None] / 4)
    there.write(torch.arange(N), rows)
    parts = take_parts(there.state("alpha"), "alpha")
    assert saved_shape(parts) == (N, C)
    here = make(**form)
    here.load(parts, torch.tensor([3, 2, 6]), torch.tensor([2, 3, 1]))  # of rows with the same labels
    expected = initial()
    expected[[3, 2, 6]] = rows[[2, 3, 1]]
    assert torch.equal(here.values, expected.to(here.dtype))
    assert here.state("alpha").keys() == make(**form).state("alpha").keys()


def test_rows_of_any_shape_and_kind() -> None:
    table = RowTable(4, (2, 3), dtype=torch.int32, fill=-1)
    table.write(torch.tensor([2]), torch.ones(1, 2, 3))
    assert table.read(torch.tensor([2, 0])).tolist() == [[[1] * 3] * 2, [[-1] * 3] * 2]
    assert table.values.dtype == torch.int32
    numbers = RowTable(3, fill=0.5, dtype=torch.bfloat16)
    numbers.add(torch.tensor([1, 1]), torch.ones(2))
    assert numbers.values.tolist() == [0.5, 2.5, 0.5]


def test_positions_outside_are_named() -> None:
    for form in FORMS.values():
        with pytest.raises(IndexError, match=r"index 7 \(row 1 of the batch\) lies outside the 7 training samples"):
            make(**form).read(torch.tensor([0, 7]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k must be a whole number, at least 1, got 0"),
        ({"top_k": 2.0}, "got 2.0"),
        ({"top_k": True}, "got True"),
        ({"top_k": 2, "shape": (2, 3)}, "top_k is for rows with a number for each class"),
        ({"top_k": 2, "labels": None}, "top_k is for rows with a number for each class and labels"),
        ({"top_k": 2, "dtype": torch.int64}, "not for torch.int64"),
    ],
)
def test_forms_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RowTable(N, **{"shape": (C,), "labels": LABELS} | settings)


def test_it_says_what_it_is() -> None:
    assert repr(make()) == "RowTable(7 rows of (6,), torch.float32)"
    assert repr(make(top_k=2, file=True)) == "RowTable(7 rows of (6,), top_k=2, torch.float32, on disk)"
