"""Findings of a training: the corrected labels and label quality of its method, and noise estimates."""

from permll.findings import Findings
from permll.training.noise_estimate import (
    NoiseEstimate,
    by_corrected_labels,
    by_likelihood,
    by_mixture,
    write_noise_estimates,
)
from permll.training.run import Run
from permll.training.trainer import Trainer

_MIN_PROB = 1e-12


def save_method_findings(trainer: Trainer, run: Run) -> None:
    """Write the findings of the method, and noise estimates, into the folder of a run at the end of training."""
    data = trainer.data
    corrected, quality = (values.cpu() for values in trainer.method.labels_and_quality(trainer.predict_logits))
    estimates: list[NoiseEstimate] = []
    if trainer.validation is not None:
        log_p = trainer.predict(trainer.validation).cpu().clamp_min(_MIN_PROB).log()
        estimates.append(by_likelihood(log_p, trainer.validation.labels, data.classes))
    estimates.append(by_corrected_labels(corrected, data.labels, data.classes))
    log_p = trainer.predict(data).cpu().clamp_min(_MIN_PROB).log()
    estimates.append(by_mixture(log_p, data.labels, data.classes))
    if not trainer.group.is_main:
        return
    write_noise_estimates(run.folder, estimates)
    findings = Findings.from_posterior(
        data.ids,
        data.classes,
        data.labels.numpy(),
        corrected.numpy(),
        label_quality=quality.numpy(),
        reasons=(corrected.argmax(1) != data.labels).numpy(),
        metadata={"method": run.recipe.method.name, "run": str(run.folder), "noise": estimates[0].summary()},
    )
    findings.save(run.folder)
