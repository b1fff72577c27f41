"""From the first step to the result: evaluate, write down, save; whatever happens to the process."""

import time
from typing import Any

from torch import Tensor

from permll.evaluation.evaluator import Judge
from permll.training.checkpoint import Checkpoints
from permll.training.data_preparation import Experiment
from permll.training.findings import write_findings
from permll.training.trainer import Loop, NotFiniteError
from permll.training.noise_estimate import noise_estimates, write_noise_estimate
from permll.training.callbacks import Observer
from permll.training.recipe import Recipe
from permll.training.run import Run
from permll.training.signals import asked_to_stop


def carry_out(run: Run, recipe: Recipe, experiment: Experiment, loop: Loop, observers: list[Observer]) -> None:
    """Train to the end. Ctrl-C and a request to end save after the step under way, and raise ``KeyboardInterrupt``."""
    judge = Judge(
        experiment.test,
        experiment.validation,
        experiment.clean,
        experiment.clean_validation,
        experiment.validation_is_clean,
    )
    saved = time.monotonic()

    ranks = loop.ranks
    observers = [observer for observer in observers if ranks.first or observer.everywhere]

    def save() -> None:
        nonlocal saved
        _refuse_broken_weights(loop)
        save_together(run.checkpoints, loop)
        saved = time.monotonic()

    def after_step(loop: Loop) -> None:
        for observer in observers:
            observer.on_step(loop)
        if loop.was_due:
            save()

    def after_epoch(loop: Loop) -> None:
        entry: dict[str, Any] = {
            "epoch": loop.epoch,
            "step": loop.step,
            "loss": loop.epoch_loss,
            **loop.method.metrics(),
        }
        if len(loop.stages.every) > 1:
            entry["stage"] = loop.stages.at(loop.epoch - 1).name
        if loop.epoch % recipe.training.evaluate_every == 0 or loop.epoch == loop.epochs:
            entry |= judge.verdict(loop.method, loop.predict, loop.scan, loop.data)
        if ranks.first:
            run.add_metrics(entry)
        save()
        for observer in observers:
            observer.on_epoch(loop, entry)

    def stop(times: int) -> None:
        """End after the step under way; asked once more, at once."""
        if times > 1:
            raise KeyboardInterrupt
        loop.stop()

    loop.due = lambda: time.monotonic() - saved > 60 * recipe.training.checkpoint_minutes
    for observer in observers:
        observer.on_start(loop, run)
    try:
        with asked_to_stop(stop) as asked:
            reached = loop.run(after_step, after_epoch)
            if reached:
                labels, quality = loop.method.labels_and_quality(loop.scan)
                estimate = noise_estimates(loop, labels.cpu())
                if ranks.first:
                    write_findings(run.folder, loop.data, labels.cpu(), quality.cpu())
                    write_noise_estimate(run.folder, estimate)
                    run.finish(
                        {"recipe_hash": recipe.hash, "settings": loop.method.settings(), **judge.report(run.metrics)}
                    )
                ranks.wait()
            else:
                save()
    finally:
        for observer in observers:
            observer.on_end(run)
    if not reached and (asked or not ranks.alone):  # of ranks, another one may have been asked
        raise KeyboardInterrupt(f"stopped and saved; permll train {run.folder} goes on.")


def save_together(checkpoints: Checkpoints, loop: Loop) -> None:
    """Write a checkpoint: the first rank all that they have in common, the others the rows that are theirs."""
    state = loop.state_dict()
    if loop.sharded:
        if not loop.ranks.first:
            checkpoints.save_part(loop.step, loop.ranks.rank, {"method": state["method"]})
        loop.ranks.wait()
    if loop.ranks.first:
        checkpoints.save(loop.step, state)


def _refuse_broken_weights(loop: Loop) -> None:
    """Let no weight that is NaN or infinite into a checkpoint: the one before is better."""
    for name, value in loop.method.networks.state_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
            raise NotFiniteError(
                f"{name} became NaN or infinite in epoch {loop.epoch + 1}, before step {loop.step + 1}: lower the "
                "learning rate; the checkpoint before is still good."
            )
