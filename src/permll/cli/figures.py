"""``permll figures``: the paper's figures, drawn from the closed forms."""

from pathlib import Path
from typing import Annotated

import typer

figures = typer.Typer(help="Draw the paper's figures, as PNG and SVG.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="The folder to write to.")]


@figures.command()
def confidence(out: Out = Path("figures")) -> None:
    """Show how strongly a prediction moves alpha, by its confidence (the paper's Figure 2, a to d)."""
    from permll.report.figures.confidence import confidence_curves, draw_confidence
    from permll.report.figures.style import save

    _say(save(draw_confidence(confidence_curves()), out, "confidence"))


@figures.command()
def diagram(out: Out = Path("figures")) -> None:
    """Show where the layer can stand: on the label or on the prediction (the idea of the paper's Figure 1)."""
    from permll.report.figures.diagram import diagram_samples, draw_diagram
    from permll.report.figures.style import save

    _say(save(draw_diagram(diagram_samples()), out, "diagram"))


def _say(paths: list[Path]) -> None:
    for path in paths:
        typer.echo(path)
