"""CSV files as people have them: separators, marks, quotes, line ends; and what makes one unreadable."""

from pathlib import Path

import numpy as np
import pytest

from permll.data import Table, Texts
from permll.data.own import read
from tests.data.own.files import write

PLAIN = "size,colour,label\n1,red,yes\n2.5,blue,no\n,red,yes\n4,,no\n"


def same(data) -> None:
    """Assert what PLAIN holds."""
    assert data.classes == ("no", "yes")
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert data.ids == ("0", "1", "2", "3")
    assert isinstance(data.inputs, Table)
    assert list(data.inputs.columns) == ["size", "colour"]
    np.testing.assert_array_equal(data.inputs.columns["size"], [1, 2.5, np.nan, 4])
    assert data.inputs.columns["size"].dtype == np.float64
    assert data.inputs.columns["colour"].tolist() == ["red", "blue", "red", ""]


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
def test_one_table_in_many_dresses(name: str, text: str, encoding: str, tmp_path: Path) -> None:
    same(read(write(tmp_path / name, text, encoding)))


def test_quotes_commas_line_breaks_and_umlauts_in_texts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "said.csv",
        'text,label\n"Grüße, ""Änne""",gut\n"zwei\nZeilen",gut\nstraße 東京,übel\n"a;b;c;d",übel\n',
    )
    data = read(path, text="text")
    assert isinstance(data.inputs, Texts)
    assert data.inputs.texts == ('Grüße, "Änne"', "zwei\nZeilen", "straße 東京", "a;b;c;d")
    assert data.classes == ("gut", "übel")


def test_names_that_look_like_numbers_stay_as_they_are_written(tmp_path: Path) -> None:
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
def test_labels_in_cells(written: list[str], classes: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(f"{3 * i % 4},{label}\n" for i, label in enumerate(written))
    assert read(write(tmp_path / "a.csv", "x,label\n" + rows)).classes == classes


def test_types_of_cells(tmp_path: Path) -> None:
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


def test_a_comma_in_a_number_is_no_decimal_point_where_commas_separate(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'price,x,label\n"1,234",1,a\n"1,234",2,b\n"5,000",2,a\n"5,000",1,b\n')
    assert read(path).inputs.columns["price"].tolist() == ["1,234", "1,234", "5,000", "5,000"]


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        ("", "utf-8", r"a.csv is empty: its first line must name the columns"),
        ("x,label\n", "utf-8", r"a.csv has no rows"),
        ("x,label\n1,ä\n", "latin-1", r"a.csv is not UTF-8 text \(line 2\): save it as CSV UTF-8"),
        ("ä,label\n1,2\n", "latin-1", r"a.csv is not UTF-8 text \(line 1\)"),
        (PLAIN, "utf-16", r"a.csv is not UTF-8 text \(line 1\)"),
        ("x,label\n1,a\n2,b,c\n", "utf-8", r"line 3 of .*a.csv has 3 cells, but there are 2 columns"),
        ('x,label\n1,a\n"2,b\n', "utf-8", r"a.csv has a quote after line 2 that is never closed"),
        ("x,x,label\n1,2,a\n", "utf-8", r"columns of the same name: 1 name \(x\); rename them"),
        ("x,label\n1,a\nNaN,b\n3,a\ninf,b\n", "utf-8", r"NaN or infinity in column 'x' in 2 rows \(1, 3\): empty"),
        ("x,label\n1,a\nNA,b\n3,a\n?,b\n", "utf-8", r"numbers but for a word .* 'x' in 2 rows \(1, 3\): empty those"),
        ("x,label\n1,1.5\n2,2\n", "utf-8", r"fractions or huge numbers in 1 row \(0\)"),
        ("x,label\n1,1\n2,nan\n3,1\n4,2\n", "utf-8", r"labels are missing in 1 row \(1\)"),
        ('x,label\n1,a\n2,""\n3,a\n4,\n5, \n', "utf-8", r"missing in 3 rows \(1, 3, 4\): .*no_label=\"\""),
    ],
)
def test_files_that_cannot_be_read(text: str, encoding: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path / "a.csv", text, encoding))
    assert "\n" not in str(caught.value)
