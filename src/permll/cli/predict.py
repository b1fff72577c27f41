"""``permll predict``: predict the classes of new samples."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from permll.cli.common import Root
from permll.utils.files import atomic_write

if TYPE_CHECKING:
    from torch import Tensor

    from permll.data.readers.inference_inputs import Unlabeled
    from permll.training.predictor import Predictor

Option = typer.Option


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of permll train.")],
    source: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="Folder of images, image, table, file of arrays, or built-in data set."),
    ],
    out: Annotated[Path | None, Option(help="Output file. Default: print.", show_default=False)] = None,
    as_json: Annotated[bool, Option("--json", help="Write JSON instead of CSV.")] = False,
    all_: Annotated[bool, Option("--all", help="Write the probability of every class.")] = False,
    label: Annotated[str | None, Option(help="Column or array of labels to compare with, if there is one.")] = None,
    text: Annotated[str | None, Option(help="Column of texts. Default: as in training.")] = None,
    image: Annotated[str | None, Option(help="Column of image paths. Default: as in training.")] = None,
    features: Annotated[str | None, Option(help="Array of features. Default: as in training.")] = None,
    id_: Annotated[str | None, Option("--id", help="Column or array of sample ids.")] = None,
    split: Annotated[
        str | None, Option(help="Split of a built-in data set. Default: train.", show_default=False)
    ] = None,
    root: Root = None,
    image_size: Annotated[int | None, Option(help="Resize images to this many pixels per side.", min=1)] = None,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Skip damaged images.")] = False,
    batch_size: Annotated[int, Option(help="Samples per batch.", min=1)] = 256,
    workers: Annotated[int, Option(help="Processes that decode images.", min=0)] = 0,
    device: Annotated[str | None, Option(help="cpu, cuda, ... Default: cuda if available.")] = None,
) -> None:
    """Predict the class of new samples; writes id, class and probability of each."""
    from permll.data.readers.inference_inputs import read_unlabeled
    from permll.training.predictor import load_predictor
    from permll.training.run import Run

    if out is not None and not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"folder {out.absolute().parent} of --out does not exist: create it first.")
    predictor = load_predictor(Run(run))
    if not Run(run).finished:
        epochs = Run(run).recipe.training.epochs
        typer.echo(f"{run} is unfinished: using the network after epoch {predictor.epoch} of {epochs}.", err=True)
    samples = read_unlabeled(
        source,
        predictor.input_spec,
        split=split,
        root=root,
        image_size=image_size,
        skip_unreadable=skip_unreadable,
        label=label,
        text=text,
        image=image,
        features=features,
        id=id_,
    )
    probabilities = predictor.predict(samples.inputs, batch_size=batch_size, workers=workers, device=_device(device))
    with _open_output(out) as file:
        (_write_json if as_json else _write_csv)(file, _rows(samples, probabilities, predictor.classes, all_))
    _print_summary(samples, probabilities, predictor, out)


def _rows(
    samples: "Unlabeled", probabilities: "Tensor", classes: tuple[str, ...], all_classes: bool
) -> Iterator[dict[str, Any]]:
    """Yield id, class and probability of each sample, and optionally the probabilities of all classes by name."""
    best, indices = probabilities.max(1)
    for row, (id_, probability, index) in enumerate(zip(samples.ids, best.tolist(), indices.tolist(), strict=True)):
        entry: dict[str, Any] = {"id": id_, "predicted": classes[index], "probability": round(probability, 6)}
        if samples.given is not None:
            entry["given"] = samples.given[row]
        if all_classes:
            values = [round(value, 6) for value in probabilities[row].tolist()]
            entry["probabilities"] = dict(zip(classes, values, strict=True))
        yield entry


def _write_csv(file: TextIO, rows: Iterator[dict[str, Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for number, row in enumerate(rows):
        by_class = {f"p_{name}": value for name, value in row.pop("probabilities", {}).items()}
        if number == 0:
            writer.writerow([*row, *by_class])
        writer.writerow([*row.values(), *by_class.values()])


def _write_json(file: TextIO, rows: Iterator[dict[str, Any]]) -> None:
    """Write a list with one sample per line, without holding the whole text in memory."""
    for number, row in enumerate(rows):
        file.write(("[\n" if number == 0 else ",\n") + json.dumps(row))
    file.write("\n]\n")


@contextmanager
def _open_output(out: Path | None) -> Iterator[TextIO]:
    """Open the output file, which appears only when it is complete; without one, use stdout."""
    if out is None:
        yield sys.stdout
        return
    with atomic_write(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.detach()  # flushes; atomic_write closes the file


def _device(name: str | None) -> str:
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} is not available: {str(error).splitlines()[0].rstrip('.')}.") from None
    return name


def _print_summary(samples: "Unlabeled", probabilities: "Tensor", predictor: "Predictor", out: Path | None) -> None:
    """Print the skipped images, the agreement with given labels, and the output path to stderr."""
    from permll.utils.messages import format_list

    if samples.left_out:
        typer.echo(f"{format_list(samples.left_out, 'unreadable image')} skipped.", err=True)
    if samples.given is not None:
        known = [(label, row) for row, label in enumerate(samples.given) if label in predictor.classes]
        indices = probabilities.argmax(1).tolist()
        same = sum(predictor.classes[indices[row]] == label for label, row in known)
        unknown = len(samples.ids) - len(known)
        note = f"; {unknown:,} labels are missing or not a class" if unknown else ""
        typer.echo(f"{same:,} of {len(known):,} predictions agree with the label{note}.", err=True)
    if out is not None:
        typer.echo(f"{len(samples.ids):,} predictions in {out}", err=True)
