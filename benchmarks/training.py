"""Training speed: our loop compared with a plain DataLoader loop, and PermLL, PermLL+ and the layer with cross-entropy.

python benchmarks/training.py --root ROOT      CIFAR-10 in ROOT; prints a table and writes results/training.csv
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pil_pipeline import MEAN, STD, PilImages
from benchmarks.timing import Ratio, measure, ratio, spread, write_csv
from permll import PermutationLayer
from permll.data import Images, LabeledData, load
from permll.data.transforms import Compose, Normalize, RandomCrop, RandomHorizontalFlip, Transform
from permll.methods import find_method
from permll.networks import build_network
from permll.noise import corrupt, named_noise
from permll.training.trainer import Trainer

BATCH = 128
Row = dict[str, object]
# Settings of each method, and its maximum cost relative to a step of cross-entropy.
COSTS: dict[str, tuple[dict[str, Any], float]] = {
    "permll": ({"init": 0.35, "lr": 1.5 / BATCH}, 1.03),
    "permll_plus": ({}, 1.02),
}
WEAK = Compose(RandomCrop(padding=4, mode="zero"), RandomHorizontalFlip(), Normalize(MEAN, STD))


def our_steps(
    data: LabeledData, view: Transform, network: nn.Module, method: str, **settings: object
) -> Iterator[None]:
    """Yield after each step of our loop, endlessly."""
    from lightning_fabric import Fabric

    built = find_method(method).build(**settings)
    built.networks["net"] = network
    trainer = Trainer(
        Fabric(accelerator="cpu", devices=1),
        built,
        data,
        {"weak": view, "plain": view},
        optimizer={"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4},
        epochs=10**6,
        batch_size=BATCH,
    )
    while True:
        for train_pass, batches in trainer._batches():
            trainer._train_step(train_pass, batches)
            yield
        trainer.epoch, trainer.pass_number, trainer._epoch_steps = trainer.epoch + 1, 0, 0


def plain_steps(data: LabeledData, network: nn.Module) -> Iterator[None]:
    """Yield after each step of a plain loop over PIL images in a DataLoader."""
    assert isinstance(data.inputs, Images)
    pixels = data.inputs.pixels.permute(0, 2, 3, 1).contiguous().numpy()
    loader = DataLoader(PilImages(pixels, data.labels.tolist(), strong=False), BATCH, shuffle=True)
    yield from _steps(loader, network)


def tensor_steps(data: LabeledData, network: nn.Module) -> Iterator[None]:
    """Yield after each step of a plain loop over tensors in memory, without augmentation."""
    assert isinstance(data.inputs, Images)
    scaled = data.inputs.pixels.float() / 255
    dataset = torch.utils.data.TensorDataset(scaled, data.labels)
    loader: DataLoader[Any] = DataLoader(dataset, BATCH, shuffle=True)
    yield from _steps(loader, network)


def _steps(loader: DataLoader[Any], network: nn.Module) -> Iterator[None]:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    network.train()
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
            yield


def layer_steps(data: LabeledData, network: nn.Module, use_layer: bool) -> Iterator[None]:
    """Yield after each step of a plain loop, with cross-entropy or ``PermutationLayer``; 36 % of the labels wrong."""
    assert isinstance(data.inputs, Images)
    x = data.inputs.pixels.float().flatten(1) / 255
    labels = torch.from_numpy(corrupt(data.labels.numpy(), named_noise("permll:sym:0.4", 10, seed=1), 1).noisy)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    layer = PermutationLayer(labels, 10) if use_layer else None
    generator = torch.Generator().manual_seed(0)
    network.train()
    while True:
        for index in torch.randperm(len(x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            logits = network(x[index])
            loss = nn.functional.cross_entropy(logits, labels[index]) if layer is None else layer(logits, index)
            loss.backward()
            optimizer.step()
            if layer is not None:
                layer.step()
            yield


def net(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """Return a network with fixed initial weights."""
    return build_network(name, input_shape=shape, num_classes=10, seed=0, **options)


def row(what: str, network: str, result: Ratio, speed: float, target: float | None, *, at_least: bool) -> Row:
    """Print and return one comparison."""
    met: object = "" if target is None else (result.median >= target if at_least else result.median <= target)
    print(f"{what:55} {network:22} {result.median:6.3f} x  {speed:9,.0f} images/s  {met}")
    return {
        "what": what,
        "network": network,
        **spread(result, 4),
        "images_per_second_ours": round(speed),
        "target": target or "",
        "met": met,
    }


def compare(candidates: dict[str, Iterator[None]], slow: str, fast: str, rounds: int) -> tuple[Ratio, float]:
    """Return the ratio of the times of ``slow`` and ``fast``, and the images per second of ours."""
    steps: dict[str, Callable[[], object]] = {name: partial(next, steps) for name, steps in candidates.items()}
    seconds = measure(steps, rounds)
    ours = next(name for name in candidates if name.startswith("ours"))
    return ratio(seconds[slow], seconds[fast]), BATCH / statistics.median(seconds[ours])


def plain_loop_rows(fashion: LabeledData) -> list[Row]:
    """Compare the layer with cross-entropy in a plain loop: single steps, and epochs with the updates after them."""
    rows = []
    cases = ((10_000, False, (320, 128), 1.05), (10_000, True, (256, 128), 1.1), (50_000, True, (256, 128), 1.1))
    for count, per_epoch, widths, maximum in cases:  # a step with 320-128 units takes 3 ms
        data = fashion.take(torch.arange(count))
        steps: dict[str, Callable[[], object]] = {
            name: partial(next, layer_steps(data, net("mlp", (784,), widths=widths), name == "layer"))
            for name in ("layer", "cross-entropy")
        }
        runs = dict.fromkeys(steps, -(-count // BATCH) if per_epoch else 1)
        seconds = measure(steps, 24 if per_epoch else 1000, runs=runs)
        result, speed = ratio(seconds["layer"], seconds["cross-entropy"]), BATCH / statistics.median(seconds["layer"])
        what = f"layer / cross-entropy in a plain loop, {f'epochs of {count}' if per_epoch else 'steps'}"
        rows.append(row(what, f"mlp 784-{widths[0]}-{widths[1]}", result, speed, maximum, at_least=False))
    return rows


def main() -> None:
    """Measure everything; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds CIFAR-10")
    root = parser.parse_args().root
    torch.set_num_threads(1)
    cifar = load("cifar10", root=root)
    fashion = load("fashion_mnist", root=root)
    gray = Normalize((0.286,), (0.353,))
    rows = []
    # Both loops spend most of the time in the network, even the MLP; input.py compares the input alone.
    for network, rounds, target in (("mlp", 300, 1.5), ("cnn", 60, 1.0), ("resnet8", 40, 1.0)):
        shape = (3, 32, 32)
        candidates = {
            "ours": our_steps(cifar, WEAK, net(network, shape), "ce"),
            "plain": plain_steps(cifar, net(network, shape)),
        }
        result, speed = compare(candidates, "plain", "ours", rounds)
        rows.append(row("plain loop, PIL / our loop, crop and flip", network, result, speed, target, at_least=True))
    candidates = {
        "ours": our_steps(fashion, gray, net("mlp", (1, 28, 28)), "ce"),
        "plain": tensor_steps(fashion, net("mlp", (1, 28, 28))),
    }
    result, speed = compare(candidates, "plain", "ours", 500)
    rows.append(row("plain loop, tensors / our loop, no augmentation", "mlp 784", result, speed, 1.0, at_least=True))
    for network, data, view, rounds in (
        ("resnet8", cifar, WEAK, 60),
        ("cnn", cifar, WEAK, 60),
        ("mlp 3072-1024-1024", cifar, WEAK, 200),
        ("mlp 784-256-128", fashion, gray, 800),
    ):
        name, _, widths = network.partition(" ")
        options = {"widths": tuple(int(width) for width in widths.split("-")[1:])} if widths else {}
        input_shape = tuple(data.inputs.batch(torch.arange(1)).shape[1:])
        for method, (settings, limit) in COSTS.items():
            candidates = {
                f"ours, {method}": our_steps(data, view, net(name, input_shape, **options), method, **settings),
                "ours, ce": our_steps(data, view, net(name, input_shape, **options), "ce"),
            }
            result, speed = compare(candidates, f"ours, {method}", "ours, ce", rounds)
            maximum = None if "784" in network else limit
            rows.append(row(f"{method} / ce in our loop", network, result, speed, maximum, at_least=False))
    rows += plain_loop_rows(fashion)
    print(f"written to {write_csv('training', rows)}")
    sys.exit(any(entry["met"] is False for entry in rows))


if __name__ == "__main__":
    main()
