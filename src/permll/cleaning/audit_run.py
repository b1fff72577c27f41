"""The audit at the end of a training: its samples with their features, predictions and test samples."""

import warnings
from typing import TYPE_CHECKING, Any

import torch

from permll.audit import Audit
from permll.cleaning.audit import AuditInput, audit
from permll.cleaning.prediction_averaging import PredictionAverager
from permll.data.dataset import LabeledData
from permll.data.encoding import encode
from permll.data.inputs import Images, Inputs, Vectors
from permll.findings import Findings
from permll.training.feature_cache import with_cache
from permll.training.model_card import read_encoder
from permll.training.recipe import DataSection
from permll.training.run import Run

if TYPE_CHECKING:
    from permll.training.trainer import Trainer


def audit_run(
    run: Run,
    trainer: "Trainer",
    averager: PredictionAverager,
    findings: Findings,
    data: LabeledData,
    test: LabeledData | None,
) -> Audit | None:
    """Return the audit of the samples of findings; None with a warning if it failed as a whole."""
    try:
        if data.ids != tuple(findings.ids):
            position = {name: row for row, name in enumerate(data.ids)}
            data = data.take([position[name] for name in findings.ids])
        row = {name: number for number, name in enumerate(averager.ids)}
        order = torch.tensor([row[name] for name in findings.ids])
        max_probs = averager.log_p[order].amax(1).exp()
        encoded_test = None
        if test is not None:
            encoded_test = encode(test, with_cache(read_encoder(run), run))[0].inputs
        return audit(AuditInput(data, _encoded(trainer, data, order), max_probs, test, encoded_test))
    except Exception as error:  # the findings are worth more than the audit
        warnings.warn(f"there is no audit: {type(error).__name__}: {error!s:.300}", stacklevel=2)
        return None


def _encoded(trainer: "Trainer", data: LabeledData, order: torch.Tensor) -> Inputs:
    """Return the inputs of the training and held-out rows in the order of the data."""
    parts: list[Any] = [part.inputs for part in (trainer.data, trainer.validation) if part is not None]
    if isinstance(parts[0], Vectors):
        return Vectors(torch.cat([part.values for part in parts])[order], scaled=parts[0].scaled)
    if isinstance(parts[0], Images):
        return Images(torch.cat([part.pixels for part in parts])[order])
    return data.inputs


def recorded_test(section: DataSection) -> str | None:
    """Return the path of the test samples that a recipe of ``clean`` records."""
    return None if section.test in ("", DataSection.model_fields["test"].default) else section.test
