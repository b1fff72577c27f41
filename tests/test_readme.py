"""README and docs: their code runs, and their numbers are those of the committed results."""

import csv
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import (
    annotators,
    audit,
    auto_apply_safety,
    cleaning,
    cleaning_ablation,
    estimators,
    holdout_settings,
    safety,
    scales,
    suite,
    verdict_ablation,
)
from benchmarks.timing import read_csv

import permll
from permll.bench import read_rows
from permll.report.tables import render_tables

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
NUMBERS = {9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
README = (ROOT / "README.md").read_text()


def block(language: str, holding: str = "") -> str:
    (found,) = (code for code in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if holding in code)
    return found


def results(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_readme_loop_runs_and_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changed = "\n".join(line[1:] for line in block("diff").splitlines() if not line.startswith("-"))
    x, train_labels = torch.randn(400, 5), torch.arange(400) % 10
    net = torch.nn.Linear(5, 10)
    names = {
        "permll": permll,
        "torch": torch,
        "train_labels": train_labels,
        "net": net,
        "optimizer": torch.optim.SGD(net.parameters(), lr=0.1),
        "loader": [(x[i], train_labels[i], i) for i in torch.arange(400).split(100)],
    }
    exec(changed, names)
    exec(block("python", "layer.suspects"), names)
    predictions = names["layer"].predictions.values
    assert torch.allclose(predictions.sum(1), torch.ones(400))
    assert torch.equal(torch.load("layer.pt", weights_only=True)["predictions.values"], predictions)


@pytest.mark.parametrize(
    ("method", "column"),
    [
        ("ce", "last"),
        ("ce", "best"),
        ("permll_plus", "last"),
        ("permll_plus", "best"),
        ("permll_plus", "right_after"),
        ("permll_plus", "precision"),
        ("permll_plus", "recall"),
    ],
)
def test_readme_demo_numbers(method: str, column: str) -> None:
    values = [100 * float(row[column]) for row in results("demo") if row["method"] == method]
    assert len(values) == 5
    assert f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" in README


def test_readme_cost_of_layer() -> None:
    rows = results("layer")
    assert all(row["met"] == "True" for row in rows if row["target"])
    steps = [row for row in rows if row["what"].startswith("step: layer")]
    judged = [float(row["ratio_median"]) for row in steps if row["target"]]
    bare = [float(row["ratio_median"]) for row in steps if not row["target"]]
    assert f"takes {min(judged):.3f} to {max(judged):.3f} times as long as with plain cross-entropy" in README
    assert f"{min(bare):.2f} to {max(bare):.2f} times for a" in README
    dense = {row["classes"]: row for row in rows if row["what"].startswith("dense")}
    assert f"It is {float(dense['10']['ratio_median']):.0f} times faster" in README
    assert "more than 10,000 times at 100" in README
    assert float(dense["100"]["median_low95"]) > 10_000
    longest = max(float(row["ratio_median"]) for row in rows if row["what"].startswith("step: N"))
    assert f"takes {longest:.2f} times as long as one with 10 thousand" in README


def test_readme_cost_of_permll_plus() -> None:
    own = [
        float(row["ratio_median"])
        for row in results("training")
        if row["what"].startswith("permll_plus") and "784" not in row["network"]
    ]
    assert len(own) == 3
    assert f"With PermLL+ it takes {min(own):.3f} to {max(own):.3f} times as long" in README
    bare, step, small, large = (float(row["ratio_median"]) for row in results("training")[-4:])
    assert f"with PermLL+ {bare:.2f} times" in README
    assert f"{step:.2f} times as long for an MLP whose step takes 3 ms" in README
    assert f"10,000 samples takes {small:.2f} times as long, one of 50,000 samples {large:.2f} times" in README


def test_readme_speed_of_input() -> None:
    rows = {row["what"]: row for row in results("input")}
    plain, workers = (rows[f"images/s: crop, flip, normalize{more}"] for more in ("", ", PIL in 2 workers"))
    assert plain["met"] == "True"
    assert f"at {float(plain['ratio_median']):.1f} times the speed of a per-image PIL pipeline" in README
    assert f"and still {float(workers['ratio_median']):.1f}\n" in README
    assert f"the first batch is ready {float(rows['seconds: files to first batch']['ours']):.3f} s after" in README


def test_readme_table() -> None:
    (shown,) = re.findall(r"<!-- results/mini.table1.md -->\n(.*?)<!-- end -->", README, re.DOTALL)
    assert shown == render_tables(read_rows(RESULTS / "mini.csv"), table="table1", format="markdown")


@pytest.mark.parametrize(
    ("noise", "method"),
    [
        ("sym-60", "ce"),
        ("sym-60", "elr"),
        ("sym-60", "dividemix"),
        ("sym-60", "permll"),
        ("sym-60", "jocor"),
        ("sym-80", "ce"),
        ("sym-80", "elr"),
        ("sym-80", "permll"),
        ("asym-40", "joint"),
        ("asym-40", "permll"),
        ("asym-40", "permll_plus"),
    ],
)
def test_readme_accuracies(noise: str, method: str) -> None:
    assert mean_and_spread(noise, method, "last") in README


@pytest.mark.parametrize(("noise", "method"), [("sym-40", "permll_plus"), ("sym-40", "dividemix")])
def test_readme_corrected_labels(noise: str, method: str) -> None:
    assert mean_and_spread(noise, method, "right_after") in README


def mean_and_spread(noise: str, method: str, column: str) -> str:
    """Return mean and spread of a column at tier mini."""
    rows = [row for row in results("mini") if (row["noise"], row["method"], row["variant"]) == (noise, method, "")]
    values = [100 * float(row[column]) for row in rows]
    assert len(values) == 3
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def test_permll_plus_ties_with_best_in_all_columns_and_is_first_by_mean_rank() -> None:
    rows = read_rows(RESULTS / "mini.csv")
    (own,) = (line for line in render_tables(rows, table="table1", format="markdown").splitlines() if "PermLL+" in line)
    assert own.count("**") == 2 * 6
    assert "ties with the best in all six columns" in README
    ranks = render_tables(rows, table="ranks", format="markdown").splitlines()
    assert next(line for line in ranks if re.match(r"\| \w", line) and "mean rank" not in line).startswith(
        "| PermLL+ |"
    )


def test_permll_plus_corrected_labels_tie_with_best() -> None:
    rows = read_rows(RESULTS / "mini.csv")
    lines = render_tables(rows, table="correction", format="markdown").splitlines()
    (own,) = (line for line in lines if line.startswith("| PermLL+ |"))
    after = [cell for number, cell in enumerate(own.split("|")[2:-1]) if number % 4 == 1]
    assert len(after) == 6
    assert sum("**" in cell for cell in after) == 5
    assert "**" not in after[1]  # 40 % symmetric noise
    assert "Its proposed labels tie with the best in five of six columns" in README


def test_permll_plus_beats_ce_on_holdout_settings() -> None:
    def values(method: str, setting: str, column: str = "last") -> list[float]:
        rows = [row for row in results("holdout_settings") if row["set"] == f"{method}/{setting}"]
        assert [row["seed"] for row in rows] == ["1", "2", "3"]
        return [float(row[column]) for row in rows]

    tied = 0
    for setting in holdout_settings.settings(None, None, None):
        own = values("permll_plus", setting)
        assert statistics.mean(own) > statistics.mean(values("ce", setting, "best_test"))
        best = max((values(method, setting) for method in holdout_settings.METHODS[:-1]), key=statistics.mean)
        differences = [one - other for one, other in zip(own, best, strict=True)]
        margin = 4.303 * statistics.stdev(differences) / 3**0.5  # 95 % interval of the mean of three
        tied += statistics.mean(differences) + margin > 0
    assert tied == 6
    assert "first or tied with the first in all six" in README


DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")))
def test_docs_links_exist(page: str) -> None:
    """The strict build of the site refuses links that leave docs/."""
    text = re.sub(r"```.*?```|`[^`]*`", "", (DOCS / page).read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not re.match(r"\w+:", target):
            found = ((DOCS / page).parent / target).resolve()
            assert found.is_file(), target
            assert found.is_relative_to(DOCS), target


@pytest.mark.parametrize("scale", scales.SCALES)
def test_permll_plus_default_at_every_scale(scale: str) -> None:
    def mean(method: str) -> float:
        rows = [row for row in results("scales") if row["set"] == f"{method}/{scale}"]
        assert len(rows) == scales.SCALES[scale][1]
        return statistics.mean(float(row["last"]) for row in rows)

    assert mean("permll_plus") > mean("ce") - 0.005


@pytest.mark.parametrize(
    ("look", "title"), [*zip("12345", ("first", "second", "third", "fourth", "fifth"), strict=True)]
)
def test_docs_earlier_evaluations(look: str, title: str) -> None:
    by_setting: dict[str, list[dict[str, str]]] = {}
    for row in results("earlier_versions"):
        if row["look"] == look:
            by_setting.setdefault(row["set"], []).append(row)
    told = (ROOT / "docs" / "benchmark.md").read_text()
    for what, column in (("accuracy", "last"), ("labels right", "right_after")):
        means = [
            statistics.mean(100 * float(row[column]) for row in by_setting[setting])
            for setting in holdout_settings.settings(None, None, None)
        ]
        assert f"| {title} version, {what} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |" in told


def test_default_layer_is_safe() -> None:
    """As accurate as cross-entropy in every cell and class; correct labels stay correct."""
    rows = results("safety")
    assert len(safety.outcomes(rows, "permll")) == len(safety.cells()) == 74
    assert all(len(outcome.accuracies) == 3 for outcome in safety.outcomes(rows, "permll").values())
    assert not safety.violations(rows)


def test_readme_has_table_of_layer() -> None:
    table = safety.short_table(results("safety"))
    assert f"<!-- results/safety.short.md -->\n{table}<!-- end -->" in README
    assert (RESULTS / "safety.short.md").read_text() == table
    assert (RESULTS / "safety.md").read_text() == safety.table(results("safety"))
    assert "clean" in table


@pytest.mark.parametrize(
    "name", sorted({path.name for path in RESULTS.glob("*.*.md")} - {"mini.short.md", "safety.short.md"})
)
def test_docs_tables(name: str) -> None:
    of, table, _ = name.split(".")
    rows = read_rows(RESULTS / f"{of}.csv")
    assert (RESULTS / name).read_text() == render_tables(rows, table=table, format="markdown")


@pytest.mark.parametrize(
    "script",
    [
        annotators,
        audit,
        auto_apply_safety,
        cleaning,
        cleaning_ablation,
        estimators,
        holdout_settings,
        scales,
        verdict_ablation,
    ],
)
def test_results_tables(script: Any) -> None:
    name = script.__name__.rpartition(".")[2]
    assert (RESULTS / f"{name}.md").read_text() == script.table(read_csv(name))


def test_suite_targets_are_met() -> None:
    found = list(suite.verdicts())
    assert (RESULTS / "suite.md").read_text() == suite.table(found)
    assert {name for name, *_ in found} == {*suite.BENCHMARKS, "cleaning"}
    assert [what for _, what, *_, met in found if not met] == []


def test_cleaning_comparison() -> None:
    rows = results("cleaning")
    names = list(dict.fromkeys(row["set"] for row in rows))

    def mean(name: str, who: str, column: str) -> float:
        return statistics.mean(float(row[column]) for row in rows if (row["set"], row["who"]) == (name, who))

    for name in names:
        for column in ("ap", "f1", "labels"):
            assert mean(name, "permll", column) > mean(name, "cleanlab", column), (name, column)
            assert mean(name, "permll", column) > mean(name, "argmax", column), (name, column)
        best = max(mean(name, who, "ap") for who in cleaning.TOOLS)
        assert mean(name, "permll", "ap") > best - 0.015, name  # neighbors on LabelMe
    assert set(cleaning.REAL_SETS) <= set(names)
    assert f"on {NUMBERS[len(names)]} sets" in README
    times = [mean(name, "permll", "cpu_seconds") / mean(name, "cleanlab", "cpu_seconds") for name in names]
    assert f"in {min(times):.2f} to {max(times):.2f} of its\nprocessor time" in README


def test_default_estimators_rank_as_well_as_simple_classifiers_with_cleanlab() -> None:
    rows = results("estimators")

    def mean(name: str, who: str, column: str) -> float:
        return statistics.mean(float(row[column]) for row in rows if (row["set"], row["who"]) == (name, who))

    for name in estimators.SETS:
        assert len([row for row in rows if row["set"] == name]) == 3 * len(estimators.tools_for(name))
        for rival in ("cleanlab_lr", "cleanlab_forest"):
            assert mean(name, "default", "ap") > mean(name, rival, "ap") - 0.005, (name, rival)
            assert mean(name, "default", "f1") > mean(name, rival, "f1"), (name, rival)


def test_automatic_changes_do_no_harm() -> None:
    rows = results("auto_apply_safety")
    assert len(rows) == len(auto_apply_safety.SETS) * len(auto_apply_safety.SEEDS)
    assert min(auto_apply_safety.numbers(row)["gain"] for row in rows) >= 0
    assert all(int(row["changed"]) == 0 for row in rows if int(row["wrong"]) == 0)
