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
_TRAINING = (
    "previous",
    "method",
    "estimator",
    "epochs",
    "seed",
    "backbone",
    "weights",
    "encoder",
    "device",
    "threads",
    "test",
)
DEFAULT_THRESHOLD = 0.5
_AUDIT = "Audit"


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
    pred_probs: Annotated[
        Path | None,
        Option(
            "--pred-probs",
            metavar="FILE",
            help="Out-of-sample probabilities, .npy, .npz, .csv or .parquet: nothing is trained.",
        ),
    ] = None,
    issues: Annotated[
        Path | None,
        Option(metavar="FILE", help="Label issues of cleanlab, .csv or .parquet: nothing is trained."),
    ] = None,
    images: Annotated[
        Path | None, Option(metavar="FOLDER", help="Pictures of the samples, to show instead of vectors or tables.")
    ] = None,
    method: Annotated[str | None, Option(help="Method (see permll methods).")] = None,
    estimator: Annotated[
        str | None,
        Option(
            help="Check the labels by a cross-validated scikit-learn classifier: hist_gradient_boosting, "
            "logistic_regression, random_forest, naive_bayes, an importable class, or several joined by +; none trains "
            "a network.",
        ),
    ] = None,
    epochs: Annotated[int | None, Option(help="Number of epochs.")] = None,
    seed: Annotated[int | None, Option(help="Seed of initial weights, sample order and held-out set.")] = None,
    threshold: Annotated[
        float, Option(help="Flag labels whose probability of being correct is at most this.", min=0, max=1)
    ] = DEFAULT_THRESHOLD,
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
    annotators: Annotated[
        str | None,
        Option(
            help="Columns of several annotators, as names or patterns: ann_1,ann_2 or 'ann_*'.",
            rich_help_panel=_READING,
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        Option(help="Table with a line for each answer: id, annotator, label.", rich_help_panel=_READING),
    ] = None,
    annotation_columns: Annotated[
        str | None,
        Option(help="Its columns, as ID,ANNOTATOR,LABEL, if they have other names.", rich_help_panel=_READING),
    ] = None,
    groups: Annotated[
        str | None,
        Option(
            help="Column or array of groups (patients, videos), each of which is held out as a whole or not at all.",
            rich_help_panel=_READING,
        ),
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
    test: Annotated[
        Path | None, Option(help="Test data: list those that the samples (nearly) repeat.", rich_help_panel=_AUDIT)
    ] = None,
    no_audit: Annotated[
        bool, Option("--no-audit", help="Do not search near-duplicates and outliers.", rich_help_panel=_AUDIT)
    ] = False,
    set_: Overrides = None,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Find wrong labels. Ctrl-C saves a checkpoint; permll clean RUN, or the same command again, resumes it."""
    from permll.distributed.process_group import is_main_process

    options: dict[str, Any] = {
        "method": method,
        "estimator": estimator,
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
        "images": images,
        "annotators": annotators and annotators.split(","),
        "annotations": annotations and str(annotations),
        "annotation_columns": annotation_columns and annotation_columns.split(","),
        "groups": groups,
        "test": test,
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
    options = {name: value for name, value in options.items() if value is not None}
    if data is not None or previous is not None:
        move_data(previous or Path(str(data)), moved)
    if pred_probs is not None or issues is not None:
        findings = _find_without_training(data, pred_probs, issues, options, overrides, threshold, overwrite)
    else:
        options["audit"] = not no_audit
        findings = _train(data, options, overrides, threshold, overwrite)
    if is_main_process():
        _print_findings(findings, as_json=as_json)


def _train(
    data: str | None, options: dict[str, Any], overrides: dict[str, Any], threshold: float, overwrite: bool
) -> "Findings":
    from permll.cleaning.clean import clean
    from permll.training.progress import ProgressBar, TextLog

    display: Callback = ProgressBar() if sys.stderr.isatty() else TextLog()
    try:
        return clean(
            data, overwrite=overwrite, threshold=threshold, callbacks=[display], overrides=overrides, **options
        )
    except KeyboardInterrupt as interrupt:
        without = " without --overwrite" if overwrite else ""
        message = str(interrupt) or f"stopped; run the same command again{without} to resume."
        raise RunInterruptedError(message) from None


def _find_without_training(
    data: str | None,
    pred_probs: Path | None,
    issues: Path | None,
    options: dict[str, Any],
    overrides: dict[str, Any],
    threshold: float,
    overwrite: bool,
) -> "Findings":
    """Return the findings of given probabilities or label issues."""
    name = "--pred-probs" if issues is None else "--issues"
    root = overrides.pop("data.root", None)
    prefix = "data.options."
    options |= {key.removeprefix(prefix): overrides.pop(key) for key in list(overrides) if key.startswith(prefix)}
    unused = [f"--{'continue' if key == 'previous' else key}" for key in _TRAINING if key in options]
    unused += ["--set"] if overrides else []
    unused += ["--threshold"] if issues is not None and threshold != DEFAULT_THRESHOLD else []
    if pred_probs is not None and issues is not None:
        raise ValueError("--pred-probs and --issues exclude each other: give one of them.")
    if unused:
        raise ValueError(f"{name} has no use for {', '.join(unused)}, since nothing is trained: remove it.")
    if data is None:
        raise ValueError(f"{name} needs the data that it is about: permll clean DATA {name} FILE.")
    options = {"out": "auto", "overwrite": overwrite, "root": root, **options}
    if issues is not None:
        from permll.cleaning.cleanlab_issues import findings_from_cleanlab

        return findings_from_cleanlab(issues, data, **options)
    from permll.cleaning.find_label_errors import find_label_errors

    return find_label_errors(None, pred_probs or "", data=data, threshold=threshold, **options)


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
