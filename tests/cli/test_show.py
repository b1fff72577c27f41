"""``permll show`` on runs of a few seconds: as the process a user would start, and for its details in this one."""

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from permll.cli.show import chart
from permll.evaluation.protocol import select_from_metrics
from permll.noise import Corruption
from permll.report.run_summary import compare, comparison_text, run_facts, run_summary
from permll.training import Run
from permll.training.noise_estimate import estimate_noise
from permll.training.train import train
from tests.cli.conftest import Inside
from tests.helpers.toy_training import StopAfter, points, quick_recipe

PERMLL = Path(sys.executable).with_name("permll")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with trainings: two seeds, another method, another rate, begun ones, and one's own data."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        train(recipe=quick_recipe(training__seed=seed), out=folder / f"permll-{seed}")
    train(recipe=quick_recipe(method__name="ce"), out=folder / "ce-0")
    train(recipe=quick_recipe(optimizer__lr=0.01), out=folder / "slow-0")
    train(recipe=quick_recipe(training__seed=2), out=folder / "begun-2", callbacks=[StopAfter(25)])  # of 19 an epoch
    train(recipe=quick_recipe(training__seed=3), out=folder / "begun-3", callbacks=[StopAfter(3)])
    own = quick_recipe(data__source="own", data__noise="", data__validation=0.2, views__weak=None, views__strong=None)
    train(points(), recipe=own, out=folder / "own-0")
    return folder


def show(*arguments: str | Path, cwd: Path, columns: int = 80, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1"} | environment
    return subprocess.run([PERMLL, "show", *arguments], capture_output=True, text=True, cwd=cwd, env=env, timeout=120)


@pytest.fixture
def show_here(inside: Inside) -> Inside:
    """Run it in this process."""

    def call(*arguments: str | Path, cwd: Path, columns: int = 80) -> subprocess.CompletedProcess[str]:
        return inside("show", *arguments, cwd=cwd, COLUMNS=str(columns))

    return call


def sentence(shown: subprocess.CompletedProcess[str]) -> str:
    assert shown.returncode == 1
    (line,) = shown.stderr.splitlines()
    return line


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("columns", [60, 120])
def test_one_run(runs: Path, columns: int, show_here: Inside) -> None:
    shown = show_here("permll-0", cwd=runs, columns=columns)
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= columns
    text, run = words(shown.stdout), Run(runs / "permll-0")
    record, last = Corruption.load(run.folder / "noise.npz"), run.metrics[-1]
    assert text.startswith("permll on digits, sym:0.4 Run permll-0, 3 of 3 epochs Recipe scikit-learn's digits")
    assert f"seed 0, hash {run.recipe.hash} Method permll, init (chosen) 0.35, lr (chosen) " in text
    assert f"39.93 % of 1,212 labels wrong, seed 42, hash {record.hash}" in text
    chosen = select_from_metrics(run.metrics)
    assert f"last epoch, epoch 3 {100 * run.result['last']:.2f} %" in text
    noisy = chosen.best_by_noisy_validation
    assert noisy is not None
    assert f"best by noisy validation, epoch {noisy.epoch} {100 * noisy.test:.2f} %" in text
    assert f"best epoch, epoch {chosen.best_test.epoch} (oracle) {100 * chosen.best_test.test:.2f} %" in text
    assert f"points lost since the best epoch (oracle) {100 * chosen.memorization:.2f}" in text
    for fate in ("true positives", "miscorrected", "missed", "false positives"):
        name = fate.replace("miscorrected", "mis-corrected")
        assert f"({name}) {last['correction_' + fate.replace(' ', '_')]:,}" in text
    assert f"AUROC {100 * last['detection_auroc']:.2f} %" in text
    assert f"expected calibration error {100 * last['test_ece']:.2f} %" in text
    assert "Test accuracy, %" in text
    assert "Turned training labels, %" in text
    assert "█" in text


def test_the_worst_classes_are_the_worst(runs: Path) -> None:
    run = Run(runs / "permll-0")
    last, worst = run.metrics[-1], run_facts(run)["worst_classes"]
    counts = zip(last["correction_right_after_by_class"], last["correction_samples_by_class"], strict=True)
    shares = sorted(right / samples for right, samples in counts)
    assert [entry["right_after"] / entry["samples"] for entry in worst] == shares[:3]


def test_the_noise_is_shown_as_estimated(runs: Path, show_here: Inside) -> None:
    run = Run(runs / "permll-0")
    found = estimate_noise(run)
    text = words(show_here("permll-0", cwd=runs).stdout)
    low, high = (100 * end for end in found.interval)
    assert f"noise rate ({low:.1f} to {high:.1f}) {100 * found.rate:.2f} %" in text
    assert found.joint is not None
    off = found.joint - found.joint.diag().diag()
    true, given = divmod(int(off.argmax()), 10)
    assert f"{true} given as {given}, of all labels {100 * off.max():.2f} %" in text
    facts = json.loads(show_here("permll-0", "--json", cwd=runs).stdout)["runs"][0]["noise_estimate"]
    assert (facts["rate"], facts["by"], len(facts["mistakes"])) == (found.rate, "held_out", 3)


def test_an_unfinished_run_says_how_to_go_on(runs: Path, show_here: Inside) -> None:
    assert "begun-2, 1 of 3 epochs; resume with permll train begun-2" in words(show_here("begun-2", cwd=runs).stdout)
    shown = show_here("begun-3", cwd=runs)
    assert "begun-3, 0 of 3 epochs; resume with permll train begun-3" in words(shown.stdout)
    assert "Test accuracy" not in shown.stdout


def test_a_run_without_test_data_or_clean_labels(runs: Path, show_here: Inside) -> None:
    shown = show_here("own-0", cwd=runs)
    assert shown.returncode == 0, shown.stderr
    assert "none added" in shown.stdout
    assert "Noisy validation\n  accuracy, last epoch" in shown.stdout
    assert "Accuracy on noisy validation, %" in shown.stdout
    assert "Test accuracy" not in shown.stdout
    assert "true positives" not in shown.stdout


def test_a_run_whose_record_of_noise_was_lost(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "permll-0", tmp_path / "run")
    (tmp_path / "run" / "noise.npz").unlink()
    assert "  Noise    sym:0.4\n" in run_summary(Run(tmp_path / "run")) + "\n"


def test_several_runs_are_means_over_seeds(runs: Path) -> None:
    shown = show("permll-0", "permll-1", "ce-0", "begun-2", cwd=runs, columns=90)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    results = [Run(runs / f"permll-{seed}").result for seed in (0, 1)]
    place = lines.index("permll on digits, sym:0.4; seed 0, 1")
    values = [[result[name] for result in results] for name in ("last", "best_by_noisy_validation", "best_test")]
    values += [
        [result["final"][name] for result in results] for name in ("correction_accuracy_after", "detection_auroc")
    ]
    expected = [f"{100 * statistics.mean(both):.2f} ± {100 * statistics.stdev(both):.2f}" for both in values]
    assert words(lines[place + 1]) == " ".join(expected)
    place = lines.index("ce on digits, sym:0.4; seed 0")
    assert words(lines[place + 1]).split()[0] == f"{100 * Run(runs / 'ce-0').result['last']:.2f}"
    assert "1 of 3 epochs; permll train begun-2 goes on" in shown.stdout
    assert "* oracle" in shown.stdout


def test_the_comparison_fits_narrow_terminals(runs: Path, show_here: Inside) -> None:
    shown = show_here(*(path.name for path in sorted(runs.iterdir())), cwd=runs, columns=60)
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 60


def test_groups_of_one_name_say_where_they_differ(runs: Path) -> None:
    facts = [run_facts(Run(runs / name)) for name in ("permll-0", "slow-0", "ce-0")]
    assert [group["label"] for group in compare(facts)] == [
        "permll on digits, sym:0.4, optimizer.lr 0.05",
        "permll on digits, sym:0.4, optimizer.lr 0.01",
        "ce on digits, sym:0.4",
    ]


def test_the_same_training_counts_once(runs: Path, tmp_path: Path, show_here: Inside) -> None:
    shutil.copytree(runs / "permll-0", tmp_path / "copy")
    shown = show_here(
        runs / "permll-0", runs / "permll-1", tmp_path / "copy", runs / "permll-0", cwd=tmp_path, columns=200
    )
    assert "permll on digits, sym:0.4; seed 0, 1\n" in shown.stdout
    assert shown.stdout.count("the same training as another one: it counts once") == 1


def test_what_no_group_has_is_no_column(runs: Path) -> None:
    groups = compare([run_facts(Run(runs / name)) for name in ("own-0", "begun-3")])
    text = comparison_text(groups, 60)
    assert "AUROC" not in text
    assert "permll on digits, sym:0.4; not finished" in text


def test_as_json(runs: Path, show_here: Inside) -> None:
    shown = json.loads(show_here("permll-0", "begun-2", "--json", cwd=runs).stdout)
    first, second = shown["runs"]
    result = Run(runs / "permll-0").result
    assert first["numbers"]["best_test"]["value"] == result["best_test"]
    assert [name for name, entry in first["numbers"].items() if entry["oracle"]] == [
        "best_by_clean_validation",
        "best_test",
        "memorisation",
    ]
    assert first["last"] == result["final"]
    assert (second["finished"], second["epochs_done"], second["epochs"]) == (False, 1, 3)
    (group,) = shown["groups"]
    assert group["numbers"]["last"] == {"mean": result["last"], "sd": None}


def test_a_picture(runs: Path, tmp_path: Path, show_here: Inside) -> None:
    shown = show(runs / "permll-0", "--picture", "pictures", cwd=tmp_path)
    assert shown.stdout.splitlines()[-2:] == ["pictures/permll-0-curves.png", "pictures/permll-0-curves.svg"]
    assert (tmp_path / "pictures" / "permll-0-curves.png").read_bytes().startswith(b"\x89PNG")
    everything = [path for path in sorted(runs.iterdir()) if path.is_dir()]
    assert show_here(*everything, "--json", "--picture", "pictures", cwd=tmp_path).returncode == 0
    assert "<svg" in (tmp_path / "pictures" / "curves.svg").read_text()


def test_what_is_no_run_is_one_sentence(runs: Path, show_here: Inside) -> None:
    assert sentence(show_here("nowhere", cwd=runs)) == "permll: there is no run nowhere: permll train makes one."
    said = sentence(show_here(Path("permll-0", "checkpoints"), cwd=runs))
    assert said == "permll: permll-0/checkpoints is no run: it has no recipe.toml; permll train makes one."
    assert sentence(show_here(".", cwd=runs)) == "permll: . is no run, but holds 7: permll show ./*"
    assert sentence(show_here("begun-3", "--picture", "pictures", cwd=runs)) == (
        "permll: there is nothing to draw: no run has finished an epoch."
    )


def test_a_missing_extra_is_named_before_any_work(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    shown = show(runs / "ce-0", "--picture", "pictures", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert sentence(shown) == "permll: figures need matplotlib: pip install 'permll[plots]'"
    assert shown.stdout == ""


@pytest.mark.parametrize(("values", "columns"), [(range(40), 40), (range(40), 13), (range(3), 50)])
def test_a_chart_rises_with_its_values(values: range, columns: int) -> None:
    lines = chart(list(values), columns, height=3)
    heights = [sum(" ▁▂▃▄▅▆▇█".index(line[k]) for line in lines) for k in range(len(lines[0]))]
    assert len(heights) == min(columns, len(values))
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (1, 24)


def test_a_chart_on_a_given_scale() -> None:
    assert chart([0.5, 1.0], 2, height=1, scale=(0.0, 1.0)) == ["▅█"]
