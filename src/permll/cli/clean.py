"""``permll clean``: say of every label whether it is right."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permll.cli.train import StoppedError, setting

if TYPE_CHECKING:
    from permll.training.callbacks import Callback

Option = typer.Option


def clean(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A folder of images, a table, arrays or a built-in set.")],
    out: Annotated[Path | None, Option(help="The run's folder. Default: runs/NAME-METHOD-SEED.")] = None,
    label: Annotated[str | None, Option(help="The column or array of labels.")] = None,
    text: Annotated[str | None, Option(help="The column or array of texts.")] = None,
    image: Annotated[str | None, Option(help="The column of paths of images.")] = None,
    features: Annotated[str | None, Option(help="The array of features, or columns with commas.")] = None,
    id_: Annotated[str | None, Option("--id", help="The column or array of ids.")] = None,
    method: Annotated[str | None, Option(help="Train with another method: permll methods.")] = None,
    epochs: Annotated[int | None, Option(help="How many epochs.")] = None,
    seed: Annotated[int | None, Option(help="Initial weights, orders and held-out rows.")] = None,
    threshold: Annotated[
        float, Option(help="Flag labels that are right with at most this probability.", min=0, max=1)
    ] = 0.5,
    backbone: Annotated[
        str | None, Option(help="See images through a pretrained network, timm:NAME; downloaded if need be.")
    ] = None,
    weights: Annotated[Path | None, Option(help="A file of the backbone's weights.")] = None,
    encoder: Annotated[str | None, Option(help="See texts as sentence embeddings: a model's name or folder.")] = None,
    root: Annotated[str | None, Option(help="The folder of built-in data sets.")] = None,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Leave damaged images out.")] = False,
    set_: Annotated[list[str] | None, Option("--set", help="Any value of the recipe: --set optimizer.lr=0.1")] = None,
    as_json: Annotated[bool, Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Find wrong labels: trains once, and says of every label whether it is right. Ctrl-C saves; the same goes on."""
    from permll.cleaning.clean import clean
    from permll.distributed.process_group import is_main_process
    from permll.report.findings_text import findings_facts, findings_summary
    from permll.training.progress import ProgressBar, TextLog

    reading: dict[str, Any] = {"label": label, "text": text, "image": image, "id": id_}
    reading["features"] = features.split(",") if features and "," in features else features
    reading["skip_unreadable"] = True if skip_unreadable else None
    overrides = dict(map(setting, set_ or [])) | ({} if root is None else {"data.root": root})
    watch: Callback = ProgressBar() if sys.stderr.isatty() else TextLog()
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
            callbacks=[watch],
            overrides=overrides,
            **{name: value for name, value in reading.items() if value is not None},
        )
    except KeyboardInterrupt as stopped:
        raise StoppedError(str(stopped) or "stopped; the same command goes on.") from None
    if not is_main_process():
        return
    if as_json:
        typer.echo(json.dumps(findings_facts(findings) | {"run": findings.metadata["run"]}))
        return
    typer.echo(f"{findings.metadata['data']}\n{findings_summary(findings)}\n")
    report = Path(findings.metadata["run"]) / "report.html"
    if report.is_file():  # runs of old have none
        typer.echo(f"Report: {report}")
    typer.echo(f"Every label: {Path(findings.metadata['run']) / 'findings.csv'}")
    typer.echo(f"Look at them:  permll review {findings.metadata['run']}")
    typer.echo(f"Write the corrected data:  permll apply {findings.metadata['run']} --auto --out NEW")
