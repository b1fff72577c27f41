"""Results of runs and trainings, compared up to rounding."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from permll.findings import Findings
from permll.training.run import Run


def run_results(folder: Path) -> dict[str, Any]:
    """Return findings and metrics of a finished run."""
    run = Run(folder)
    assert run.finished
    return {"findings": findings_by_id(run.findings), "metrics": run.metrics}


def findings_by_id(findings: Findings) -> dict[str, tuple[str, float]]:
    """Return proposed label and label quality by sample id."""
    return {one.id: (one.proposed_label, one.label_quality) for one in findings.head(None)}


def almost_equal(one: Any, other: Any, tolerance: float = 2e-6) -> bool:
    """Return whether two nested results are equal, numbers up to a tolerance."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(almost_equal(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(almost_equal(*pair, tolerance) for pair in zip(one, other, strict=True))
    return one == other or (isinstance(one, float) and abs(one - other) < tolerance)


def differences(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float = 1e-6) -> dict[str, float]:
    """Return the largest difference of each tensor, where it is above the tolerance."""
    assert one.keys() == other.keys()
    largest = {name: float((one[name].double() - other[name].double()).abs().max()) for name in one}
    return {name: difference for name, difference in largest.items() if not difference <= tolerance}
