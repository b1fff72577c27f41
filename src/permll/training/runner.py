"""``run_training``: the training loop with checkpoints, evaluation, metrics and callbacks, in the folder of a run."""

import time
from collections.abc import Callable
from typing import Any

from torch import Tensor

from permll.evaluation.evaluator import Evaluator
from permll.findings import Findings
from permll.functional.label_errors import find_errors
from permll.training.callbacks import Callback
from permll.training.checkpoint import Checkpoints
from permll.training.data_preparation import PreparedData
from permll.training.model_card import write_model_card
from permll.training.noise_estimate import by_corrected_labels, by_mixture, from_errors, write_noise_estimates
from permll.training.recipe import Recipe
from permll.training.run import Run
from permll.training.signals import graceful_shutdown
from permll.training.trainer import NotFiniteError, Trainer, restart_epoch

_MIN_PROB = 1e-12  # of a class, for logarithms
SaveFindings = Callable[[Trainer, Run], None]  # writes the findings of a finished training; a collective call


def start_or_resume(run: Run, recipe: Recipe, prepared: PreparedData, trainer: Trainer, task: str) -> None:
    """Write the files of a new run, or load its last checkpoint; rank 0 writes, all processes load."""
    group = trainer.group
    if not run.exists and group.is_main:
        run.begin(recipe, prepared.train, prepared.noise, prepared.validation, task)
    group.barrier()
    same_rows = run.check_data(prepared.train, prepared.validation)
    if not same_rows and recipe.data.noise:
        raise ValueError(
            f"{run.folder} added noise to the labels of other samples: noise cannot be drawn for new samples only."
        )
    state = run.checkpoints.newest()
    if state is not None:
        if not same_rows:  # other samples, other batches
            state = restart_epoch(state)
        try:
            trainer.load_state_dict(state)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip().rstrip(".")
            raise ValueError(f"{run.folder} was started with another network: {reason}.") from None
    group.barrier()
    if not same_rows:  # the state of the new samples, then their ids: a process killed in between starts here again
        save_checkpoint(run.checkpoints, trainer)
    if not group.is_main:
        return
    if not same_rows:
        run.save_split(prepared.train, prepared.validation)
    write_model_card(run, trainer, prepared)
    run.truncate_metrics(trainer.epoch)


def run_training(
    run: Run,
    recipe: Recipe,
    prepared: PreparedData,
    trainer: Trainer,
    callbacks: list[Callback],
    save_findings: SaveFindings,
) -> None:
    """Train to the end. SIGINT and SIGTERM save after the current step, and raise ``KeyboardInterrupt``."""
    evaluator = Evaluator(
        prepared.test, prepared.validation, prepared.clean, prepared.clean_validation, prepared.validation_is_clean
    )
    group = trainer.group
    callbacks = [callback for callback in callbacks if group.is_main or getattr(callback, "all_ranks", False)]
    saved_at = time.monotonic()

    def save() -> None:
        nonlocal saved_at
        _check_weights(trainer)
        save_checkpoint(run.checkpoints, trainer)
        saved_at = time.monotonic()

    def after_step(trainer: Trainer) -> None:
        for callback in callbacks:
            callback.on_step_end(trainer)
        if trainer.save_now:
            save()

    def after_epoch(trainer: Trainer) -> None:
        metrics: dict[str, Any] = {
            "epoch": trainer.epoch,
            "step": trainer.step,
            "loss": trainer.epoch_loss,
            **trainer.method.metrics(),
        }
        if len(trainer.stages.plan) > 1:
            metrics["stage"] = trainer.stages.plan[trainer.stages.number].name
        if trainer.epoch % recipe.training.evaluate_every == 0 or trainer.epoch == trainer.epochs:
            metrics |= evaluator.evaluate(trainer.method, trainer.predict, trainer.predict_logits, trainer.data)
        if group.is_main:
            run.add_metrics(metrics)
        save()
        for callback in callbacks:
            callback.on_epoch_end(trainer, metrics)

    def on_signal(count: int) -> None:
        if count > 1:  # the second one stops at once
            raise KeyboardInterrupt
        trainer.stop()

    trainer.is_save_due = lambda: time.monotonic() - saved_at > 60 * recipe.training.checkpoint_minutes
    for callback in callbacks:
        callback.on_train_start(trainer, run)
    try:
        with graceful_shutdown(on_signal) as signals:
            finished = trainer.run(after_step, after_epoch)
            if finished:
                save_findings(trainer, run)
                if group.is_main:
                    settings = trainer.method.resolved_params()
                    run.finish({"recipe_hash": recipe.hash, "settings": settings, **evaluator.summarize(run.metrics)})
                group.barrier()
            else:
                save()
    finally:
        for callback in callbacks:
            callback.on_train_end(run)
    if not finished and (signals or not group.is_single):  # another process may have received the signal
        raise KeyboardInterrupt(f"stopped and saved; {run.resume_command} resumes it.")


def save_checkpoint(checkpoints: Checkpoints, trainer: Trainer) -> None:
    """Write a checkpoint: rank 0 the shared state, the others their rows of sharded state."""
    state = trainer.state_dict()
    if trainer.sharded:
        if not trainer.group.is_main:
            checkpoints.save_part(trainer.step, trainer.group.rank, {"method": state["method"]})
        trainer.group.barrier()
    if trainer.group.is_main:
        checkpoints.save(trainer.step, state)


def save_method_findings(trainer: Trainer, run: Run) -> None:
    """Write the findings of the method, and noise estimates, into the folder of a run at the end of training."""
    data = trainer.data
    corrected, quality = (values.cpu() for values in trainer.method.labels_and_quality(trainer.predict_logits))
    estimates = []
    if trainer.validation is not None:
        log_p = trainer.predict(trainer.validation).cpu().clamp_min(_MIN_PROB).log()
        labels = trainer.validation.labels
        estimates.append(from_errors(find_errors(log_p, labels), data.classes, "held_out", len(labels)))
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


def _check_weights(trainer: Trainer) -> None:
    """Refuse to save weights that are not finite."""
    for name, value in trainer.method.networks.state_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
            raise NotFiniteError(
                f"{name} became NaN or infinite in epoch {trainer.epoch + 1}, before step {trainer.step + 1}: lower "
                "the learning rate; the previous checkpoint is intact."
            )
