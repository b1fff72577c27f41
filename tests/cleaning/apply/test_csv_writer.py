"""CSV files with new labels: every other byte is preserved."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.apply import apply
from permll.cleaning.apply.csv_writer import cell_text, parse_lines, quote_cell
from permll.cleaning.review_decisions import Decisions
from permll.data import load
from tests.helpers.apply_runs import ROWS, csv_text, label_of, make_run, train_run

text = st.text(alphabet='ab,;"\n\r é\t', max_size=6)


@given(st.binary(max_size=60), st.sampled_from([b",", b";", b"\t", b"|"]))
def test_parse_lines_preserves_bytes(content: bytes, separator: bytes) -> None:
    lines = list(parse_lines(content, separator))
    assert b"".join(separator.join(line.cells) + line.end for line in lines) == content


@given(st.lists(st.lists(text, min_size=2, max_size=4), min_size=1, max_size=5), st.sampled_from(",;\t|"))
def test_parse_lines_matches_csv_module(rows: list[list[str]], separator: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator).writerows(rows)
    lines = list(parse_lines(file.getvalue().encode(), separator.encode()))
    assert [[cell_text(cell) for cell in line.cells] for line in lines] == [
        [cell.strip() for cell in row] for row in rows
    ]


@given(text, st.sampled_from(",;\t|"))
def test_quote_cell_round_trip(word: str, separator: str) -> None:
    line = quote_cell(word, separator.encode()) + separator.encode() + b"end"
    (row,) = csv.reader(io.StringIO(line.decode(), newline=""), delimiter=separator)
    assert row == [word, "end"]


def new_table(folder: Path, content: bytes, name: str = "data.csv", **options: object) -> bytes:
    """Return the corrected table if the label of the first row becomes owl."""
    (folder / name).write_bytes(content)
    first = str(load(folder / name, **options).ids[0])
    run = make_run(folder / name, folder / "run", {first: ("owl", 0.99)}, **options)
    out = folder / f"new{Path(name).suffix}"
    applied = apply(run, out, auto=True)
    assert applied.num_changed == 1
    assert (folder / name).read_bytes() == content
    return out.read_bytes()


@pytest.mark.parametrize(
    ("separator", "end", "start", "name"),
    [
        (",", "\n", b"", "data.csv"),
        (";", "\r\n", b"\xef\xbb\xbf", "data.csv"),
        ("\t", "\n", b"", "data.tsv"),
        ("|", "\n", b"", "data.CSV"),
    ],
)
def test_csv_writer_preserves_dialect(separator: str, end: str, start: bytes, name: str, tmp_path: Path) -> None:
    old = csv_text(separator, end)
    new = new_table(tmp_path, start + old.encode(), name, label="kind")
    lines = old.split(end)
    expected = [
        lines[0] + f"{separator}label_original{separator}label_source",
        lines[1].removesuffix("cat") + f"owl{separator}cat{separator}auto",
        *(f"{line}{separator}{label_of(row)}{separator}given" for row, line in enumerate(lines[2:-1], 1)),
        "",
    ]
    assert new == start + end.join(expected).encode()


def test_csv_writer_preserves_other_cells(tmp_path: Path) -> None:
    rows = [f'{row},"say ""{row}"", é\n二",{"" if row % 2 else "0.10"}, 1e3 ,"{label_of(row)}"' for row in range(ROWS)]
    content = "id,words,number,other,label\n" + "\n".join(rows)  # without a final line break
    new = new_table(tmp_path, content.encode(), text="words").decode()
    assert new.startswith("id,words,number,other,label,label_original,label_source\n")
    assert '0,"say ""0"", é\n二",0.10, 1e3 ,"owl","cat",auto\n' in new
    for row in range(1, ROWS):
        assert f'{rows[row]},"{label_of(row)}",given' in new
    assert not new.endswith("\n")


def test_csv_writer_keeps_unlabeled_rows_and_blank_lines(tmp_path: Path) -> None:
    lines = csv_text().splitlines()
    lines[5:5] = ["n98,001,0.5,", "", ",,,"]
    new = new_table(tmp_path, "\n".join([*lines, ""]).encode(), label="kind", no_label="").decode().splitlines()
    assert new[5:8] == ["n98,001,0.5,,,given", "", ",,,,,"]
    assert len(new) == len(lines)


def test_csv_writer_uses_most_frequent_label_text(tmp_path: Path) -> None:
    """1.0 and 1 are the same class: a new label is written in the most frequent form of its class."""
    words = ["1.0", "2", "1", "2", "1.0", "2"]
    content = "x,y\n" + "".join(f"{row % 5}.5,{word}\n" for row, word in enumerate(words * 4))
    (tmp_path / "data.csv").write_text(content)
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {"1": ("1", 0.99), "2": ("2", 0.99)})
    apply(run, tmp_path / "new.csv", auto=True)
    new = (tmp_path / "new.csv").read_text().splitlines()
    assert new[2:4] == ["1.5,1.0,2,auto", "2.5,2,1,auto"]


def test_csv_writer_writes_unused_class_name(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text())
    options = {"label": "kind", "classes": ["cat", "dog", "owl", "a, b"], "rare": "keep"}
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {}, **options)
    Decisions(run.folder).add("3", "choose", "a, b", "Ada", expected=None)
    apply(run, tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_text().splitlines()[4].endswith(',"a, b",cat,chosen')
    assert load(tmp_path / "new.csv", **options)[3].label == "a, b"


def test_csv_writer_second_round_keeps_original_label(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text())
    first = make_run(tmp_path / "data.csv", tmp_path / "run", {}, label="kind")
    decisions = Decisions(first.folder)
    decisions.add("0", "choose", "dog", "Ada", expected=None)
    decisions.add("1", "choose", "owl", "Ada", expected=None)
    decisions.add("2", "keep", "owl", "Ada", expected=None)
    apply(first, tmp_path / "one.csv")
    with (tmp_path / "one.csv").open("a") as file:
        file.write("n99,000,1.0,cat,,\n")  # a row that was added later
    second = make_run(tmp_path / "one.csv", tmp_path / "run2", {"0": ("owl", 0.99)}, label="kind")
    apply(second, tmp_path / "two.csv", auto=True)
    lines = (tmp_path / "two.csv").read_text().splitlines()
    assert lines[0] == "name,code,size,kind,label_original,label_source"
    assert [line.split(",")[3:] for line in lines[1:5]] == [
        ["owl", "cat", "auto"],
        ["owl", "dog", "chosen"],
        ["owl", "owl", "kept"],
        ["cat", "cat", "given"],
    ]
    assert lines[-1] == "n99,000,1.0,cat,cat,given"


@pytest.mark.parametrize(
    ("header", "cells", "message"),
    [
        ("label_source", "shop", "already has a column 'label_source', which apply adds"),
        ("label_original,label_source", "x,shop", r"was not written by permll, it contains 1 unknown value \(shop\)"),
    ],
)
def test_csv_writer_refuses_reserved_columns(header: str, cells: str, message: str, tmp_path: Path) -> None:
    lines = csv_text().splitlines()
    content = "\n".join([f"{lines[0]},{header}", *(f"{line},{cells}" for line in lines[1:])])
    (tmp_path / "data.csv").write_text(content)
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {"0": ("owl", 0.99)}, label="kind")
    with pytest.raises(ValueError, match=message):
        apply(run, tmp_path / "new.csv", auto=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "run"]


def test_csv_writer_adds_column_of_separate_labels(tmp_path: Path) -> None:
    lines = [line.rpartition(",")[0] for line in csv_text().splitlines()]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    run = make_run(
        tmp_path / "data.csv", tmp_path / "run", {"0": ("owl", 0.99)}, labels=[label_of(k) for k in range(ROWS)]
    )
    apply(run, tmp_path / "new.csv", auto=True)
    new = (tmp_path / "new.csv").read_text().splitlines()
    assert new[0] == f"{lines[0]},label,label_original,label_source"
    assert new[1:3] == [f"{lines[1]},owl,cat,auto", f"{lines[2]},dog,dog,given"]


def test_reader_ignores_history_columns(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text())
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {"3": ("dog", 0.99)}, label="kind")
    before = load(tmp_path / "data.csv", label="kind")
    apply(run, tmp_path / "new.csv", auto=True)
    after = load(tmp_path / "new.csv", label="kind")
    assert (after.classes, after.ids) == (before.classes, before.ids)
    changed = (after.labels != before.labels).nonzero()[:, 0].tolist()
    assert changed == [3]
    assert after[3].label == "dog"
    assert after.metadata["features"] == before.metadata["features"] == ["code", "size"]
    notes = [note for note in after.metadata["left_out"] if note["names"] == ["label_original", "label_source"]]
    assert len(notes) == 1
    named = load(tmp_path / "new.csv", label="kind", features=["size", "label_source"])
    assert named.metadata["features"] == ["size", "label_source"]
    train_run(tmp_path / "new.csv", tmp_path / "run2", {}, label="kind")
