"""``permll export``: the trained network alone, for those who do not have permll."""

from pathlib import Path
from typing import Annotated, Any

import typer


def export(
    run: Annotated[Path, typer.Argument(help="A run.")],
    out: Annotated[Path | None, typer.Option(help="The folder to write to. Default: RUN/export.")] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="safetensors, onnx or torch_export; default all three.")
    ] = None,
) -> None:
    """Write the trained network with its preprocessing and class names, loadable without permll."""
    from permll.training.export.export import export_model
    from permll.training.run import Run

    chosen: Any = tuple(formats) if formats else ("safetensors", "onnx", "torch_export")
    for path in export_model(Run(run), out or run / "export", formats=chosen):
        typer.echo(path)
