"""Cost of the layer relative to cross-entropy, to the published dense form, and as a function of N.

python benchmarks/layer.py      prints a table and writes results/layer.csv
"""

import itertools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.dense_form import DensePermutationLayer
from benchmarks.timing import Ratio, measure, ratio, write_csv
from permll import PermutationLayer
from permll.layer.base import CorrectionLayer

BATCH, ROWS = 128, 50_000
Row = dict[str, object]


def mlp(num_classes: int, widths: tuple[int, ...]) -> nn.Module:
    """Return a multilayer perceptron on flattened images with batch normalization."""
    blocks: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(widths):
        blocks += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*blocks, nn.Linear(widths[-1], num_classes))


def cnn(num_classes: int) -> nn.Module:
    """Return a small convolutional network for 32 x 32 images."""
    blocks: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        blocks += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, num_classes))


# Name, network, image shape, rounds, and whether there is a target. The last network takes about 2 ms per step, which
# shows the cost of the layer alone.
NETS: list[tuple[str, Callable[[int], nn.Module], tuple[int, ...], int, bool]] = [
    ("mlp 3072-1024-1024", lambda c: mlp(c, (3072, 1024, 1024)), (3, 32, 32), 400, True),
    ("small cnn", cnn, (3, 32, 32), 150, True),
    ("mlp 784-256-128", lambda c: mlp(c, (784, 256, 128)), (1, 28, 28), 1000, False),
]


class Trainer:
    """One network and optimizer for all losses, since copies would differ in memory layout."""

    def __init__(self, net: nn.Module, shape: tuple[int, ...], num_classes: int, rows: int = ROWS) -> None:
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
        self.images = torch.randn(8, BATCH, *shape)
        self.labels = torch.randint(num_classes, (rows,))
        self.num_batches = 0

    def batch(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return images, labels and sample indices of a batch."""
        self.num_batches += 1
        index = torch.randint(len(labels), (BATCH,))
        return self.images[self.num_batches % len(self.images)], labels[index], index

    def step_with_cross_entropy(self) -> None:
        """Take a training step with cross-entropy."""
        images, labels, _ = self.batch(self.labels)
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.net(images), labels).backward()
        self.optimizer.step()

    def step_with(self, layer: CorrectionLayer) -> None:
        """Take a training step with the layer."""
        images, _, index = self.batch(layer.labels)
        self.optimizer.zero_grad()
        layer(self.net(images), index).backward()
        self.optimizer.step()
        layer.step()


def compare_cross_entropy() -> list[Row]:
    """Compare a full training step with and without the layer."""
    rows = []
    for name, build, shape, rounds, has_target in NETS:
        for num_classes in (10, 100, 1000):
            torch.manual_seed(0)
            trainer = Trainer(build(num_classes), shape, num_classes)
            layer = PermutationLayer.paper(trainer.labels, num_classes)
            steps: dict[str, Callable[[], object]] = {
                "ce": trainer.step_with_cross_entropy,
                "layer": partial(trainer.step_with, layer),
            }
            seconds = measure(steps, rounds)
            result = ratio(seconds["layer"], seconds["ce"])
            rows.append(
                report("step: layer / cross-entropy", name, num_classes, ROWS, result, 1.02 if has_target else None)
            )
    return rows


def compare_dense_form() -> list[Row]:
    """Compare loss, gradients and update of α, without a network, with the published form."""
    rows = []
    for num_classes, rounds, target in ((10, 200, 10.0), (100, 5, 1000.0)):
        torch.manual_seed(0)
        labels = torch.randint(num_classes, (ROWS,))
        ours, dense = (
            PermutationLayer.paper(labels, num_classes, lr=1.5 / BATCH),
            DensePermutationLayer(labels, num_classes),
        )
        optimizer = torch.optim.SGD([dense.alpha], lr=1.5)
        logits, index = torch.randn(BATCH, num_classes, requires_grad=True), torch.randperm(ROWS)[:BATCH]
        step_ours, step_dense = (
            partial(_step, ours, ours, logits, index),
            partial(_step, dense, optimizer, logits, index),
        )

        step_ours(), step_dense()
        torch.testing.assert_close(ours.alpha, dense.alpha.data)  # both compute the same
        # A dense step evicts all caches, so ours runs twenty times per round, as in a training loop.
        seconds = measure({"ours": step_ours, "dense": step_dense}, rounds, runs={"ours": 20})
        result = ratio(seconds["dense"], seconds["ours"])
        rows.append(report("dense form / layer", "loss alone", num_classes, ROWS, result, target, at_least=True))
    return rows


def _step(loss: nn.Module, optimizer: CorrectionLayer | torch.optim.Optimizer, logits: Tensor, index: Tensor) -> None:
    optimizer.zero_grad()
    loss(logits, index).backward()
    optimizer.step()


def compare_num_rows() -> list[Row]:
    """Compare the training step of the smallest network at increasing numbers of rows."""
    torch.manual_seed(0)
    _, build, shape, rounds, _ = NETS[-1]
    trainer = Trainer(build(10), shape, 10)
    sizes = [10**k for k in range(4, 8)]
    layers = {n: PermutationLayer.paper(torch.randint(10, (n,)), 10) for n in sizes}
    seconds = measure({str(n): partial(trainer.step_with, layer) for n, layer in layers.items()}, rounds)
    baseline = seconds[str(sizes[0])]
    return [
        report("step: N rows / 10^4 rows", NETS[-1][0], 10, n, ratio(seconds[str(n)], baseline), 1.05)
        for n in sizes[1:]
    ]


def report(
    what: str, net: str, num_classes: int, rows: int, result: Ratio, target: float | None, at_least: bool = False
) -> Row:
    """Print one line of the table and return it as a row of the CSV file."""
    met = None if target is None else (result.median >= target if at_least else result.median <= target)
    aim = "" if target is None else f"{'>=' if at_least else '<='} {target:g}  {'met' if met else 'MISSED'}"
    low, high = result.interval
    spread = f"[{low:.3f}, {high:.3f}]"
    print(f"{what:28} {net:20} c={num_classes:<5} N={rows:<9} {result.median:9.3f} {spread:>22} {aim}", flush=True)
    return {
        "what": what, "net": net, "classes": num_classes, "rows": rows, "batch": BATCH,
        "ratio_median": round(result.median, 4), "median_low95": round(low, 4), "median_high95": round(high, 4),
        "rounds_q25": round(result.quartiles[0], 4), "rounds_q75": round(result.quartiles[1], 4),
        "extra_us_median": round(result.extra_us, 1), "rounds": result.rounds, "target": target, "met": met,
    }  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)  # synchronization of threads is the main source of variance on a shared machine
    results = [*compare_cross_entropy(), *compare_dense_form(), *compare_num_rows()]
    print(f"wrote {write_csv('layer', results)}")
    sys.exit(any(row["met"] is False for row in results))
