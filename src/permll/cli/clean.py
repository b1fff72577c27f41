"""``permll clean``: find wrong labels in a data set."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permll.cli.common import Overrides, Root, RunInterruptedError, parse_overrides

if TYPE_CHECKING:
    from permll.training.callbacks import Callback

Option = typer.Option


def clean(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder of images, table, file of arrays, or built-in data set.")
    ],
    out: Annotated[Path | None, Option(help="Run folder. Default: runs/NAME-METHOD-SEED.")] = None,
    label: Annotated[str | None, Option(help="Column or array of labels.")] = None,
    text: Annotated[str | None, Option(help="Column or array of texts.")] = None,
    image: Annotated[str | None, Option(help="Column of image paths.")] = None,
    features: Annotated[str | None, Option(help="Array of features, or comma-separated columns.")] = None,
    id_: Annotated[str | None, Option("--id", help="Column or array of sample ids.")] = None,
    method: Annotated[str | None, Option(help="Method (see permll methods).")] = None,
    epochs: Annotated[int | None, Option(help="Number of epochs.")] = None,
    seed: Annotated[int | None, Option(help="Seed of initial weights, sample order and held-out set.")] = None,
    threshold: Annotated[
        float, Option(help="Flag labels whose probability of being correct is at most this.", min=0, max=1)
    ] = 0.5,
    backbone: Annotated[
        str | None,
        Option(
            help="Pretrained network for image features, timm:NAME or torchvision:NAME, or none. Default: a cached "
            "one, or one of timm, if installed."
        ),
    ] = None,
    weights: Annotated[Path | None, Option(help="File of the backbone's weights.")] = None,
    encoder: Annotated[
        str | None,
        Option(help="Sentence encoder for texts, name or folder, or tfidf. Default: all-MiniLM-L6-v2, if installed."),
    ] = None,
    root: Root = None,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Skip damaged images.")] = False,
    set_: Overrides = None,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Find wrong labels. Ctrl-C saves a checkpoint; run the same command again to resume."""
    from permll.cleaning.clean import clean
    from permll.distributed.process_group import is_main_process
    from permll.report.findings_text import findings_facts, findings_summary
    from permll.training.progress import ProgressBar, TextLog

    options: dict[str, Any] = {"label": label, "text": text, "image": image, "id": id_}
    options["features"] = features.split(",") if features and "," in features else features
    options["skip_unreadable"] = True if skip_unreadable else None
    overrides = parse_overrides(set_) | ({} if root is None else {"data.root": str(root)})
    display: Callback = ProgressBar() if sys.stderr.isatty() else TextLog()
    try:
        findings = clean(
            data,
            method=method,
            out=out,
            epochs=epochs,
            seed=seed,
            threshold=threshold,
            backbone=backbone,
            weights=weights,
            encoder=encoder,
            callbacks=[display],
            overrides=overrides,
            **{name: value for name, value in options.items() if value is not None},
        )
    except KeyboardInterrupt as interrupt:
        raise RunInterruptedError(str(interrupt) or "stopped; run the same command again to resume.") from None
    if not is_main_process():
        return
    run = findings.metadata["run"]
    if as_json:
        typer.echo(json.dumps(findings_facts(findings) | {"run": run}))
        return
    typer.echo(f"{findings.metadata['data']}\n{findings_summary(findings)}\n")
    report = Path(run) / "report.html"
    if report.is_file():  # runs of older versions have none
        typer.echo(f"Report: {report}")
    typer.echo(f"All labels: {Path(run) / 'findings.csv'}")
    typer.echo(f"Review them:  permll review {run}")
    typer.echo(f"Write the corrected data:  permll apply {run} --auto --out NEW")
