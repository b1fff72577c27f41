"""``permll predict``: what a trained network says about new samples."""

import csv
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from permll.data.readers.inference_inputs import Unlabeled
    from permll.training.predictor import Predictor


Option = typer.Option


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that permll train made.")],
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A folder of images, an image, a table, arrays, or a built-in set.")
    ],
    out: Annotated[Path | None, Option(help="The file to write. Default: print.", show_default=False)] = None,
    as_json: Annotated[bool, Option("--json", help="Write JSON instead of CSV.")] = False,
    all_: Annotated[bool, Option("--all", help="Write the probability of every class.")] = False,
    label: Annotated[str | None, Option(help="The column or array of labels, if there is one: to compare.")] = None,
    text: Annotated[str | None, Option(help="The column of texts, if not as in the training.")] = None,
    image: Annotated[str | None, Option(help="The column of paths of images, if not as in the training.")] = None,
    features: Annotated[str | None, Option(help="The array of features, if not as in the training.")] = None,
    id_: Annotated[str | None, Option("--id", help="The column or array of ids.")] = None,
    split: Annotated[str | None, Option(help="Of a built-in set. Default: train.", show_default=False)] = None,
    root: Annotated[Path | None, Option(help="The folder of built-in data sets.")] = None,
    image_size: Annotated[int | None, Option(help="Resize images to so many pixels a side.", min=1)] = None,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Leave damaged images out.")] = False,
    batch_size: Annotated[int, Option(help="Samples that go through the network at once.", min=1)] = 256,
    workers: Annotated[int, Option(help="Processes that decode images.", min=0)] = 0,
    device: Annotated[str | None, Option(help="cpu, cuda, ... Default: cuda if there is one.")] = None,
) -> None:
    """Predict the class of new samples: id, class and probability of each."""
    from permll.data.readers.inference_inputs import read_unlabeled
    from permll.training.predictor import load_predictor
    from permll.training.run import Run

    if out is not None and not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.absolute().parent} to write {out.name} to: make it first.")
    predictor = load_predictor(Run(run))
    _say_if_unfinished(Run(run), predictor)
    names = {"label": label, "text": text, "image": image, "features": features, "id": id_}
    samples = read_unlabeled(
        source,
        predictor.input_spec,
        split=split,
        root=root,
        image_size=image_size,
        skip_unreadable=skip_unreadable,
        **names,
    )
    probabilities = predictor.predict(samples.inputs, batch_size=batch_size, workers=workers, device=_device(device))
    with _opened(out) as file:
        (_write_json if as_json else _write_csv)(file, _rows(samples, probabilities, predictor.classes, all_))
    _say(samples, probabilities, predictor, out)


def _rows(
    samples: "Unlabeled", probabilities: "Tensor", classes: tuple[str, ...], every: bool
) -> Iterator[dict[str, Any]]:
    """Yield id, class and probability of each sample; with ``every``, the probabilities of all classes by name."""
    best, places = probabilities.max(1)
    for row, (name, probability, place) in enumerate(zip(samples.ids, best.tolist(), places.tolist(), strict=True)):
        entry: dict[str, Any] = {"id": name, "predicted": classes[place], "probability": round(probability, 6)}
        if samples.given is not None:
            entry["given"] = samples.given[row]
        if every:
            values = [round(value, 6) for value in probabilities[row].tolist()]
            entry["probabilities"] = dict(zip(classes, values, strict=True))
        yield entry


def _write_csv(file: TextIO, rows: Iterator[dict[str, Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for number, row in enumerate(rows):
        every = {f"p_{name}": value for name, value in row.pop("probabilities", {}).items()}
        if number == 0:
            writer.writerow([*row, *every])
        writer.writerow([*row.values(), *every.values()])


def _write_json(file: TextIO, rows: Iterator[dict[str, Any]]) -> None:
    """Write a list, a sample a line: a million of them need not be in memory twice."""
    for number, row in enumerate(rows):
        file.write(("[\n" if number == 0 else ",\n") + json.dumps(row))
    file.write("\n]\n")


@contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Open the file, which gets its name when it is whole, or what one prints to."""
    if out is None:
        yield sys.stdout
        return
    partial = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)


def _device(name: str | None) -> str:
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as problem:
        raise ValueError(f"{name!r} is no device here: {str(problem).splitlines()[0].rstrip('.')}.") from None
    return name


def _say_if_unfinished(run: Any, predictor: "Predictor") -> None:
    if not run.finished:
        epochs = run.recipe.training.epochs
        typer.echo(
            f"{run.folder} is not finished: this is its network after epoch {predictor.epoch} of {epochs}.", err=True
        )


def _say(samples: "Unlabeled", probabilities: "Tensor", predictor: "Predictor", out: Path | None) -> None:
    """Say what was left out, how far predictions agree with labels, and where they are."""
    from permll.utils.messages import format_list

    if samples.left_out:
        typer.echo(f"{format_list(samples.left_out, 'image')} cannot be read and left out.", err=True)
    if samples.given is not None:
        known = [(word, row) for row, word in enumerate(samples.given) if word in predictor.classes]
        places = probabilities.argmax(1).tolist()
        same = sum(predictor.classes[places[row]] == word for word, row in known)
        rest = len(samples.ids) - len(known)
        more = f"; {rest:,} have no label that is a class" if rest else ""
        typer.echo(f"{same:,} of {len(known):,} predictions agree with the label{more}.", err=True)
    if out is not None:
        typer.echo(f"{len(samples.ids):,} predictions in {out}", err=True)
