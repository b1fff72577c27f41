"""The paper's numbers against its LaTeX source."""

import re
from pathlib import Path

import pytest

from permll.methods import METHODS
from permll.report.paper_numbers import PAPER_RESULTS, TABLE1_NOISE

# The paper's sources lie beside a checkout, never in it.
PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper" / "permll.tex"
NAMES = {
    "Bootstrap": ("bootstrap_soft", "bootstrap_hard"),
    "ELR+*": ("elr_plus",),
    "DivideMix*": ("dividemix",),
    "UniCon*": ("unicon",),
}
Results = dict[tuple[str, str, str, str], tuple[float, float | None]]


@pytest.fixture
def tables() -> list[str]:
    if not PAPER.is_file():
        pytest.skip("the paper's permll.tex is not beside this checkout, in ../shared/paper")
    return re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", PAPER.read_text(), re.DOTALL)


def methods(printed: str) -> tuple[str, ...]:
    return NAMES.get(printed, (printed.lower(),))


def plain(cell: str) -> str:
    """Return what a cell says, without how it is set."""
    cell = re.sub(r"\\cite\s*\{.*?\}", "", cell)
    cell = re.sub(r"\\multicolumn\{\d\}\{[^{}]*\}\{(.*)\}", r"\1", cell.strip())
    return re.sub(r"\\(textbf|textit)\{(.*?)\}", r"\2", cell).strip()


def first_table(text: str) -> Results:
    results: Results = {}
    data = ""
    for line in text.splitlines():
        if match := re.search(r"multirow\{\d\}\{\*\}\{\\textbf\{(CIFAR\d+)\}\}", line):
            data = match[1].lower()
        if not data or line.count("&") != 7:
            continue
        _, name, *cells = (plain(cell) for cell in line.split("\\\\")[0].split("&"))
        for noise, cell in zip(TABLE1_NOISE, cells, strict=True):
            numbers = [float(number) for number in re.findall(r"\d+\.\d+", cell)]
            assert numbers or cell in ("-", "fail")
            for method in methods(name) if numbers else ():
                results["table1", method, data, noise] = (numbers[0], numbers[1] if len(numbers) > 1 else None)
    return results


def second_table(text: str) -> Results:
    results: Results = {}
    for line in text.splitlines():
        cells = [plain(cell) for cell in line.split("\\\\")[0].split("&")]
        if len(cells) == 4 and re.fullmatch(r"\d+\.\d+", cells[1]):
            for name, value in (cells[:2], cells[2:]):
                results["table2", methods(name)[0], "clothing1m", "real"] = (float(value), None)
    return results


def test_paper_results_match_source(tables: list[str]) -> None:
    first, second = tables
    assert first_table(first) | second_table(second) == PAPER_RESULTS


def test_paper_results_are_complete() -> None:
    by_table = {table: [key for key in PAPER_RESULTS if key[0] == table] for table in ("table1", "table2")}
    # CIFAR-10: ten rows of six, three numbers not printed; CIFAR-100: eleven rows of six, five not printed.
    assert (len(by_table["table1"]), len(by_table["table2"])) == (10 * 6 - 3 + 11 * 6 - 5, 10)
    assert {method for _, method, _, _ in PAPER_RESULTS} <= set(METHODS)
    assert PAPER_RESULTS["table1", "permll", "cifar10", "sym-60"] == (87.94, 0.21)
