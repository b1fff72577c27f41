"""CSV files: separators, encodings, quotes, line ends, types, and invalid files."""

from pathlib import Path

import numpy as np
import pytest

from permll.data import Table, Texts
from permll.data.readers import read
from tests.helpers.reader_files import write

PLAIN = "size,color,label\n1,red,yes\n2.5,blue,no\n,red,yes\n4,,no\n"


def assert_plain(data) -> None:
    """Assert that the data are those of PLAIN."""
    assert data.classes == ("no", "yes")
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert data.ids == ("0", "1", "2", "3")
    assert isinstance(data.inputs, Table)
    assert list(data.inputs.columns) == ["size", "color"]
    np.testing.assert_array_equal(data.inputs.columns["size"], [1, 2.5, np.nan, 4])
    assert data.inputs.columns["size"].dtype == np.float64
    assert data.inputs.columns["color"].tolist() == ["red", "blue", "red", ""]


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("plain.csv", PLAIN, "utf-8"),
        ("upper.CSV", PLAIN, "utf-8"),
        ("bom.csv", PLAIN, "utf-8-sig"),
        ("windows.csv", PLAIN.replace("\n", "\r\n"), "utf-8-sig"),
        ("semicolon.csv", PLAIN.replace(",", ";"), "utf-8"),
        ("decimal_comma.csv", PLAIN.replace(",", ";").replace("2.5", "2,5"), "utf-8"),
        ("pipe.csv", PLAIN.replace(",", "|"), "utf-8"),
        ("tabs.tsv", PLAIN.replace(",", "\t"), "utf-8"),
        ("spaces.csv", PLAIN.replace(",", " , "), "utf-8"),
        ("quotes.csv", PLAIN.replace("red", '"red"').replace("size", '"size"'), "utf-8"),
        ("blank_lines.csv", PLAIN.replace("\n1", "\n\n1") + "\n\n", "utf-8"),
        ("no_last_line_end.csv", PLAIN.rstrip("\n"), "utf-8"),
    ],
)
def test_csv_reader_detects_separator_and_encoding(name: str, text: str, encoding: str, tmp_path: Path) -> None:
    assert_plain(read(write(tmp_path / name, text, encoding)))


def test_csv_reader_reads_quoted_cells(tmp_path: Path) -> None:
    path = write(
        tmp_path / "texts.csv",
        'text,label\n"Grüße, ""Änne""",gut\n"zwei\nZeilen",gut\nstraße 東京,übel\n"a;b;c;d",übel\n',
    )
    data = read(path, text="text")
    assert isinstance(data.inputs, Texts)
    assert data.inputs.texts == ('Grüße, "Änne"', "zwei\nZeilen", "straße 東京", "a;b;c;d")
    assert data.classes == ("gut", "übel")


def test_ids_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,x,y\n007,1,01\n07,2,1\n7,3,01\n1e3,4,1\n")
    data = read(path, label="y", id="id")
    assert data.ids == ("007", "07", "7", "1e3")
    assert data.classes == ("01", "1")


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (["10", "9", "10", "9"], ("9", "10")),
        (["1.0", "0.0", "1.0", "0.0"], ("0", "1")),
        (["true", "False", "true", "False"], ("False", "true")),
        (["-1", "1", "-1", "1"], ("-1", "1")),
    ],
)
def test_parse_labels(written: list[str], classes: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(f"{3 * i % 4},{label}\n" for i, label in enumerate(written))
    assert read(write(tmp_path / "a.csv", "x,label\n" + rows)).classes == classes


def test_infer_type(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "day,time,flag,mixed,price,label\n"
        "1970-01-03,1970-01-02 12:00:00,True,3,1e3,a\n"
        "1970-01-01,1970-01-01 00:00:00,false,red,-.5,b\n"
        ",,,red,,a\n"
        "1971-01-01,1970-01-01 06:00:00,true,3,+2,b\n",
    )
    columns = read(path).inputs.columns
    np.testing.assert_array_equal(columns["day"], [2, 0, np.nan, 365])
    np.testing.assert_array_equal(columns["time"], [1.5, 0, np.nan, 0.25])
    np.testing.assert_array_equal(columns["flag"], [1, 0, np.nan, 1])
    np.testing.assert_array_equal(columns["price"], [1000, -0.5, np.nan, 2])
    assert columns["mixed"].tolist() == ["3", "red", "red", "3"]


def test_decimal_comma_needs_other_separator(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'price,x,label\n"1,234",1,a\n"1,234",2,b\n"5,000",2,a\n"5,000",1,b\n')
    assert read(path).inputs.columns["price"].tolist() == ["1,234", "1,234", "5,000", "5,000"]


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        ("", "utf-8", r"a.csv is empty: its first line must hold the column names"),
        ("x,label\n", "utf-8", r"a.csv has no rows"),
        ("x,label\n1,ä\n", "latin-1", r"a.csv is not UTF-8 text \(line 2\); save it again as UTF-8 CSV"),
        ("ä,label\n1,2\n", "latin-1", r"a.csv is not UTF-8 text \(line 1\)"),
        (PLAIN, "utf-16", r"a.csv is not UTF-8 text \(line 1\)"),
        ("x,label\n1,a\n2,b,c\n", "utf-8", r"a.csv has 2 columns, but more cells in 1 line \(3\): correct those lines"),
        (
            "x,label\n1,a\n2\n\n3\n4,b,c\n",
            "utf-8",
            r"but fewer cells in 2 lines \(3, 5\) and more cells in 1 line \(6\)",
        ),
        ("label\n1,a\n2,b\n", "utf-8", r"a.csv has 1 column, but more cells in 2 lines \(2, 3\)"),
        ('x,label\n1,a\n"2,b\n', "utf-8", r"a.csv has a quote in line 3 that is never closed"),
        ('x,label\n1,a\n"2"3,b\n', "utf-8", r"a.csv has text after a closing quote in line 3"),
        ('x,label\n5" disk,a\n2,b\n', "utf-8", r"a.csv cannot be read as a table: single quotes in 1 line \(2\)"),
        ("x,label\r1,a\r2,b\r", "utf-8", r"a.csv uses CR-only line endings; save it again as UTF-8 CSV"),
        ("x,label\n1,a\n\x1f,\x1f\n", "utf-8", r"a.csv contains unprintable characters between cells"),
        ("x,x,label\n1,2,a\n", "utf-8", r"column names of .*a.csv must be unique; repeated: 1 name \(x\)"),
        (
            "x,label\n1,a\nNaN,b\n3,a\ninf,b\n",
            "utf-8",
            r"NaN or infinity in column 'x' in 2 lines \(3, 5\): correct or empty",
        ),
        ("x,label\n1,a\nNA,b\n3,a\n?,b\n", "utf-8", r"words like NA .* in column 'x' in 2 lines \(3, 5\): leave those"),
        ("x,label\n1,1.5\n2,2\n", "utf-8", r"fractions or huge numbers in 1 line \(2\)"),
        ("x,label\n1,1\n2,nan\n3,1\n4,2\n5,2\n", "utf-8", r"labels are missing in 1 line \(3\)"),
        ('x,label\n1,a\n2,""\n3,a\n4,\n5, \n', "utf-8", r"missing in 3 lines \(3, 5, 6\): .*no_label=\"\""),
    ],
)
def test_csv_reader_rejects_invalid_files(text: str, encoding: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path / "a.csv", text, encoding))
    assert "\n" not in str(caught.value)


def test_csv_errors_name_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'id,sentence,label\n\n7,"two\nlines",a\n8,one,\n\n7,one,a\n')
    with pytest.raises(ValueError, match=r"labels are missing in 1 line \(5\)"):
        read(path, text="sentence")
    with pytest.raises(ValueError, match=r"labels are missing in 1 line \(5\)"):
        read(path, text="sentence", ids=["x", "y", "z"])  # with any ids
    with pytest.raises(ValueError, match=r"ids must be unique; repeated: 1 id \(7 in lines 3 and 7\)"):
        read(path, text="sentence", id="id", no_label="")
    write(path, 'x,label\n1,a\n\n2,b\n3,a\n"4\n4",b\n5,c\n')
    with pytest.raises(ValueError, match=r"fewer than two samples in 1 class \(c: line 8\)"):
        read(path, text="x")
    kept = read(path, text="x", rare="drop")
    assert kept.ids == ("0", "1", "2", "3")
    assert [entry["names"] for entry in kept.metadata["left_out"] if entry["what"] == "row"] == [
        ["4"]
    ]  # ids, not lines


def test_csv_reader_accepts_long_cells(tmp_path: Path) -> None:
    long = "word " * 100_000
    data = read(write(tmp_path / "a.csv", f"text,label\n{long},a\nshort,b\n{long},a\nbrief,b\n"))
    assert data.inputs.texts[0] == long.strip()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "5.1,3.5,setosa\n4.9,3.0,virginica\n",
            {},
            r"none is named label: .* must hold the column names, but seems",
        ),
        (
            "5.1,3.5,setosa\n4.9,3.0,virginica\n",
            {"label": "species"},
            r"seems to hold values \(5.1, 3.5\): insert a line of",
        ),
        (
            "5,0,0,0,17\n3,0,0,0,12\n",
            {},
            r"repeated: 1 name \(0\)\. .* must hold the column names, but seems to hold",
        ),
        (
            "a good film,yes\na bad film,no\n",
            {},
            r"none is named label: .* The first line must hold the column names\.",
        ),
    ],
)
def test_csv_reader_hints_at_missing_header(text: str, options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "a.csv", text), **options)


def numeric_csv(cells: list[str], separator: str = ",") -> str:
    rows = "".join(f"{cell}{separator}{'ab'[i % 2]}{separator}{i % 3}\n" for i, cell in enumerate(cells))
    return f"x{separator}label{separator}z\n" + rows


NUMBERS = [f"{i / 7:.3f}" for i in range(30)]


@pytest.mark.parametrize("typo", ["1.5x", "#N/A!", "1 234", "1.2.3", '"1,234"', "12 cm"])
@pytest.mark.parametrize("options", [{}, {"features": ["x"]}, {"features": ["z", "x"]}], ids=str)
def test_non_numeric_cell_is_named(typo: str, options: dict, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", numeric_csv([*NUMBERS[:5], typo, *NUMBERS[5:], ""]))
    with pytest.raises(ValueError, match=r"column 'x' holds numbers except in 1 line \(7: '") as caught:
        read(path, **options)
    assert typo.strip('"') in str(caught.value)
    assert "correct or empty those cells" in str(caught.value)
    write(path, numeric_csv([*NUMBERS[:5], "", *NUMBERS[5:]]))
    assert np.isnan(read(path, **options).inputs.columns["x"]).sum() == 1


def test_decimal_comma_in_numeric_column(tmp_path: Path) -> None:
    cells = [number.replace(".", ",") for number in NUMBERS]
    path = write(tmp_path / "a.csv", numeric_csv([*cells, "1,2x", "?3"], ";"))
    with pytest.raises(ValueError, match=r"column 'x' holds numbers except in 2 lines \(32: '1,2x', 33: '\?3'\)"):
        read(path)


def test_categories_with_some_numbers_are_accepted(tmp_path: Path) -> None:
    for cells in (["1", "2", "3", "4", "old"] * 3, ["1", "2", "3", "old", "old"], ["1"] * 17 + ["new", "old", "no"]):
        data = read(write(tmp_path / "a.csv", numeric_csv(cells)))
        assert data.inputs.columns["x"].tolist() == cells
