"""What a training has come to: the networks of a run with all that new samples need, without the training data."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from permll._version import __version__
from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder
from permll.data.inputs import Inputs, LazyImages
from permll.data.readers.inference_inputs import resize_inputs
from permll.data.readers.input_spec import InputSpec, input_kind
from permll.data.readers.raw_data import default_ids
from permll.data.samplers import num_batches
from permll.data.streams import Stream
from permll.data.transforms.image_transforms import Transform
from permll.distributed.network import DistributedNetwork
from permll.methods._base import FitInfo, Method
from permll.methods._features import logits_and_features
from permll.methods._registry import find_method
from permll.networks import build_network
from permll.training.export.transforms import steps_of, view_of
from permll.training.feature_cache import FEATURES, encoder_of, keeping
from permll.training.recipe import GIVEN
from permll.training.run import Run
from permll.utils.files import atomic_write, atomic_write_text
from permll.utils.progress import progress

if TYPE_CHECKING:
    from permll.training.data_preparation import Experiment
    from permll.training.trainer import Trainer

CARD, ENCODER, CHOSEN = "network.json", "encoder.npz", "chosen.safetensors"


@dataclass(frozen=True, eq=False)
class Predictor:
    """The networks of a run, ready to predict.

    Args:
        method: with its networks, in evaluation mode. What it kept for each training sample is there only if its
            predictions need it.
        view: the plain view: from a sample as it is read to what the networks take.
        classes: the names of the c classes.
        seen: what the samples must be like.
        card: what the run wrote down about them: see ``write_model_card``.
        epoch: how many epochs they were trained for.
    """

    method: Method
    view: Transform
    classes: tuple[str, ...]
    input_spec: InputSpec
    card: Mapping[str, Any]
    epoch: int

    @property
    def networks(self) -> dict[str, nn.Module]:
        """Return the networks by name."""
        return dict(self.method.networks.items())

    @property
    def encoder(self) -> Encoder | None:
        """Return what makes vectors of texts, tables or images."""
        return self.input_spec.encoder

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, *, batch_size: int = 256, workers: int = 0, device: str | torch.device = "cpu"
    ) -> Tensor:
        """Return probabilities (N, c).

        Args:
            inputs: N samples like those of the training, as they were read: they are encoded or resized here.
            batch_size: how many go through the networks at once.
            workers: processes that decode images.
            device: where the networks compute; they stay there.
        """
        return self._each(self.method.predict, "predicting", inputs, batch_size, workers, device)

    @torch.no_grad()
    def features(
        self, inputs: Inputs, *, batch_size: int = 256, workers: int = 0, device: str | torch.device = "cpu"
    ) -> Tensor:
        """Return what the first network's last layer takes, (N, d): samples that it finds alike lie close together."""
        network = next(iter(self.method.networks.values()))

        def features_of(x: Tensor) -> Tensor:
            return logits_and_features(network, x)[1]

        return self._each(features_of, "comparing", inputs, batch_size, workers, device)

    def _each(
        self,
        function: Callable[[Tensor], Tensor],
        what: str,
        inputs: Inputs,
        batch_size: int,
        workers: int,
        device: str | torch.device,
    ) -> Tensor:
        if self.encoder is not None and input_kind(inputs) == self.encoder.takes:
            inputs = self.encoder(inputs)
        elif isinstance(inputs, LazyImages) and self.input_spec.size is not None:
            inputs = resize_inputs(inputs, default_ids(len(inputs)), self.input_spec, self.input_spec.size)
        unknown = torch.zeros(len(inputs), dtype=torch.int64)
        data = LabeledData(inputs, unknown, self.classes, default_ids(len(inputs)))
        stream = Stream(data, batch_size, views={"plain": self.view}, order="sequential", workers=workers)
        self.method.to(device)
        found, done = torch.empty(0), 0
        with progress(what, len(inputs)) as advance:
            for batch in stream:
                some = function(batch.x.to(device)).float().cpu()
                if not done:
                    found = torch.empty(len(inputs), *some.shape[1:])  # at once: parts and their whole would be two
                found[done : done + len(some)] = some
                done += len(some)
                advance(len(batch.index))
        return found


def write_model_card(run: Run, trainer: "Trainer", experiment: "Experiment") -> None:
    """Write into the run's folder what its networks are and what they take; with the weights, that is all of them.

    ``network.json`` has the architecture, the classes, the plain view with its numbers, and what samples looked like;
    ``encoder.npz`` has the encoder of texts, tables or images. Written whole or not at all, as often as one likes.
    """
    if trainer.fabric.global_rank != 0:
        return
    recipe, view, inputs = run.recipe, trainer.views["plain"], experiment.train.inputs
    resized = {"image_size": recipe.data.pixels} if recipe.data.pixels else {}
    input_spec = InputSpec.of(experiment.train, experiment.encoder, recipe.data.options | resized)
    shape = view(inputs.batch(torch.arange(1)), torch.arange(1)).shape[1:]
    settings = {key: value for key, value in recipe.network.settings.items() if key != "pretrained"}
    card = {
        "permll": __version__,
        "method": recipe.method.name,
        "networks": list(trainer.method.network_names),
        "network": {"name": recipe.network.name, "options": settings, "class": _class_of(trainer.method)},
        "classes": list(experiment.train.classes),
        "input_shape": list(shape),
        "view": steps_of(view),
        "seen": input_spec.to_dict(),
    }
    if experiment.encoder is not None:
        with atomic_write(run.folder / ENCODER) as file:
            np.savez(file, **experiment.encoder.to_arrays())  # type: ignore[arg-type]
    atomic_write_text(run.folder / CARD, json.dumps(card, indent=2) + "\n")


def load_predictor(run: Run, network: nn.Module | None = None) -> Predictor:
    """Return the networks of a run, finished or not, with the weights that were chosen, or of its newest checkpoint.

    Args:
        run: the run.
        network: the module that ``fit`` was given, if it was given one: its weights are replaced.
    """
    card = _read_card(run)
    state = run.checkpoints.newest()
    if state is None:
        raise FileNotFoundError(f"{run.folder} has no checkpoint yet: permll train {run.folder} goes on with it.")
    method = find_method(card["method"]).build(**run.recipe.method.settings)
    with torch.random.fork_rng(devices=[]):
        for name in card["networks"]:
            method.networks[name] = _built(card, network)
        if type(method).predict is not Method.predict:  # it may ask more than the networks
            method.on_fit_start(_fit_info(run))
            method.load_extra_state(state["method"])
    weights, epoch = chosen_weights(run) or (state["networks"], state["epoch"])
    for name, module in method.networks.items():
        _load(module, weights[name], run)
    method.eval().requires_grad_(False)
    input_spec = InputSpec.from_dict(card["seen"], keeping(saved_encoder(run), run.folder / FEATURES, write=False))
    return Predictor(method, view_of(card["view"]), tuple(card["classes"]), input_spec, card, epoch)


def choose_weights(run: Run, networks: Mapping[str, Mapping[str, Tensor]], epoch: int) -> None:
    """Write down the weights of an epoch that was chosen: from now on they are what the training has come to."""
    from safetensors.torch import save

    flat = {f"{name}/{key}": tensor.cpu().contiguous() for name, one in networks.items() for key, tensor in one.items()}
    with atomic_write(run.folder / CHOSEN) as file:
        file.write(save(flat, {"epoch": str(epoch)}))


def chosen_weights(run: Run) -> tuple[dict[str, dict[str, Tensor]], int] | None:
    """Return the weights of every network and their epoch, as ``choose_weights`` wrote them; None if nobody chose."""
    from safetensors import safe_open

    path = run.folder / CHOSEN
    if not path.is_file():
        return None
    weights: dict[str, dict[str, Tensor]] = {}
    with safe_open(path, "pt") as file:
        for flat in file.keys():  # noqa: SIM118 (it is no mapping)
            name, _, key = flat.partition("/")
            weights.setdefault(name, {})[key] = file.get_tensor(flat)
        return weights, int(file.metadata()["epoch"])


def saved_encoder(run: Run) -> Encoder | None:
    """Return what makes vectors of texts, tables or images in this run, or None if nothing does."""
    if not (run.folder / ENCODER).is_file():
        return None
    with np.load(run.folder / ENCODER, allow_pickle=False) as arrays:
        return encoder_of(dict(arrays))


def _read_card(run: Run) -> dict[str, Any]:
    if not run.exists:
        raise FileNotFoundError(f"{run.folder} is no run: give a folder that permll train made.")
    if not (run.folder / CARD).is_file():
        raise FileNotFoundError(
            f"{run.folder} has no {CARD}, which says what its network takes: permll train {run.folder} writes it if "
            "the run is not finished; otherwise train it again."
        )
    card: dict[str, Any] = json.loads((run.folder / CARD).read_text())
    return card


def _built(card: Mapping[str, Any], network: nn.Module | None) -> nn.Module:
    """Return a network of the architecture on the card; one that the recipe does not build must be given."""
    import copy

    made = card["network"]
    if network is None and made["name"].startswith(GIVEN):
        raise ValueError(
            f"the run trained a network of yours, {made['class']}: in Python, give one to permll.training.load_predictor("
            "Run(folder), network)."
        )
    if network is None:
        network = build_network(
            made["name"],
            input_shape=tuple(card["input_shape"]),
            num_classes=len(card["classes"]),
            seed=0,
            **made["options"],
        )
    else:
        network = copy.deepcopy(network)  # the caller's keeps its weights, and several are several
    found = class_name(network)
    if found != made["class"]:
        raise ValueError(
            f"the run trained a {made['class']}, not a {found}: give such a network to load_predictor(run, network=...)."
        )
    return network


def _load(module: nn.Module, weights: Mapping[str, Tensor], run: Run) -> None:
    try:
        module.load_state_dict(weights)
    except RuntimeError as other:
        first = str(other).splitlines()[-1].strip().rstrip(".")
        raise ValueError(
            f"the weights of {run.folder} do not fit this {class_name(module)}: {first}; give the network that was "
            "trained to load_predictor(run, network=...)."
        ) from None


def _fit_info(run: Run) -> FitInfo:
    """Return what the method was told when the run began."""
    with np.load(run.folder / "labels.npz", allow_pickle=False) as saved:
        labels, ids, classes = torch.from_numpy(saved["given"]), saved["ids"].tolist(), saved["classes"]
    training = run.recipe.training
    steps = num_batches(len(labels), training.rows_of_a_batch)
    return FitInfo(labels, tuple(ids), len(classes), training.epochs, steps)


def _class_of(method: Method) -> str:
    from lightning_fabric.wrappers import _FabricModule

    network = next(iter(method.networks.values()))
    if isinstance(network, DistributedNetwork):
        return class_name(network.kind)
    return class_name(network.module if isinstance(network, _FabricModule) else network)


def class_name(network: nn.Module | type[nn.Module]) -> str:
    """Return module and class of a network."""
    kind = network if isinstance(network, type) else type(network)
    return f"{kind.__module__}.{kind.__qualname__}"
