"""``permll clean``: find wrong labels in a data set."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permll.cli.common import MovedData, Overrides, Root, RunInterruptedError, move_data, parse_overrides

if TYPE_CHECKING:
    from permll.findings import Findings
    from permll.training.callbacks import Callback

Option = typer.Option
_READING = "Reading the data"
_FEATURES = "Features and hardware"


def clean(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA|RUN",
            help="Folder of images, table, file of arrays, or built-in data set; or a run folder to resume.",
        ),
    ] = None,
    out: Annotated[Path | None, Option(help="Run folder. Default: runs/NAME-METHOD-SEED.")] = None,
    previous: Annotated[
        Path | None,
        Option("--continue", metavar="RUN", help="Next round: learn from the review decisions of a run."),
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Train again if the run folder holds a run.")] = False,
    moved: MovedData = None,
    method: Annotated[str | None, Option(help="Method (see permll methods).")] = None,
    epochs: Annotated[int | None, Option(help="Number of epochs.")] = None,
    seed: Annotated[int | None, Option(help="Seed of initial weights, sample order and held-out set.")] = None,
    threshold: Annotated[
        float, Option(help="Flag labels whose probability of being correct is at most this.", min=0, max=1)
    ] = 0.5,
    label: Annotated[str | None, Option(help="Column or array of labels.", rich_help_panel=_READING)] = None,
    text: Annotated[str | None, Option(help="Column or array of texts.", rich_help_panel=_READING)] = None,
    image: Annotated[str | None, Option(help="Column of image paths.", rich_help_panel=_READING)] = None,
    features: Annotated[
        str | None, Option(help="Array of features, or comma-separated columns.", rich_help_panel=_READING)
    ] = None,
    id_: Annotated[str | None, Option("--id", help="Column or array of sample ids.", rich_help_panel=_READING)] = None,
    gold: Annotated[
        str | None,
        Option(help="Column or array: true for labels that a person reviewed.", rich_help_panel=_READING),
    ] = None,
    missing_label: Annotated[
        list[str] | None,
        Option(help="Value that marks a missing label, such as -1; may be repeated.", rich_help_panel=_READING),
    ] = None,
    drop_empty: Annotated[
        bool,
        Option("--drop-empty", help="Leave out rows with an empty label, text or image.", rich_help_panel=_READING),
    ] = False,
    rare: Annotated[
        str | None, Option(help="Classes with one sample: refuse, drop or keep.", rich_help_panel=_READING)
    ] = None,
    merge_similar_labels: Annotated[
        bool,
        Option(
            "--merge-similar-labels",
            help="Read labels that differ only in case or spaces as one class.",
            rich_help_panel=_READING,
        ),
    ] = False,
    skip_unreadable: Annotated[
        bool, Option("--skip-unreadable", help="Skip damaged images.", rich_help_panel=_READING)
    ] = False,
    root: Root = None,
    backbone: Annotated[
        str | None,
        Option(
            help="Pretrained network for image features, timm:NAME or torchvision:NAME, or none. Default: a cached "
            "one, or one of timm, if installed.",
            rich_help_panel=_FEATURES,
        ),
    ] = None,
    weights: Annotated[Path | None, Option(help="File of the backbone's weights.", rich_help_panel=_FEATURES)] = None,
    encoder: Annotated[
        str | None,
        Option(
            help="Sentence encoder for texts, name or folder, or tfidf. Default: all-MiniLM-L6-v2, if installed.",
            rich_help_panel=_FEATURES,
        ),
    ] = None,
    device: Annotated[
        str | None, Option(help="cpu, cuda or mps. Default: a GPU if there is one.", rich_help_panel=_FEATURES)
    ] = None,
    threads: Annotated[
        int | None,
        Option(help="CPU threads. Default: 1 for a small network, else all.", min=1, rich_help_panel=_FEATURES),
    ] = None,
    set_: Overrides = None,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Find wrong labels. Ctrl-C saves a checkpoint; permll clean RUN, or the same command again, resumes it."""
    from permll.cleaning.clean import clean
    from permll.distributed.process_group import is_main_process
    from permll.training.progress import ProgressBar, TextLog

    options: dict[str, Any] = {
        "method": method,
        "out": out,
        "epochs": epochs,
        "seed": seed,
        "backbone": backbone,
        "weights": weights,
        "encoder": encoder,
        "device": device,
        "threads": threads,
        "label": label,
        "text": text,
        "image": image,
        "features": features.split(",") if features and "," in features else features,
        "id": id_,
        "gold": gold,
        "previous": previous,
        "no_label": missing_label or None,
        "drop_empty": drop_empty or None,
        "rare": rare,
        "merge_similar_labels": merge_similar_labels or None,
        "skip_unreadable": skip_unreadable or None,
    }
    if data is None and previous is None:
        raise ValueError("give the data, permll clean DATA, or a reviewed run, permll clean --continue RUN.")
    overrides = parse_overrides(set_) | ({} if root is None else {"data.root": str(root)})
    display: Callback = ProgressBar() if sys.stderr.isatty() else TextLog()
    if data is not None or previous is not None:
        move_data(previous or Path(str(data)), moved)
    try:
        findings = clean(
            data,
            overwrite=overwrite,
            threshold=threshold,
            callbacks=[display],
            overrides=overrides,
            **{name: value for name, value in options.items() if value is not None},
        )
    except KeyboardInterrupt as interrupt:
        without = " without --overwrite" if overwrite else ""
        message = str(interrupt) or f"stopped; run the same command again{without} to resume."
        raise RunInterruptedError(message) from None
    if is_main_process():
        _print_findings(findings, as_json=as_json)


def _print_findings(findings: "Findings", *, as_json: bool) -> None:
    """Print the findings and the commands that follow."""
    from permll.cleaning.next_commands import commands_after_clean
    from permll.report.findings_text import findings_facts, findings_summary
    from permll.training.run import Run

    run = findings.metadata["run"]
    if as_json:
        typer.echo(json.dumps(findings_facts(findings) | {"run": run}))
        return
    typer.echo(f"{findings.metadata['data']}\n{findings_summary(findings)}\n")
    report = Path(run) / "report.html"
    if report.is_file():  # runs of older versions have none
        typer.echo(f"Report: {report}")
    typer.echo(f"All labels: {Path(run) / 'findings.csv'}")
    for text, command in commands_after_clean(Run(run), findings):
        typer.echo(f"{text}  {command}")
