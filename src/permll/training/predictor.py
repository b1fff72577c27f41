"""``Predictor``: inference with the networks of a run, without its training data."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder
from permll.data.inputs import Inputs, LazyImages
from permll.data.readers.inference_inputs import resize_inputs
from permll.data.readers.input_spec import InputSpec, input_kind
from permll.data.readers.raw_data import default_ids
from permll.data.samplers import num_batches
from permll.data.streams import Stream
from permll.data.transforms.image_transforms import Transform
from permll.methods._base import FitInfo, Method
from permll.methods._features import logits_and_features
from permll.methods._registry import find_method
from permll.networks import build_network
from permll.training.export.transforms import transform_from_steps
from permll.training.feature_cache import with_cache
from permll.training.model_card import class_name, read_encoder, read_model_card
from permll.training.recipe import USER_NETWORK
from permll.training.run import Run
from permll.utils.progress_bar import progress


@dataclass(frozen=True, eq=False)
class Predictor:
    """The networks of a run, for inference.

    Args:
        method: the method with its networks, in evaluation mode; its per-sample state is loaded only if its
            predictions need it.
        view: plain view, from samples as they are read to inputs of the networks.
        classes: names of the c classes.
        input_spec: required form of samples.
        card: model card of the run, see ``write_model_card``.
        epoch: number of epochs that the networks were trained.
    """

    method: Method
    view: Transform
    classes: tuple[str, ...]
    input_spec: InputSpec
    card: Mapping[str, Any]
    epoch: int

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The networks by name."""
        return dict(self.method.networks.items())

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of texts, tables or images, if any."""
        return self.input_spec.encoder

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, *, batch_size: int = 256, workers: int = 0, device: str | torch.device = "cpu"
    ) -> Tensor:
        """Return probabilities (N, c).

        Args:
            inputs: N samples as they were read; they are encoded or resized here.
            batch_size: samples in a batch.
            workers: processes that decode images.
            device: device to which the networks are moved.
        """
        return self._apply(self.method.predict, "predicting", inputs, batch_size, workers, device)

    @torch.no_grad()
    def features(
        self, inputs: Inputs, *, batch_size: int = 256, workers: int = 0, device: str | torch.device = "cpu"
    ) -> Tensor:
        """Return the inputs of the first network's last layer, (N, d): similar samples are close to each other."""
        network = next(iter(self.method.networks.values()))
        return self._apply(
            lambda x: logits_and_features(network, x)[1], "computing features", inputs, batch_size, workers, device
        )

    def _apply(
        self,
        function: Callable[[Tensor], Tensor],
        description: str,
        inputs: Inputs,
        batch_size: int,
        workers: int,
        device: str | torch.device,
    ) -> Tensor:
        if self.encoder is not None and input_kind(inputs) == self.encoder.takes:
            inputs = self.encoder(inputs)
        elif isinstance(inputs, LazyImages) and self.input_spec.size is not None:
            inputs = resize_inputs(inputs, default_ids(len(inputs)), self.input_spec, self.input_spec.size)
        labels = torch.zeros(len(inputs), dtype=torch.int64)  # unknown, and not used
        data = LabeledData(inputs, labels, self.classes, default_ids(len(inputs)))
        stream = Stream(data, batch_size, views={"plain": self.view}, order="sequential", workers=workers)
        self.method.to(device)
        outputs, done = torch.empty(0), 0
        with progress(description, len(inputs)) as advance:
            for batch in stream:
                output = function(batch.x.to(device)).float().cpu()
                if not done:
                    outputs = torch.empty(len(inputs), *output.shape[1:])  # torch.cat would need twice the memory
                outputs[done : done + len(output)] = output
                done += len(output)
                advance(len(batch.index))
        return outputs


def load_predictor(run: Run | Path | str, network: nn.Module | None = None) -> Predictor:
    """Return the networks of a run with the weights of its best epoch, if one was selected, else the newest ones.

    Args:
        run: the run or its folder, finished or not.
        network: a module of the class that was passed to ``train``, if one was; a copy of it gets the weights.
    """
    run = run if isinstance(run, Run) else Run(run)
    card = read_model_card(run)
    state = run.checkpoints.newest()
    if state is None:
        raise FileNotFoundError(f"{run.folder} has no checkpoint yet: {run.resume_command} resumes it.")
    recipe = run.recipe
    method = find_method(card["method"]).build(**recipe.method.settings)
    with torch.random.fork_rng(devices=[]):
        for name in card["networks"]:
            method.networks[name] = _build_network(card, network)
        if type(method).predict is not Method.predict:  # it may depend on more than the networks
            labels, training = run.labels, recipe.training
            steps = num_batches(len(labels.ids), training.resolved_batch_size)
            method.on_fit_start(FitInfo(labels.labels, labels.ids, len(labels.classes), training.epochs, steps))
            method.load_extra_state(state["method"])
    best = run.checkpoints.best() or state
    for name, module in method.networks.items():
        _load_weights(module, best["networks"][name], run)
    method.eval().requires_grad_(False)
    encoder = with_cache(read_encoder(run), run, write=False)
    input_spec = InputSpec.from_dict(card["input_spec"], encoder)
    view = transform_from_steps(card["view"])
    return Predictor(method, view, tuple(card["classes"]), input_spec, card, best["epoch"])


def _build_network(card: Mapping[str, Any], network: nn.Module | None) -> nn.Module:
    """Return a network of the architecture on the card, or a copy of the user's."""
    spec = card["network"]
    if network is None:
        if spec["name"].startswith(USER_NETWORK):
            raise ValueError(
                f"the run trained a user-defined network, {spec['class']}: in Python, pass one to "
                "permll.training.load_predictor(Run(folder), network)."
            )
        return build_network(
            spec["name"],
            input_shape=tuple(card["input_shape"]),
            num_classes=len(card["classes"]),
            seed=0,
            **spec["options"],
        )
    if class_name(network) != spec["class"]:
        raise ValueError(
            f"the run trained a {spec['class']}, not a {class_name(network)}: pass such a network to "
            "load_predictor(run, network)."
        )
    return copy.deepcopy(network)


def _load_weights(module: nn.Module, weights: Mapping[str, Tensor], run: Run) -> None:
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip().rstrip(".")
        raise ValueError(
            f"the weights of {run.folder} do not fit this {class_name(module)}: {reason}; pass the network that was "
            "trained to load_predictor(run, network)."
        ) from None
