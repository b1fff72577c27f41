"""``permll demo``: train with wrong labels, with and without PermLL, in seconds."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from permll.demo import CorrectionResult, MethodName, NoisyDigits, TrainingState

NUM_SUSPECTS = 18


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Random seed of split, noise and weights.", min=0)] = 0,
) -> None:
    """Train on digits with 40 % wrong labels, with and without PermLL, and show test accuracy and corrected labels."""
    import torch
    from rich.console import Console

    from permll.demo import METHODS, evaluate_correction, least_trusted_samples, load_noisy_digits
    from permll.report.figures.label_issues import draw_label_issues
    from permll.report.figures.style import save

    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass  # fails before training if the folder is not writable
    torch.set_num_threads(1)  # more threads are slower for such small matrices
    console = Console()
    data = load_noisy_digits(seed)
    num_wrong = int((data.labels != data.clean_labels).sum())
    console.print(
        f"Digits from scikit-learn: {len(data.images)} training images, [b]{num_wrong} with a wrong label[/b]; "
        f"{len(data.test_images)} test images with clean labels."
    )
    states = _train_all(data, seed, console)
    layer = states["permll_plus"].layer
    assert layer is not None
    console.print(_results_table(states, evaluate_correction(layer, data)))
    curves = {METHODS[method]: state.accuracy for method, state in states.items()}
    figure, _ = save(draw_label_issues(curves, least_trusted_samples(layer, data, NUM_SUSPECTS)), out, "permll-demo")
    console.print(f"The labels with the lowest quality and their proposed corrections: [b]{figure}[/b]")


def _train_all(data: "NoisyDigits", seed: int, console: "Console") -> "dict[MethodName, TrainingState]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from permll.demo import EPOCHS, METHODS, train

    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs  test accuracy [b]{task.fields[accuracy]:5.1f} %[/b]"),
        TimeElapsedColumn(),
    )
    states: dict[MethodName, TrainingState] = {}
    with Progress(*columns, console=console) as progress:
        tasks = {method: progress.add_task(name, total=EPOCHS, accuracy=0.0) for method, name in METHODS.items()}
        # The methods alternate epoch by epoch, so that the display compares them.
        for epoch_states in zip(*(train(data, method, seed) for method in METHODS), strict=True):
            for method, state in zip(METHODS, epoch_states, strict=True):
                states[method] = state
                progress.update(tasks[method], advance=1, accuracy=100 * state.accuracy[-1])
    return states


def _results_table(states: "dict[MethodName, TrainingState]", result: "CorrectionResult") -> "Table":
    from rich.table import Table

    from permll.demo import METHODS

    table = Table()
    table.add_column("")
    for name in METHODS.values():
        table.add_column(name, justify="right")
    table.add_row("Test accuracy, last epoch", *(_percent(state.accuracy[-1]) for state in states.values()))
    best = (_percent(max(state.accuracy)) for state in states.values())
    table.add_row("Test accuracy, best epoch", *best, end_section=True)
    before, after = _percent(result.right_before), _percent(result.right_after)
    table.add_row("Correct training labels before", before, before)
    table.add_row("Correct training labels after", before, after, end_section=True)
    table.add_row("Wrong labels found", "-", f"{result.found} of {result.wrong}")
    table.add_row("  precision", "-", _percent(result.precision))
    table.add_row("  recall", "-", _percent(result.recall))
    return table


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
