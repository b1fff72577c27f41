"""From the first step to the result: evaluate, write down, save; whatever happens to the process."""

import time
from typing import Any

from torch import Tensor

from permll.evaluation.evaluator import Evaluator
from permll.training.callbacks import Callback
from permll.training.checkpoint import Checkpoints
from permll.training.data_preparation import PreparedData
from permll.training.findings import write_findings
from permll.training.noise_estimate import noise_estimates, write_noise_estimate
from permll.training.recipe import Recipe
from permll.training.run import Run
from permll.training.signals import graceful_shutdown
from permll.training.trainer import NotFiniteError, Trainer


def run_training(run: Run, recipe: Recipe, prepared: PreparedData, trainer: Trainer, callbacks: list[Callback]) -> None:
    """Train to the end. Ctrl-C and a request to end save after the step under way, and raise ``KeyboardInterrupt``."""
    evaluator = Evaluator(
        prepared.test,
        prepared.validation,
        prepared.clean,
        prepared.clean_validation,
        prepared.validation_is_clean,
    )
    saved = time.monotonic()

    group = trainer.group
    callbacks = [callback for callback in callbacks if group.is_main or callback.all_ranks]

    def save() -> None:
        nonlocal saved
        _refuse_broken_weights(trainer)
        save_checkpoint(run.checkpoints, trainer)
        saved = time.monotonic()

    def after_step(trainer: Trainer) -> None:
        for callback in callbacks:
            callback.on_step_end(trainer)
        if trainer.save_now:
            save()

    def after_epoch(trainer: Trainer) -> None:
        entry: dict[str, Any] = {
            "epoch": trainer.epoch,
            "step": trainer.step,
            "loss": trainer.epoch_loss,
            **trainer.method.metrics(),
        }
        if len(trainer.stages.every) > 1:
            entry["stage"] = trainer.stages.at(trainer.epoch - 1).name
        if trainer.epoch % recipe.training.evaluate_every == 0 or trainer.epoch == trainer.epochs:
            entry |= evaluator.evaluate(trainer.method, trainer.predict, trainer.predict_logits, trainer.data)
        if group.is_main:
            run.add_metrics(entry)
        save()
        for callback in callbacks:
            callback.on_epoch_end(trainer, entry)

    def stop(times: int) -> None:
        """End after the step under way; asked once more, at once."""
        if times > 1:
            raise KeyboardInterrupt
        trainer.stop()

    trainer.is_save_due = lambda: time.monotonic() - saved > 60 * recipe.training.checkpoint_minutes
    for callback in callbacks:
        callback.on_train_start(trainer, run)
    try:
        with graceful_shutdown(stop) as asked:
            reached = trainer.run(after_step, after_epoch)
            if reached:
                labels, quality = trainer.method.labels_and_quality(trainer.predict_logits)
                estimate = noise_estimates(trainer, labels.cpu())
                if group.is_main:
                    write_findings(run.folder, trainer.data, labels.cpu(), quality.cpu())
                    write_noise_estimate(run.folder, estimate)
                    run.finish(
                        {
                            "recipe_hash": recipe.hash,
                            "settings": trainer.method.resolved_params(),
                            **evaluator.summarize(run.metrics),
                        }
                    )
                group.barrier()
            else:
                save()
    finally:
        for callback in callbacks:
            callback.on_train_end(run)
    if not reached and (asked or not group.is_single):  # of ranks, another one may have been asked
        raise KeyboardInterrupt(f"stopped and saved; permll train {run.folder} goes on.")


def save_checkpoint(checkpoints: Checkpoints, trainer: Trainer) -> None:
    """Write a checkpoint: the first rank all that they have in common, the others the rows that are theirs."""
    state = trainer.state_dict()
    if trainer.sharded:
        if not trainer.group.is_main:
            checkpoints.save_part(trainer.step, trainer.group.rank, {"method": state["method"]})
        trainer.group.barrier()
    if trainer.group.is_main:
        checkpoints.save(trainer.step, state)


def _refuse_broken_weights(trainer: Trainer) -> None:
    """Let no weight that is NaN or infinite into a checkpoint: the one before is better."""
    for name, value in trainer.method.networks.state_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
            raise NotFiniteError(
                f"{name} became NaN or infinite in epoch {trainer.epoch + 1}, before step {trainer.step + 1}: lower the "
                "learning rate; the checkpoint before is still good."
            )
