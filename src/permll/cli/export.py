"""``permll export``: write the trained network in formats that do not need permll."""

from pathlib import Path
from typing import Annotated, Any

import typer


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: RUN/export.")] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="safetensors, onnx or torch_export. Default: all three.")
    ] = None,
) -> None:
    """Write the trained network with its preprocessing and class names, for use without permll."""
    from permll.training.export.export_model import export_model
    from permll.training.run import Run

    chosen: Any = tuple(formats) if formats else ("safetensors", "onnx", "torch_export")
    for path in export_model(Run(run), out or run / "export", formats=chosen):
        typer.echo(path)
