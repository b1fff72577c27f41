"""docs/noise.md: its code runs, and its tables match the committed results, which are reproduced."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from permll.noise import corrupt
from permll.noise.cifar_n import LABEL_SETS
from permll.noise.presets import CONVENTIONS, KIND_DESCRIPTIONS, KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "noise.md").read_text()
CODE_BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLASSES = {"CIFAR-10": 10, "CIFAR-100": 100}
SETTINGS = [("sym", 0.2), ("sym", 0.4), ("sym", 0.6), ("sym", 0.8), ("asym", 0.2), ("asym", 0.4)]


def read_results() -> list[dict[str, str]]:
    with (ROOT / "results" / "noise_rates.csv").open() as file:
        return list(csv.DictReader(file))


def table_after(line: str) -> list[list[str]]:
    """Return the cells of the table after a heading or line."""
    body = PAGE.split(f"{line}\n\n|", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip(" `") for cell in row.strip("| ").split(" | ")] for row in body.splitlines()]
    return [rows[0], *rows[2:]]


@pytest.mark.parametrize("samples", [50_000, 45_000])
@pytest.mark.parametrize("data_set", CLASSES)
def test_noise_page_tables_match_results(data_set: str, samples: int) -> None:
    name = data_set.lower().replace("-", "")
    measured = {
        (row["convention"], row["kind"], float(row["nominal"])): row
        for row in read_results()
        if (row["data_set"], row["samples"]) == (name, str(samples))
    }
    head, *rows = table_after(f"### {data_set}, {samples:,} labels")
    assert head == ["convention", *(f"{kind} {100 * rate:.0f} %" for kind, rate in SETTINGS)]
    assert [row[0] for row in rows] == list(CONVENTIONS)
    assert len(measured) == len(CONVENTIONS) * len(SETTINGS)
    for convention, *cells in rows:
        for (kind, nominal), cell in zip(SETTINGS, cells, strict=True):
            row = measured[convention, kind, nominal]
            rate, spread = 100 * float(row["rate"]), 100 * float(row["spread"])
            assert cell == (f"{rate:.2f} ± {spread:.2f}" if spread else f"{rate:.2f}")
            assert row["seeds"] == ("1" if convention == "permll" else "5")


@pytest.mark.parametrize(
    "row", [row for row in read_results() if row["convention"] == "permll"], ids=lambda row: str(row)
)
def test_paper_rates_are_reproduced(row: dict[str, str]) -> None:
    classes = 10 if row["data_set"] == "cifar10" else 100
    each = int(row["samples"]) // classes
    labels, name = np.repeat(np.arange(classes), each), f"permll:{row['kind']}:{row['nominal']}"
    record = corrupt(labels, name, seed=42, data_set=row["data_set"])
    assert round(record.rate, 6) == float(row["rate"])
    # Of the selected samples of class i, assigned i - 1, i, i + 1, ... in turn, the 2nd, the (c + 2)nd, ... keep it.
    selected = round(float(row["nominal"]) * each)
    wrong = selected - len(range(1, selected, classes)) if row["kind"] == "sym" else selected
    mapped_fraction = 0.5 if (row["kind"], classes) == ("asym", 10) else 1.0
    assert record.rate == pytest.approx(mapped_fraction * wrong / each)


def test_sixty_percent_has_lower_realized_rate() -> None:
    rates = {
        (row["data_set"], row["samples"]): row["rate"]
        for row in read_results()
        if (row["convention"], row["kind"], row["nominal"]) == ("permll", "sym", "0.6")
    }
    assert rates["cifar10", "50000"] == rates["cifar10", "45000"] == "0.54"
    assert (rates["cifar100", "50000"], rates["cifar100", "45000"]) == ("0.594", "0.593333")


def test_noise_page_lists_all_kinds_and_conventions() -> None:
    kinds = table_after("A name is `convention:kind:rate`. The **kind** determines the new class of a selected label:")
    assert [row[0] for row in kinds[1:]] == list(KINDS) == list(KIND_DESCRIPTIONS)
    picks = {"exact": "exact fraction of all", "per_class": "exact fraction of each class"}
    picks["coin"] = "each independently"
    conventions = table_after(
        "so results are comparable only within one convention. Each row follows the authors' code:"
    )
    assert [row[0].split("`")[0] for row in conventions[1:]] == list(CONVENTIONS)
    for name, sym, keep, asym, cifar100 in conventions[1:]:
        convention = CONVENTIONS[name.split("`")[0]]
        assert (sym, asym) == (picks[convention.sym_pick], picks[convention.asym_pick])
        assert keep.startswith("yes") == convention.include_true
        assert ("in turn" in keep) == convention.cycle
        assert cifar100 == convention.cifar100_asym


def test_noise_page_lists_all_cifar_n_label_sets() -> None:
    _, *rows = table_after(
        "It runs no code from the file, and checks that the labels belong to the images in this order:"
    )
    assert rows == [
        [name, label_set.key, f"{100 * label_set.noise_rate:.2f} %"] for name, label_set in LABEL_SETS.items()
    ]


def run_blocks(blocks: list[str]) -> dict[str, object]:
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    return names


def test_noise_page_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(CODE_BLOCKS) == 4
    names = run_blocks(CODE_BLOCKS[:3])
    assert names["record"].rate == 0.54
    assert (names["noisy"] == names["record"].noisy).all()
    assert f"noise  # {names['noise']!r}\n" in CODE_BLOCKS[1]
    assert names["first"].rate == pytest.approx(0.6, abs=0.01)
    assert names["both"].noise["name"] == "poly_margin:II, then sym:0.3"


@pytest.mark.slow
def test_noise_page_estimate_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_blocks(CODE_BLOCKS[3:])["estimate"].rate == pytest.approx(0.4, abs=0.08)
