"""Training and prediction of the scikit-learn estimator, in memory."""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from permll.cleaning.label_issues import estimate_errors
from permll.cleaning.prediction_averaging import PredictionAverager
from permll.data.dataset import LabeledData
from permll.data.inputs import Vectors
from permll.data.readers.raw_data import default_ids
from permll.data.transforms.image_transforms import Transform
from permll.findings import Findings
from permll.methods._base import Method
from permll.methods._registry import find_method
from permll.training.build import build_trainer, fill_auto_settings, restore_threads
from permll.training.callbacks import Callback
from permll.training.data_preparation import prepare_data
from permll.training.recipe import Recipe
from permll.training.run import Run
from permll.training.trainer import Trainer

_BATCH_SIZE = 8_192  # rows of a prediction batch

Weights = Mapping[str, Mapping[str, Tensor]]  # by network and parameter


def fit(
    inputs: Vectors, labels: Tensor, recipe: Recipe, *, weights: Weights | None, callbacks: Sequence[Callback]
) -> tuple[Method, Transform, Findings, float]:
    """Train with a recipe; nothing is written to disk.

    Args:
        inputs: N samples.
        labels: (N,) int64 class numbers 0 to c - 1; every class has a sample.
        recipe: the recipe.
        weights: initial weights of the networks; None for random ones.
        callbacks: see ``Callback``.

    Returns:
        The trained method, its input transform, the findings about the labels of all rows, and the noise rate.
    """
    classes = [str(k) for k in range(int(labels.max()) + 1)]
    data = LabeledData(inputs, labels, tuple(classes), default_ids(len(labels)))
    with torch.random.fork_rng(devices=[]), restore_threads():
        prepared = prepare_data(recipe, data)
        trainer = build_trainer(fill_auto_settings(recipe, prepared), prepared)
        if weights is not None:
            _load_weights(trainer, weights)
        averager = PredictionAverager(trainer)
        _train(trainer, averager, callbacks)
    errors = estimate_errors(trainer, averager)
    order = torch.tensor([int(name) for name in averager.ids]).argsort()
    findings = Findings.from_posterior(
        data.ids,
        classes,
        labels,
        errors.posterior[order],
        top_k=1,
        label_quality=errors.quality[order],
        issues_have_proposals=False,
    )
    if averager.best_weights is not None:
        _load_weights(trainer, averager.best_weights)
    return _for_inference(trainer.method, recipe), trainer.views["plain"], findings, errors.rate


def _train(trainer: Trainer, averager: PredictionAverager, callbacks: Sequence[Callback]) -> None:
    def after_step(trainer: Trainer) -> None:
        for callback in callbacks:
            callback.on_step_end(trainer)

    run = Run("PermLLClassifier")  # never written: it names the progress bar
    for callback in callbacks:
        callback.on_train_start(trainer, run)
    try:
        for _ in trainer.each_epoch(after_step):
            averager.update(trainer)
            metrics = {"epoch": trainer.epoch, "loss": trainer.epoch_loss, **trainer.method.metrics()}
            for callback in callbacks:
                callback.on_epoch_end(trainer, metrics)
    finally:
        for callback in callbacks:
            callback.on_train_end(run)


def _for_inference(trained: Method, recipe: Recipe) -> Method:
    """Return the method with its networks, without per-sample state if its predictions do not depend on it."""
    method = trained
    if type(trained).predict is Method.predict:
        method = find_method(recipe.method.name).build(**recipe.method.settings)
    for name, network in trained.networks.items():
        method.networks[name] = cast(nn.Module, network.module)  # without Fabric's wrapper
    # in float32, the prediction of a row would depend on the other rows of its batch
    return method.eval().requires_grad_(False).cpu().double()


@torch.no_grad()
def predict_proba(method: Method, transform: Transform, inputs: Vectors) -> Tensor:
    """Return probabilities (N, c) in float64; rows sum to one."""
    parts = []
    for rows in torch.arange(len(inputs)).split(_BATCH_SIZE):
        x = transform(inputs.batch(rows), rows)
        parts.append(method.predict(x.double()).double())
    probs = torch.cat(parts)
    return probs / probs.sum(1, keepdim=True)


def network_weights(method: Method) -> Weights:
    """Return the weights of a method's networks."""
    return {name: network.state_dict() for name, network in method.networks.items()}


def _load_weights(trainer: Trainer, weights: Weights) -> None:
    networks = trainer.method.networks
    if set(networks) != set(weights):
        raise ValueError(
            f"warm_start needs the networks of the previous fit, {', '.join(weights)}, but this method has "
            f"{', '.join(networks)}: set warm_start=False."
        )
    for name, network in networks.items():
        try:
            network.load_state_dict(dict(weights[name]))
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip().rstrip(".")
            raise ValueError(
                f"warm_start needs the network of the previous fit ({reason}): set warm_start=False."
            ) from None
