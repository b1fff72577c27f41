"""The page on noise tells the truth: its code runs, its tables are the committed results, which come out again."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from permll.noise import corrupt, named_noise
from permll.noise.human import SETS
from permll.noise.presets import CONVENTIONS, KINDS, MEANINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "noise.md").read_text()
CLASSES = {"CIFAR-10": 10, "CIFAR-100": 100}
SETTINGS = [("sym", 0.2), ("sym", 0.4), ("sym", 0.6), ("sym", 0.8), ("asym", 0.2), ("asym", 0.4)]


def results() -> list[dict[str, str]]:
    with (ROOT / "results" / "noise_rates.csv").open() as file:
        return list(csv.DictReader(file))


def table(under: str) -> list[list[str]]:
    """Return the cells of the table below a heading or line."""
    body = PAGE.split(f"{under}\n\n|", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip(" `") for cell in line.strip("| ").split(" | ")] for line in body.splitlines()]
    return [rows[0], *rows[2:]]


@pytest.mark.parametrize("samples", [50_000, 45_000])
@pytest.mark.parametrize("data_set", CLASSES)
def test_the_tables_are_the_results(data_set: str, samples: int) -> None:
    name = data_set.lower().replace("-", "")
    measured = {
        (row["convention"], row["kind"], float(row["nominal"])): row
        for row in results()
        if (row["data_set"], row["samples"]) == (name, str(samples))
    }
    head, *rows = table(f"### {data_set}, {samples:,} labels")
    assert head == ["convention", *(f"{kind} {100 * rate:.0f} %" for kind, rate in SETTINGS)]
    assert [row[0] for row in rows] == list(CONVENTIONS)
    assert len(measured) == len(CONVENTIONS) * len(SETTINGS)
    for convention, *cells in rows:
        for (kind, nominal), cell in zip(SETTINGS, cells, strict=True):
            row = measured[convention, kind, nominal]
            rate, spread = 100 * float(row["rate"]), 100 * float(row["spread"])
            assert cell == (f"{rate:.2f} ± {spread:.2f}" if spread else f"{rate:.2f}")
            assert row["seeds"] == ("1" if convention == "permll" else "5")


@pytest.mark.parametrize("row", [row for row in results() if row["convention"] == "permll"], ids=lambda row: str(row))
def test_the_papers_rates_come_out_again(row: dict[str, str]) -> None:
    classes = 10 if row["data_set"] == "cifar10" else 100
    each = int(row["samples"]) // classes
    name = f"permll:{row['kind']}:{row['nominal']}"
    noise = named_noise(name, classes, data_set=row["data_set"])
    record = corrupt(np.repeat(np.arange(classes), each), noise, seed=42)
    assert round(record.rate, 6) == float(row["rate"])
    # By hand: of the picked samples of a class, dealt i - 1, i, i + 1, ..., the 2nd, the (c + 2)nd, ... keep it.
    picked = round(float(row["nominal"]) * each)
    wrong = picked - len(range(1, picked, classes)) if row["kind"] == "sym" else picked
    share = 0.5 if (row["kind"], classes) == ("asym", 10) else 1.0
    assert record.rate == pytest.approx(share * wrong / each)


def test_sixty_per_cent_is_not_sixty_per_cent() -> None:
    rates = {
        (row["data_set"], row["samples"]): row["rate"]
        for row in results()
        if (row["convention"], row["kind"], row["nominal"]) == ("permll", "sym", "0.6")
    }
    assert rates["cifar10", "50000"] == rates["cifar10", "45000"] == "0.54"
    assert (rates["cifar100", "50000"], rates["cifar100", "45000"]) == ("0.594", "0.593333")


def test_every_kind_and_convention_is_explained() -> None:
    kinds = table("A name is `convention:kind:rate`. The **kind** says where a picked label goes:")
    assert [row[0] for row in kinds[1:]] == list(KINDS) == list(MEANINGS)
    picks = {"exact": "exactly that share of all", "per_class": "exactly that share of each class"}
    picks["coin"] = "a coin for each"
    conventions = table("different things by it, so results are comparable only within one convention. "
                        "Each is as read in the authors' code:")  # fmt: skip
    assert [row[0].split("`")[0] for row in conventions[1:]] == list(CONVENTIONS)
    for name, sym, keep, asym, cifar100 in conventions[1:]:
        convention = CONVENTIONS[name.split("`")[0]]
        assert (sym, asym) == (picks[convention.sym], picks[convention.asym])
        assert keep.startswith("yes") == convention.include_true
        assert ("in turn" in keep) == convention.cycle
        assert cifar100 == convention.cifar100


def test_every_set_of_human_labels_is_listed() -> None:
    _, *rows = table("any code that may be in them, and checks that they are for the images in this order. There are:")
    format_list = [[name, known.key, f"{100 * known.published:.2f} %"] for name, known in SETS.items()]
    assert rows == format_list


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, names)
    assert names["record"].rate == 0.54
    assert (names["noisy"] == names["record"].noisy).all()
    assert f"noise  # {names['noise']!r}\n" in blocks[1]
    assert names["first"].rate == pytest.approx(0.6, abs=0.01)
    assert names["both"].noise["name"] == "poly_margin:II, then sym:0.3"
    assert names["found"].rate == pytest.approx(0.4, abs=0.08)
