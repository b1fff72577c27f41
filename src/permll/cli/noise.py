"""``permll noise``: create, import and inspect label noise."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from permll.noise.corruption import Corruption
    from permll.noise.label_files import CleanLabels

noise = typer.Typer(help="Create, import and inspect label noise.", no_args_is_help=True)

DEFAULT_SEED = 42  # the paper's
Picture = Annotated[Path | None, typer.Option(help="Folder for figures of the noise, as PNG and SVG.")]
Out = Annotated[Path, typer.Option(help="Noise record to write (.npz).")]
Labels = Annotated[
    Path | None, typer.Option(help="Clean labels, numbers or text: .npz, .npy, .csv, or one label per line.")
]
Classes = Annotated[int | None, typer.Option(help="Number of classes. Default: highest label + 1.", min=2)]
DataSet = Annotated[str | None, typer.Option(help="Built-in data set with the clean labels, instead of --labels.")]
Root = Annotated[Path | None, typer.Option(help="Folder of the built-in data sets.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


@noise.command()
def make(
    name: Annotated[str, typer.Argument(help="convention:kind:rate, such as permll:sym:0.6; see permll noise list.")],
    out: Out,
    labels: Labels = None,
    key: Annotated[str | None, typer.Option(help="Array or column with the labels.")] = None,
    classes: Classes = None,
    data_set: Annotated[str | None, typer.Option(help="Data set whose class map asym uses: cifar10, ...")] = None,
    data: DataSet = None,
    root: Root = None,
    seed: Annotated[int, typer.Option(help="Random seed; 42 in the paper.", min=0)] = DEFAULT_SEED,
    picture: Picture = None,
    force: Force = False,
) -> None:
    """Apply the noise NAME to clean labels, write the record and show its statistics."""
    from permll.noise import corrupt
    from permll.noise.class_names import published_class_names

    _require_matplotlib(picture)
    clean = _load_clean_labels(labels, data, root, classes, key=key, data_set=data_set)
    data_set = data_set or data
    record = corrupt(clean.labels, name, seed, num_classes=clean.num_classes, data_set=data_set)
    if published_class_names(data_set):
        record = replace(record, noise={**record.noise, "data_set": data_set})
    _finish(record, clean, out, picture, force)


@noise.command()
def read(
    file: Annotated[Path, typer.Argument(help="Noisy labels: CIFAR-N file, .npz, .npy, .csv, or one label per line.")],
    out: Out,
    which: Annotated[str | None, typer.Option(help="Label set of a CIFAR-N file: aggre, worst, fine, ...")] = None,
    key: Annotated[str | None, typer.Option(help="Array or column of any other file.")] = None,
    labels: Labels = None,
    classes: Classes = None,
    data: DataSet = None,
    root: Root = None,
    picture: Picture = None,
    force: Force = False,
) -> None:
    """Import noisy labels from a file, write the record and show its statistics."""
    from permll.noise import read_cifar_n, read_noisy_labels

    _require_matplotlib(picture)
    if which is not None and key is not None:
        raise ValueError("--which is for CIFAR-N files, --key for other files: give only one of them.")
    is_coarse = data == "cifar100" and which in ("coarse", "noisy_coarse_label")
    clean = _load_clean_labels(labels, data, root, classes, **({"labels": "coarse"} if is_coarse else {}))
    if which is not None:
        record = read_cifar_n(file, which, clean.labels)
    else:
        record = read_noisy_labels(file, clean.labels, num_classes=clean.num_classes, key=key, classes=clean.classes)
    _finish(record, clean, out, picture, force)


@noise.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="Noise record written by permll noise make or read.")],
    picture: Picture = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show the statistics of a noise record."""
    from permll.noise import Corruption
    from permll.noise.summary import summary

    _require_matplotlib(picture)
    record = Corruption.load(file)
    if json:
        import json as json_module

        typer.echo(json_module.dumps(summary(record), indent=2))
    else:
        _print_record(record)
    _save_figures(record, picture, file.stem, silent=json)


@noise.command("list")
def list_() -> None:
    """List the kinds of noise and the conventions."""
    from rich.console import Console
    from rich.table import Table

    from permll.noise.presets import CONVENTIONS, KIND_DESCRIPTIONS

    kinds = Table("kind", "new class of a selected label", title="Kinds", title_justify="left")
    for kind, description in KIND_DESCRIPTIONS.items():
        kinds.add_row(kind, description)
    columns = ("convention", "as in the code of", "sym selects", "may keep its class", "other kinds select")
    conventions = Table(*columns, title="Conventions", title_justify="left")
    for name, convention in CONVENTIONS.items():
        keep = "yes, classes in turn" if convention.cycle else "yes" if convention.include_true else "no"
        conventions.add_row(name, convention.source, convention.sym_pick, keep, convention.asym_pick)
    Console().print(kinds, conventions)
    typer.echo("A name is convention:kind:rate, such as permll:sym:0.6; the default convention is plain.")
    typer.echo("Selection: coin = each sample independently; exact = that fraction of all; per_class = of each class.")


def _load_clean_labels(
    labels: Path | None,
    data: str | None,
    root: Path | None,
    classes: int | None,
    *,
    key: str | None = None,
    data_set: str | None = None,
    **options: str,
) -> "CleanLabels":
    """Return the clean labels of a file, or of a built-in data set loaded with ``options``."""
    from permll.noise.label_files import CleanLabels, read_clean_labels

    if labels is not None and data is None:
        return read_clean_labels(labels, num_classes=classes, key=key, data_set=data_set)
    if data is None or labels is not None:
        raise ValueError("give the clean labels either as a file (--labels) or as a built-in data set (--data).")
    from permll.data import load

    loaded = load(data, root=root, split="train", **options)
    return CleanLabels(loaded.labels.numpy(), loaded.num_classes, loaded.classes)


def _finish(record: "Corruption", clean: "CleanLabels", out: Path, picture: Path | None, force: bool) -> None:
    """Write, print and draw the record."""
    from permll.noise.class_names import with_class_names

    record = with_class_names(record, clean.classes)
    written = _write(record, out, force)
    _print_record(record)
    _save_figures(record, picture, out.stem)
    typer.echo(f"{'wrote' if written else 'unchanged:'} {out}")


def _write(record: "Corruption", out: Path, force: bool) -> bool:
    """Write the record unless the file holds it already; raise if the file holds anything else."""
    from permll.noise import Corruption

    if out.exists() and not force:
        try:
            existing = Corruption.load(out)
        except ValueError:
            existing = None
        if existing is None or not _is_same(existing, record):
            raise ValueError(f"{out} exists with other content: write to another file, or add --force.")
        return False
    record.save(out)
    return True


def _is_same(a: "Corruption", b: "Corruption") -> bool:
    same_facts = (a.num_classes, a.seed, a.noise, a.hash) == (b.num_classes, b.seed, b.noise, b.hash)
    return same_facts and len(a.clean) == len(b.clean) and bool((a.clean == b.clean).all())


def _print_record(record: "Corruption") -> None:
    from rich.console import Console

    from permll.report.text import class_table, facts, matrix_text

    console = Console()
    console.print(facts(record))
    console.print(class_table(record))
    if text := matrix_text(record):
        typer.echo(text)


def _require_matplotlib(picture: Path | None) -> None:
    """Raise before any work if figures are requested without matplotlib."""
    if picture is not None:
        import permll.report.figures  # noqa: F401  # raises


def _save_figures(record: "Corruption", folder: Path | None, name: str, *, silent: bool = False) -> None:
    if folder is None:
        return
    from permll.noise.class_names import class_names
    from permll.noise.summary import superclass_groups
    from permll.report.figures.noise_matrix import draw_noise
    from permll.report.figures.style import save

    for path in save(draw_noise(record, class_names(record), superclass_groups(record)), folder, name):
        if not silent:
            typer.echo(path)
