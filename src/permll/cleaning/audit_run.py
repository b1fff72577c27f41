"""The audit at the end of a training: its samples with their features, predictions and test samples."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permll.audit import Audit
from permll.cleaning.audit import AuditInput, audit
from permll.cleaning.prediction_averaging import PredictionAverager
from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder, encode
from permll.data.inputs import Images, Inputs, Vectors
from permll.findings import Findings
from permll.training.feature_cache import with_cache
from permll.training.model_card import read_encoder
from permll.training.recipe import DataSection
from permll.training.run import Run

if TYPE_CHECKING:
    from permll.training.trainer import Trainer


@dataclass(frozen=True, eq=False)
class ClassifierInputs:
    """What the classifier of a run saw and predicted.

    Args:
        ids: of N samples.
        inputs: N samples as the classifier takes them; None if these are the samples as they were read.
        max_probs: (N,) probability of the predicted class.
        encoder: of further samples.
    """

    ids: Sequence[str]
    inputs: Inputs | None
    max_probs: Tensor
    encoder: Encoder | None = None


def audit_run(
    inputs_seen: Callable[[], ClassifierInputs], findings: Findings, data: LabeledData, test: LabeledData | None
) -> Audit | None:
    """Return the audit of the samples of findings; None with a warning if it failed as a whole."""
    try:
        seen = inputs_seen()
        if data.ids != tuple(findings.ids):
            position = {name: row for row, name in enumerate(data.ids)}
            data = data.take([position[name] for name in findings.ids])
        row = {name: number for number, name in enumerate(seen.ids)}
        order = torch.tensor([row[name] for name in findings.ids])
        inputs = data.inputs if seen.inputs is None else seen.inputs.take(order)
        encoded_test = None if test is None else encode(test, seen.encoder)[0].inputs
        return audit(AuditInput(data, inputs, seen.max_probs[order], test, encoded_test))
    except Exception as error:  # the findings are worth more than the audit
        warnings.warn(f"there is no audit: {type(error).__name__}: {error!s:.300}", stacklevel=2)
        return None


def trainer_inputs(trainer: "Trainer", averager: PredictionAverager, run: Run) -> ClassifierInputs:
    """Return the training rows and the held-out rows of a network."""
    parts: list[Any] = [part.inputs for part in (trainer.data, trainer.validation) if part is not None]
    inputs: Inputs | None = None
    if isinstance(parts[0], Vectors):
        inputs = Vectors(torch.cat([part.values for part in parts]), scaled=parts[0].scaled)
    elif isinstance(parts[0], Images):
        inputs = Images(torch.cat([part.pixels for part in parts]))
    encoder = with_cache(read_encoder(run), run)
    return ClassifierInputs(averager.ids, inputs, averager.log_p.amax(1).exp(), encoder)


def recorded_test(section: DataSection) -> str | None:
    """Return the path of the test samples that a recipe of ``clean`` records."""
    return None if section.test in ("", DataSection.model_fields["test"].default) else section.test
