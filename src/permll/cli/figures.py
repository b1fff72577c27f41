"""``permll figures``: draw the paper's figures from the closed-form expressions."""

from pathlib import Path
from typing import Annotated

import typer

from permll.cli.common import save_figure

figures = typer.Typer(help="Draw the paper's figures, as PNG and SVG.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Output folder.")]


@figures.command()
def confidence(out: Out = Path("figures")) -> None:
    """Draw the gradient of alpha as a function of the prediction's confidence (the paper's Figure 2, a to d)."""
    from permll.report.figures.confidence import confidence_curves, draw_confidence

    save_figure(draw_confidence(confidence_curves()), out, "confidence")


@figures.command()
def diagram(out: Out = Path("figures")) -> None:
    """Draw the layer on the label and on the prediction (after the paper's Figure 1)."""
    from permll.report.figures.diagram import diagram_samples, draw_diagram

    save_figure(draw_diagram(diagram_samples()), out, "diagram")
