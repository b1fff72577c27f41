"""Opening: a run that is there already, with what was found in it."""

from pathlib import Path

from permll.cleaning.findings import Findings
from permll.training.run import Run


def find_run(run: Run | Path | str) -> Run:
    """Return a run that was begun, or say how to begin it."""
    run = run if isinstance(run, Run) else Run(run)
    if not run.exists:
        raise FileNotFoundError(f"{run.folder} is no run: permll clean DATA --out {run.folder} makes one.")
    return run


def opened(run: Run | Path | str) -> tuple[Run, Findings]:
    """Return a run and what it found."""
    run = find_run(run)
    return run, Findings.load(run.folder)
