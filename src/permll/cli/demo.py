"""``permll demo``: what wrong labels do to a network, and what the layer does about it, in seconds."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from permll.demo import Digits, Method, Training, Verdict

SUSPECTS = 18


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the picture.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Which split, noise and initial weights.", min=0)] = 0,
) -> None:
    """Train on digits with 40 % wrong labels, with and without PermLL, and show what became of the labels."""
    import torch
    from rich.console import Console

    from permll.demo import METHODS, judge, noisy_digits, worst_suspects
    from permll.report.figures.label_issues import draw_label_issues
    from permll.report.figures.style import require_matplotlib, save

    require_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass  # a folder that cannot be written to is better met before the work than after it
    torch.set_num_threads(1)  # matrices this small only wait for a second thread
    console = Console()
    data = noisy_digits(seed)
    wrong = int((data.given != data.true).sum())
    console.print(
        f"scikit-learn's digits: {len(data.train)} images to train on, [b]{wrong} of them with a wrong label[/b]; "
        f"{len(data.test)} clean ones to test on."
    )
    trainings = _train_all(data, seed, console)
    layer = trainings["permll"].layer
    assert layer is not None
    verdict = judge(layer, data)
    console.print(_table(trainings, verdict))
    curves = {METHODS[method]: training.accuracy for method, training in trainings.items()}
    picture, _ = save(draw_label_issues(curves, worst_suspects(layer, data, SUSPECTS)), out, "permll-demo")
    console.print(f"The labels PermLL trusts least, and what it proposes: [b]{picture}[/b]")


def _train_all(data: "Digits", seed: int, console: "Console") -> "dict[Method, Training]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from permll.demo import EPOCHS, METHODS, train

    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs  test accuracy [b]{task.fields[accuracy]:5.1f} %[/b]"),
        TimeElapsedColumn(),
    )
    trainings: dict[Method, Training] = {}
    with Progress(*columns, console=console) as progress:
        tasks = {method: progress.add_task(name, total=EPOCHS, accuracy=0.0) for method, name in METHODS.items()}
        # Side by side, epoch for epoch, so that one sees them part.
        for together in zip(*(train(data, method, seed) for method in METHODS), strict=True):
            for method, training in zip(METHODS, together, strict=True):
                trainings[method] = training
                progress.update(tasks[method], advance=1, accuracy=100 * training.accuracy[-1])
    return trainings


def _table(trainings: "dict[Method, Training]", verdict: "Verdict") -> "Table":
    from rich.table import Table

    from permll.demo import METHODS

    table = Table()
    table.add_column("")
    for name in METHODS.values():
        table.add_column(name, justify="right")
    last, best = ([f(t.accuracy) for t in trainings.values()] for f in (lambda a: a[-1], max))
    table.add_row("Test accuracy, last epoch", *(f"{100 * value:.1f} %" for value in last))
    table.add_row("Test accuracy, best epoch", *(f"{100 * value:.1f} %" for value in best), end_section=True)
    before, after = f"{100 * verdict.right_before:.1f} %", f"{100 * verdict.right_after:.1f} %"
    table.add_row("Right training labels, before", before, before)
    table.add_row("Right training labels, after", before, after, end_section=True)
    table.add_row("Wrong labels found", "-", f"{verdict.found} of {verdict.wrong}")
    table.add_row("  precision", "-", f"{100 * verdict.precision:.1f} %")
    table.add_row("  recall", "-", f"{100 * verdict.recall:.1f} %")
    return table
