"""``permll noise``: make wrong labels that can be made again, and look at them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from permll.noise.corruption import Corruption
    from permll.noise.label_files import CleanLabels

noise = typer.Typer(help="Make wrong labels, and look at them.", no_args_is_help=True)

SEED = 42  # the paper's
Picture = Annotated[Path | None, typer.Option(help="Draw the noise, as PNG and SVG, into this folder.")]
Out = Annotated[Path, typer.Option(help="The file to write, .npz.")]
Labels = Annotated[Path | None, typer.Option(help="Clean labels, numbers or words: .npz, .npy, .csv, or one a line.")]
Classes = Annotated[int | None, typer.Option(help="How many classes; default: highest label + 1.", min=2)]
DataSet = Annotated[str | None, typer.Option(help="A built-in data set instead of --labels.")]
Root = Annotated[Path | None, typer.Option(help="The folder that built-in data sets lie in.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what the file holds.")]


@noise.command()
def make(
    name: Annotated[str, typer.Argument(help="convention:kind:rate, like permll:sym:0.6; see permll noise list.")],
    out: Out,
    labels: Labels = None,
    key: Annotated[str | None, typer.Option(help="Which array or column of that file.")] = None,
    classes: Classes = None,
    data_set: Annotated[str | None, typer.Option(help="Whose map asym means: cifar10, cifar100, ...")] = None,
    data: DataSet = None,
    root: Root = None,
    seed: Annotated[int, typer.Option(help="Of every draw; the paper's is 42.", min=0)] = SEED,
    picture: Picture = None,
    force: Force = False,
) -> None:
    """Flip labels as NAME says, write the record of it, and show what it came to."""
    from permll.noise import corrupt, named_noise
    from permll.noise.class_names import published_names

    _need_matplotlib(picture)
    clean = _clean(labels, data, root, classes, key=key, data_set=data_set)
    data_set = data_set or data
    flips = named_noise(name, clean.num_classes, data_set=data_set, seed=seed)
    record = corrupt(clean.labels, flips, seed)
    if published_names(data_set):
        record = replace(record, noise={**record.noise, "data_set": data_set})
    _finish(record, clean, out, picture, force)


@noise.command()
def read(
    file: Annotated[Path, typer.Argument(help="Noisy labels: a CIFAR-N file, or .npz, .npy, .csv, or one a line.")],
    out: Out,
    which: Annotated[str | None, typer.Option(help="Of a CIFAR-N file: aggre, random1, worst, fine, ...")] = None,
    key: Annotated[str | None, typer.Option(help="Which array or column of any other file.")] = None,
    labels: Labels = None,
    classes: Classes = None,
    data: DataSet = None,
    root: Root = None,
    picture: Picture = None,
    force: Force = False,
) -> None:
    """Read noisy labels that people or other programs gave, write the record of them, and show what it came to."""
    from permll.noise import human_labels, label_file

    _need_matplotlib(picture)
    if which is not None and key is not None:
        raise ValueError("--which names a label set of a CIFAR-N file, --key a column of any other: give one of them.")
    coarse = data == "cifar100" and which in ("coarse", "noisy_coarse_label")
    options = {"labels": "coarse"} if coarse else {}
    clean = _clean(labels, data, root, classes, **options)
    if which is not None:
        record = human_labels(file, which, clean.labels)
    else:
        record = label_file(file, clean.labels, num_classes=clean.num_classes, key=key, classes=clean.classes)
    _finish(record, clean, out, picture, force)


@noise.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A record that permll noise make or read wrote.")],
    picture: Picture = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what a record of noise holds."""
    from permll.noise import Corruption
    from permll.noise.summary import summary

    _need_matplotlib(picture)
    record = Corruption.load(file)
    if json:
        import json as writer

        typer.echo(writer.dumps(summary(record), indent=2))
    else:
        _show(record)
    _draw(record, picture, file.stem, silent=json)


@noise.command("list")
def list_() -> None:
    """Show the kinds of noise and the conventions they are drawn in."""
    from rich.console import Console
    from rich.table import Table

    from permll.noise.presets import CONVENTIONS, MEANINGS

    kinds = Table("kind", "a picked label goes", title="Kinds", title_justify="left")
    for kind, meaning in MEANINGS.items():
        kinds.add_row(kind, meaning)
    columns = ("convention", "as in the code of", "sym picks", "may keep its class", "others pick")
    conventions = Table(*columns, title="Conventions", title_justify="left")
    for name, how in CONVENTIONS.items():
        keep = "yes, dealt in turn" if how.cycle else "yes" if how.include_true else "no"
        conventions.add_row(name, how.source, how.sym, keep, how.asym)
    Console().print(kinds, conventions)
    typer.echo("A name is convention:kind:rate, like permll:sym:0.6; without a convention it is plain.")
    typer.echo("Samples are picked by a coin for each, or exactly that share of all, or of each class (per_class).")


def _clean(
    labels: Path | None,
    data: str | None,
    root: Path | None,
    classes: int | None,
    *,
    key: str | None = None,
    data_set: str | None = None,
    **options: str,
) -> "CleanLabels":
    """Return the clean labels of a file or of a built-in data set, which ``options`` are for."""
    from permll.noise.label_files import CleanLabels, clean_file

    if labels is not None and data is None:
        return clean_file(labels, num_classes=classes, key=key, data_set=data_set)
    if data is None or labels is not None:
        raise ValueError("which labels are the clean ones? Name a file with --labels or a data set with --data.")
    from permll.data import load

    loaded = load(data, root=root, split="train", **options)
    return CleanLabels(loaded.labels.numpy(), loaded.num_classes, loaded.classes)


def _finish(record: "Corruption", clean: "CleanLabels", out: Path, picture: Path | None, force: bool) -> None:
    """Write, show and draw the record."""
    from permll.noise.class_names import name_record

    record = name_record(record, clean.classes)
    written = _write(record, out, force)
    _show(record)
    _draw(record, picture, out.stem)
    typer.echo(f"{'wrote' if written else 'already there:'} {out}")


def _write(record: "Corruption", out: Path, force: bool) -> bool:
    """Write the record unless the file holds just that already; refuse to overwrite anything else."""
    from permll.noise import Corruption

    if out.exists() and not force:
        try:
            there = Corruption.load(out)
        except ValueError:
            there = None
        if there is None or not _same(there, record):
            raise ValueError(f"{out} holds something else: write to another file, or add --force.")
        return False
    record.save(out)
    return True


def _same(one: "Corruption", other: "Corruption") -> bool:
    facts = (one.num_classes, one.seed, one.noise, one.hash) == (other.num_classes, other.seed, other.noise, other.hash)
    return facts and len(one.clean) == len(other.clean) and bool((one.clean == other.clean).all())


def _show(record: "Corruption") -> None:
    from rich.console import Console

    from permll.report.text import class_table, facts, matrix_text

    console = Console()
    console.print(facts(record))
    console.print(class_table(record))
    if text := matrix_text(record):
        typer.echo(text)


def _need_matplotlib(picture: Path | None) -> None:
    """Say that an extra is missing before any work, not after it."""
    if picture is not None:
        from permll.report.figures.style import require_matplotlib

        require_matplotlib()


def _draw(record: "Corruption", folder: Path | None, name: str, *, silent: bool = False) -> None:
    if folder is None:
        return
    from permll.noise.class_names import class_names
    from permll.noise.summary import superclass_groups
    from permll.report.figures.noise_matrix import draw_noise
    from permll.report.figures.style import save

    for path in save(draw_noise(record, class_names(record), superclass_groups(record)), folder, name):
        if not silent:
            typer.echo(path)
