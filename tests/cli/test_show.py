"""``permll show`` on short runs."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from permll.cli.show import chart
from permll.evaluation.protocol import select_from_metrics
from permll.noise import Corruption
from permll.report.findings_text import noise_sentence
from permll.report.run_summary import compare, comparison_text, run_facts, run_summary
from permll.training import Run
from permll.training.noise_estimate import estimate_noise
from permll.training.train import train
from tests.helpers.command_line import Result, error_message, run_cli, run_process, words
from tests.helpers.toy_training import StopAfter, points, quick_recipe


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs: two seeds, another method, another rate, unfinished ones, and user data."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        train(recipe=quick_recipe(training__seed=seed), out=folder / f"permll-{seed}")
    train(recipe=quick_recipe(method__name="ce"), out=folder / "ce-0")
    train(recipe=quick_recipe(optimizer__lr=0.01), out=folder / "slow-0")
    # An epoch has 19 steps.
    train(recipe=quick_recipe(training__seed=2), out=folder / "begun-2", callbacks=[StopAfter(25)])
    train(recipe=quick_recipe(training__seed=3), out=folder / "begun-3", callbacks=[StopAfter(3)])
    user_data = quick_recipe(
        data__source="own", data__noise="", data__validation=0.2, views__weak=None, views__strong=None
    )
    train(points(), recipe=user_data, out=folder / "own-0")
    return folder


def show(*arguments: str | Path, cwd: Path, columns: int = 80) -> Result:
    return run_cli("show", *arguments, cwd=cwd, COLUMNS=str(columns))


@pytest.mark.parametrize("columns", [60, 120])
def test_show_prints_one_run(runs: Path, columns: int) -> None:
    output = show("permll-0", cwd=runs, columns=columns)
    assert output.returncode == 0, output.stderr
    assert max(map(len, output.stdout.splitlines())) <= columns
    text, run = words(output.stdout), Run(runs / "permll-0")
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
    for count in ("true positives", "miscorrected", "missed", "false positives"):
        name = count.replace("miscorrected", "mis-corrected")
        assert f"({name}) {last['correction_' + count.replace(' ', '_')]:,}" in text
    assert f"AUROC {100 * last['detection_auroc']:.2f} %" in text
    assert f"expected calibration error {100 * last['test_ece']:.2f} %" in text
    assert "Test accuracy, %" in text
    assert "Corrected training labels, %" in text
    assert "█" in text


def test_worst_classes_have_the_lowest_accuracy(runs: Path) -> None:
    run = Run(runs / "permll-0")
    last, worst = run.metrics[-1], run_facts(run)["worst_classes"]
    counts = zip(last["correction_right_after_by_class"], last["correction_samples_by_class"], strict=True)
    accuracies = sorted(right / samples for right, samples in counts)
    assert [entry["right_after"] / entry["samples"] for entry in worst] == accuracies[:3]


def test_show_prints_estimated_noise(runs: Path) -> None:
    run = Run(runs / "permll-0")
    estimate = estimate_noise(run)
    text = words(show("permll-0", cwd=runs).stdout)
    low, high = estimate.interval
    noise = {"rate": estimate.rate, "low": low, "high": high}
    assert noise_sentence({"noise": noise, "network": None, "earlier": None}) in text
    assert estimate.joint is not None
    off = estimate.joint - estimate.joint.diag().diag()
    true, given = divmod(int(off.argmax()), 10)
    assert f"{true} given as {given}, of all labels {100 * off.max():.2f} %" in text
    facts = json.loads(show("permll-0", "--json", cwd=runs).stdout)["runs"][0]["noise_estimate"]
    assert (facts["rate"], facts["by"], len(facts["mistakes"])) == (estimate.rate, "held_out", 3)


def test_show_prints_resume_command_of_unfinished_run(runs: Path) -> None:
    assert "begun-2, 1 of 3 epochs; resume with permll train begun-2" in words(show("begun-2", cwd=runs).stdout)
    output = show("begun-3", cwd=runs)
    assert "begun-3, 0 of 3 epochs; resume with permll train begun-3" in words(output.stdout)
    assert "Test accuracy" not in output.stdout


def test_show_without_test_data_or_clean_labels(runs: Path) -> None:
    output = show("own-0", cwd=runs)
    assert output.returncode == 0, output.stderr
    assert "none added" in output.stdout
    assert "Noisy validation\n  accuracy, last epoch" in output.stdout
    assert "Accuracy on noisy validation, %" in output.stdout
    assert "Test accuracy" not in output.stdout
    assert "true positives" not in output.stdout


def test_summary_without_noise_record(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "permll-0", tmp_path / "run")
    (tmp_path / "run" / "noise.npz").unlink()
    assert "  Noise    sym:0.4\n" in run_summary(Run(tmp_path / "run")) + "\n"


def test_show_prints_means_over_seeds(runs: Path) -> None:
    output = run_process("show", "permll-0", "permll-1", "ce-0", "begun-2", cwd=runs, COLUMNS="90")
    assert output.returncode == 0, output.stderr
    lines = output.stdout.splitlines()
    results = [Run(runs / f"permll-{seed}").result for seed in (0, 1)]
    index = lines.index("permll on digits, sym:0.4; seed 0, 1")
    values = [[result[name] for result in results] for name in ("last", "best_by_noisy_validation", "best_test")]
    values += [
        [result["final"][name] for result in results] for name in ("correction_accuracy_after", "detection_auroc")
    ]
    expected = [f"{100 * statistics.mean(both):.2f} ± {100 * statistics.stdev(both):.2f}" for both in values]
    assert words(lines[index + 1]) == " ".join(expected)
    index = lines.index("ce on digits, sym:0.4; seed 0")
    assert words(lines[index + 1]).split()[0] == f"{100 * Run(runs / 'ce-0').result['last']:.2f}"
    assert "1 of 3 epochs; resume with permll train begun-2" in output.stdout
    assert "* oracle: selected by the test labels." in output.stdout


def test_comparison_fits_narrow_terminal(runs: Path) -> None:
    output = show(*(path.name for path in sorted(runs.iterdir())), cwd=runs, columns=60)
    assert output.returncode == 0, output.stderr
    assert max(map(len, output.stdout.splitlines())) <= 60


def test_group_labels_name_the_difference(runs: Path) -> None:
    facts = [run_facts(Run(runs / name)) for name in ("permll-0", "slow-0", "ce-0")]
    assert [group["label"] for group in compare(facts)] == [
        "permll on digits, sym:0.4, optimizer.lr 0.05",
        "permll on digits, sym:0.4, optimizer.lr 0.01",
        "ce on digits, sym:0.4",
    ]


def test_duplicate_run_counts_once(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "permll-0", tmp_path / "copy")
    output = show(runs / "permll-0", runs / "permll-1", tmp_path / "copy", runs / "permll-0", cwd=tmp_path, columns=200)
    assert "permll on digits, sym:0.4; seed 0, 1\n" in output.stdout
    assert output.stdout.count("duplicate of another run, counted once") == 1


def test_comparison_omits_empty_columns(runs: Path) -> None:
    groups = compare([run_facts(Run(runs / name)) for name in ("own-0", "begun-3")])
    text = comparison_text(groups, 60)
    assert "AUROC" not in text
    assert "permll on digits, sym:0.4; not finished" in text


def test_show_json(runs: Path) -> None:
    output = json.loads(show("permll-0", "begun-2", "--json", cwd=runs).stdout)
    first, second = output["runs"]
    result = Run(runs / "permll-0").result
    assert first["numbers"]["best_test"]["value"] == result["best_test"]
    assert [name for name, entry in first["numbers"].items() if entry["oracle"]] == [
        "best_by_clean_validation",
        "best_test",
        "memorization",
    ]
    assert first["last"] == result["final"]
    assert (second["finished"], second["epochs_done"], second["epochs"]) == (False, 1, 3)
    (group,) = output["groups"]
    assert group["numbers"]["last"] == {"mean": result["last"], "sd": None}


def test_show_draws_curves(runs: Path, tmp_path: Path) -> None:
    output = show(runs / "permll-0", "--picture", "pictures", cwd=tmp_path)
    assert output.stdout.splitlines()[-2:] == ["pictures/permll-0-curves.png", "pictures/permll-0-curves.svg"]
    assert (tmp_path / "pictures" / "permll-0-curves.png").read_bytes().startswith(b"\x89PNG")
    folders = [path for path in sorted(runs.iterdir()) if path.is_dir()]
    assert show(*folders, "--json", "--picture", "pictures", cwd=tmp_path).returncode == 0
    assert "<svg" in (tmp_path / "pictures" / "curves.svg").read_text()


def test_show_refuses_other_folders_in_one_line(runs: Path) -> None:
    assert error_message(show("nowhere", cwd=runs)) == "run folder nowhere does not exist: permll train creates one."
    message = error_message(show(Path("permll-0", "checkpoints"), cwd=runs))
    assert message == "permll-0/checkpoints is not a run, since it has no recipe.toml: permll train creates one."
    assert error_message(show(".", cwd=runs)) == ". is not a run but contains 7: permll show ./*"
    assert "nothing to draw" in error_message(show("begun-3", "--picture", "pictures", cwd=runs))


def test_show_without_matplotlib_prints_install_command(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    output = run_process("show", runs / "ce-0", "--picture", "pictures", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert error_message(output).endswith("pip install 'permll[plots]', or in a clone: pip install '.[plots]'")
    assert output.stdout == ""


@pytest.mark.parametrize(("values", "columns"), [(range(40), 40), (range(40), 13), (range(3), 50)])
def test_chart_rises_with_its_values(values: range, columns: int) -> None:
    lines = chart(list(values), columns, height=3)
    heights = [sum(" ▁▂▃▄▅▆▇█".index(line[k]) for line in lines) for k in range(len(lines[0]))]
    assert len(heights) == min(columns, len(values))
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (1, 24)


def test_chart_with_given_scale() -> None:
    assert chart([0.5, 1.0], 2, height=1, scale=(0.0, 1.0)) == ["▅█"]
