"""The default permutation layer beside cross-entropy: short and long trainings, slow learners, clean and noisy labels.

python benchmarks/safety.py --cifar10 FOLDER --features FEATURES.npz --trec trec_rules.npz    trains what is missing
python benchmarks/safety.py --only-render                                                        trains nothing

Every cell is a plain PyTorch loop (SGD, momentum 0.9, batches of 128, cosine schedule) on one core. A cell names
data, network, samples, epochs, learning rate and noise. The files are those of CIFAR-10 (a folder), CIFAR-100 features
(x_train, y_train, x_test, y_test) and TREC (permll.bench.real_noise). ELR has its default settings; SELC starts its
correction after a quarter of training. Writes results/safety.csv, with a row per training, results/safety.md,
results/safety.short.md, the table of the layer in the README, and docs/images/safety.png.
"""

import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import ROOT, parse_args
from benchmarks.incremental_csv import Row, run_parallel, update_csv
from benchmarks.timing import RESULTS
from permll import PermutationLayer
from permll import functional as PF  # noqa: N812
from permll.data import load
from permll.networks import build_network
from permll.noise import corrupt, named_noise
from permll.report.figures.style import INK, figure_style, make_figure, panel_title, save

SEEDS = (1, 2, 3)
METHODS = ("ce", "permll", "paper", "elr", "selc")
BATCH_SIZE, MOMENTUM = 128, 0.9
MAX_ROWS, MAX_TEST_ROWS = 20_000, 5_000
ALL_NOISE = ("clean", "sym-10", "sym-20", "sym-40", "asym-20", "asym-40", "pair-45")
SOME_NOISE = ("clean", "sym-40", "asym-40")
FEW_NOISE = ("clean", "sym-40")
TITLES = {"permll": "PermLL (default)", "paper": "PermLL (paper)", "elr": "ELR", "selc": "SELC"}
TOLERANCE = 0.5  # points below cross-entropy that count as equal
MIN_CLASS_ACCURACY = 10.0  # percent; classes that cross-entropy has hardly learned are not compared
VOCABULARY, TOKENS = 2_000, 24
README_TABLE = re.compile(r"(?<=<!-- results/safety.short.md -->\n).*?(?=<!-- end -->)", re.DOTALL)


class Splits(NamedTuple):
    """Training and test samples with clean labels."""

    x: Tensor
    x_test: Tensor
    y: Tensor
    y_test: Tensor


@dataclass(frozen=True)
class Cell:
    """One setting; ``name`` is its key in the CSV file."""

    data: str
    network: str
    rows: int
    epochs: int
    lr: float
    noise: str

    @property
    def training(self) -> str:
        """All but the noise."""
        return f"{self.data}, {self.network}, {self.rows} rows, {self.epochs} epochs, lr {self.lr:g}"

    @property
    def name(self) -> str:
        """Key in the CSV file."""
        return f"{self.training}, {self.noise}"


PLAN: tuple[tuple[str, str, int, int, float, tuple[str, ...]], ...] = (
    ("fashion_mnist", "mlp", 1000, 5, 0.1, ALL_NOISE),
    ("fashion_mnist", "mlp", 1000, 12, 0.03, SOME_NOISE),
    ("fashion_mnist", "mlp", 1000, 40, 0.03, ALL_NOISE),
    ("fashion_mnist", "mlp", 1000, 120, 0.1, SOME_NOISE),
    ("fashion_mnist", "mlp", 6000, 5, 0.01, SOME_NOISE),
    ("fashion_mnist", "mlp", 6000, 12, 0.01, ALL_NOISE),
    ("fashion_mnist", "mlp", 6000, 12, 0.1, SOME_NOISE),
    ("fashion_mnist", "mlp", 6000, 40, 0.03, ALL_NOISE),
    ("fashion_mnist", "mlp", 6000, 120, 0.1, SOME_NOISE),
    ("fashion_mnist", "cnn", 1000, 12, 0.03, SOME_NOISE),
    ("fashion_mnist", "cnn", 1000, 40, 0.1, SOME_NOISE),
    ("fashion_mnist", "cnn", 6000, 5, 0.1, FEW_NOISE),
    ("digits", "mlp", 1000, 120, 0.1, SOME_NOISE),
    ("digits", "cnn", 1000, 40, 0.03, SOME_NOISE),
    ("features", "mlp", 6000, 12, 0.03, SOME_NOISE),
    ("features", "mlp", 6000, 40, 0.1, SOME_NOISE),
    ("cifar10", "resnet8", 1000, 40, 0.1, FEW_NOISE),
    ("cifar10", "resnet8", 6000, 5, 0.03, FEW_NOISE),
    ("trec", "transformer", 4000, 5, 0.03, FEW_NOISE),
    ("trec", "transformer", 4000, 12, 0.03, SOME_NOISE),
    ("trec", "transformer", 1000, 40, 0.03, FEW_NOISE),
)


def cells() -> list[Cell]:
    """Return all settings."""
    return [
        Cell(data, network, rows, epochs, lr, noise)
        for data, network, rows, epochs, lr, noises in PLAN
        for noise in noises
    ]


@lru_cache(maxsize=1)
def read_splits(data: str, files: tuple[Path | None, ...]) -> Splits:
    """Return all samples of a data set, scaled for training."""
    path = dict(zip(("cifar10", "features", "trec"), files, strict=True)).get(data)
    if data in ("fashion_mnist", "digits", "cifar10"):
        train, test = (load(data, split=split, root=path) for split in ("train", "test"))
        train, test = (part.take(torch.arange(min(len(part), MAX_ROWS))) for part in (train, test))
        x, x_test = (part.inputs.batch(torch.arange(len(part))).float() for part in (train, test))
        x, x_test = (part.reshape(len(part), -1, *part.shape[-2:]) for part in (x, x_test))
        return Splits(*standardize(x, x_test), train.labels, test.labels)
    if path is None:
        raise SystemExit(f"{data} needs its file: pass --{data} FILE.")
    with np.load(path) as file:
        arrays = dict(file)
    y, y_test = (torch.from_numpy(arrays[f"y_{part}"].astype(np.int64)) for part in ("train", "test"))
    if data == "trec":
        x, x_test = encode_tokens(arrays["text_train"].tolist(), arrays["text_test"].tolist())
    else:
        x, x_test = standardize(*(torch.from_numpy(arrays[f"x_{part}"]).float() for part in ("train", "test")))
    return Splits(x, x_test, y, y_test)


def standardize(x: Tensor, x_test: Tensor) -> tuple[Tensor, Tensor]:
    """Shift and scale to mean 0 and standard deviation 1 of the training samples."""
    return (x - x.mean()) / x.std(), (x_test - x.mean()) / x.std()


def encode_tokens(train: list[str], test: list[str]) -> tuple[Tensor, Tensor]:
    """Return the words of texts as numbers, 0 for padding and 1 for rare words."""
    words = [text.lower().split() for text in train]
    counts: dict[str, int] = {}
    for text in words:
        for word in text:
            counts[word] = counts.get(word, 0) + 1
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 2]
    number = {word: position + 2 for position, word in enumerate(frequent)}

    def encode(texts: list[list[str]]) -> Tensor:
        rows = [[number.get(word, 1) for word in text[:TOKENS]] for text in texts]
        return torch.tensor([row + [0] * (TOKENS - len(row)) for row in rows])

    return encode(words), encode([text.lower().split() for text in test])


class TextTransformer(nn.Module):
    """Two encoder blocks on word embeddings, and the mean over words."""

    def __init__(self, num_classes: int, width: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(TOKENS, width)
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (B, c) from word numbers (B, length)."""
        padding = tokens == 0
        x = self.blocks(self.words(tokens) + self.places.weight, src_key_padding_mask=padding)
        present = (~padding)[..., None].to(x)
        return self.head((x * present).sum(1) / present.sum(1).clamp_min(1))


def make_network(cell: Cell, x: Tensor, num_classes: int, seed: int) -> nn.Module:
    """Return the network of a cell with initial weights drawn from ``seed``."""
    torch.manual_seed(seed)
    if cell.network == "transformer":
        return TextTransformer(num_classes)
    shape = (x[0].numel(),) if cell.network == "mlp" else tuple(x.shape[1:])
    network = build_network(cell.network, input_shape=shape, num_classes=num_classes, seed=seed)
    if cell.network == "mlp":
        return nn.Sequential(nn.Flatten(), network)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def draw_labels(cell: Cell, y: Tensor, num_classes: int, seed: int) -> Tensor:
    """Return the labels with the noise of a cell."""
    if cell.noise == "clean":
        return y
    kind, percent = cell.noise.split("-")
    if kind == "asym":
        kind = "pair" if cell.data in ("digits", "trec") else kind  # no usual confusions there
    data_set = {"features": "cifar100"}.get(cell.data, cell.data)
    model = named_noise(f"permll:{kind}:{int(percent) / 100}", num_classes, data_set=data_set, seed=seed)
    return torch.from_numpy(corrupt(y.numpy(), model, seed).noisy)


Loss = Callable[[Tensor, Tensor], Tensor]  # of logits and positions
Step = Callable[[], None]


def make_loss(method: str, given: Tensor, num_classes: int, epochs: int) -> tuple[Loss, Step, Callable[[], Tensor]]:
    """Return the loss of a method, what follows an optimizer step, and what returns the corrected labels."""
    if method in ("permll", "paper"):
        settings: dict[str, Any] = {"epochs": epochs} if method == "paper" else {}
        build = PermutationLayer.paper if method == "paper" else PermutationLayer
        layer = build(given, num_classes, **settings)
        return layer, layer.step, layer.corrected_labels
    target = torch.zeros(len(given), num_classes)
    visits = 0

    def elr(logits: Tensor, index: Tensor) -> Tensor:
        target[index] = PF.elr_target(target[index], logits.detach(), 0.7)
        return (cross_entropy(logits, given[index]) + 3.0 * PF.elr_regularizer(target[index], logits)).mean()

    def selc(logits: Tensor, index: Tensor) -> Tensor:
        nonlocal visits
        visits += len(index)
        if visits <= epochs * len(given) / 4:  # the authors estimate the turning point; a quarter of training here
            return cross_entropy(logits, given[index]).mean()
        fresh = target[index].sum(1, keepdim=True) == 0
        old = torch.where(fresh, nn.functional.one_hot(given[index], num_classes).float(), target[index])
        target[index] = 0.9 * old + 0.1 * logits.detach().softmax(-1)
        return cross_entropy(logits, target[index]).mean()

    losses: dict[str, Loss] = {"ce": lambda z, index: cross_entropy(z, given[index]).mean(), "elr": elr, "selc": selc}
    return losses[method], lambda: None, lambda: torch.where(target.sum(1) > 0, target.argmax(1), given)


cross_entropy = partial(nn.functional.cross_entropy, reduction="none")


def train(cell: Cell, method: str, seed: int, splits: Splits) -> dict[str, object]:
    """Train one network and return its results."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(splits.y), generator=generator)[: cell.rows]
    x, y = splits.x[chosen], splits.y[chosen]
    num_classes = int(splits.y.max()) + 1
    given = draw_labels(cell, y, num_classes, seed)
    network = make_network(cell, x, num_classes, seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=cell.lr, momentum=MOMENTUM)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cell.epochs)
    loss, step, corrected = make_loss(method, given, num_classes, cell.epochs)
    for _ in range(cell.epochs):
        network.train()
        for index in torch.randperm(len(x), generator=generator).split(BATCH_SIZE):
            optimizer.zero_grad()
            loss(network(x[index]), index).backward()
            optimizer.step()
            step()
        schedule.step()
    truth = splits.y_test[:MAX_TEST_ROWS]
    hits = predict(network, splits.x_test[:MAX_TEST_ROWS]) == truth
    by_class = [round(100 * hits[truth == k].double().mean().item(), 1) for k in range(num_classes)]
    after = corrected()
    return {
        "last": f"{100 * hits.double().mean().item():.2f}",
        "right_before": f"{100 * (given == y).double().mean().item():.2f}",
        "right_after": f"{100 * (after == y).double().mean().item():.2f}",
        "by_class": " ".join(map(str, by_class)) if num_classes <= 10 else "",
    }


@torch.no_grad()
def predict(network: nn.Module, x: Tensor) -> Tensor:
    """Return the predicted classes."""
    network.eval()
    return torch.cat([network(part).argmax(1) for part in x.split(500)])


def measure(name: str, seed: int, *, files: tuple[Path | None, ...]) -> dict[str, object]:
    """Return the row of one training ("ce/fashion, mlp, ...")."""
    torch.set_num_threads(1)
    method, key = name.split("/")
    cell = next(cell for cell in cells() if cell.name == key)
    return {"set": name, "seed": seed, **train(cell, method, seed, read_splits(cell.data, files))}


class Outcome(NamedTuple):
    """A method in one cell, in percent."""

    accuracies: tuple[float, ...]  # by seed
    baselines: tuple[float, ...]  # of cross-entropy, by seed
    right_before: float
    right_after: float
    worst_class: float  # lowest ratio of class accuracies, method / cross-entropy

    @property
    def differences(self) -> tuple[float, ...]:
        """Difference from cross-entropy by seed."""
        return tuple(own - base for own, base in zip(self.accuracies, self.baselines, strict=True))

    @property
    def difference(self) -> float:
        """Mean difference from cross-entropy."""
        return statistics.mean(self.differences)

    @property
    def upper_limit(self) -> float:
        """Upper limit of the 95 % interval of the mean difference (t distribution)."""
        if len(self.differences) < 2:
            return self.difference
        quantile = float(stats.t.ppf(0.975, len(self.differences) - 1))
        return self.difference + quantile * statistics.stdev(self.differences) / len(self.differences) ** 0.5


def outcomes(rows: Iterable[Row], method: str) -> dict[str, Outcome]:
    """Return the outcome of a method in every cell that has its results, by cell name."""
    by_name: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_name.setdefault(row["set"], {})[int(row["seed"])] = row
    found = {}
    for cell in cells():
        own, base = by_name.get(f"{method}/{cell.name}", {}), by_name.get(f"ce/{cell.name}", {})
        seeds = sorted(own.keys() & base.keys())
        if not seeds:
            continue
        found[cell.name] = Outcome(
            tuple(float(own[seed]["last"]) for seed in seeds),
            tuple(float(base[seed]["last"]) for seed in seeds),
            statistics.mean(float(own[seed]["right_before"]) for seed in seeds),
            statistics.mean(float(own[seed]["right_after"]) for seed in seeds),
            _worst_class([own[seed] for seed in seeds], [base[seed] for seed in seeds]),
        )
    return found


def _worst_class(own: Sequence[Row], base: Sequence[Row]) -> float:
    ours, theirs = (
        np.array([row["by_class"].split() for row in rows], dtype=float).mean(0) if rows[0]["by_class"] else np.ones(1)
        for rows in (own, base)
    )
    learned = theirs >= min(MIN_CLASS_ACCURACY, theirs.max())
    return float((ours[learned] / theirs[learned]).min())


def violations(rows: Iterable[Row]) -> list[str]:
    """Return what the default layer does worse than cross-entropy: accuracy, a class, correct labels."""
    found = []
    for name, outcome in outcomes(rows, "permll").items():
        if outcome.difference < -TOLERANCE and outcome.upper_limit < -TOLERANCE:
            found.append(f"{name}: accuracy {outcome.difference:+.2f}")
        if outcome.worst_class < 0.5:
            found.append(f"{name}: a class has {outcome.worst_class:.0%} of the accuracy with cross-entropy")
        if name.endswith("clean") and outcome.right_after < 99.5:
            found.append(f"{name}: only {outcome.right_after:.2f} % of correct labels kept")
        if not name.endswith("clean") and outcome.right_after < outcome.right_before - 0.005:
            found.append(f"{name}: correct labels {outcome.right_before:.2f} -> {outcome.right_after:.2f} %")
    return found


def table(rows: Iterable[Row]) -> str:
    """Return accuracy of cross-entropy, differences of the other methods and labels of the default, as Markdown."""
    rows = list(rows)
    by_method = {method: outcomes(rows, method) for method in TITLES}
    lines = [
        "| cell | cross-entropy | " + " | ".join(TITLES.values()) + " | correct labels, before → after |",
        "|---|---:|" + "---:|" * len(TITLES) + "---:|",
    ]
    for cell in cells():
        own = by_method["permll"].get(cell.name)
        if own is not None:
            found = [by_method[method].get(cell.name) for method in TITLES]
            columns = ["-" if one is None else mean_and_std(one.differences, "+.1f") for one in found]
            labels = f"{own.right_before:.1f} → {own.right_after:.1f}"
            lines.append(f"| {cell.name} | {mean_and_std(own.baselines)} | " + " | ".join(columns) + f" | {labels} |")
    return "\n".join(lines) + "\n"


def mean_and_std(values: Sequence[float], form: str = ".1f") -> str:
    """Return "mean ± standard deviation"; with one value "value (one seed)"."""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else " (one seed)"
    return f"{statistics.mean(values):{form}}{spread}"


def short_table(rows: Iterable[Row]) -> str:
    """Return the cells of a perceptron on Fashion-MNIST with 6,000 samples, as Markdown, for the README."""
    by_cell = outcomes(rows, "permll")
    lines = [
        "| epochs, labels | cross-entropy | PermutationLayer | correct labels, before → after |",
        "|---|---:|---:|---:|",
    ]
    for cell in cells():
        outcome = by_cell.get(cell.name)
        if outcome is None or (cell.data, cell.network, cell.rows) != ("fashion_mnist", "mlp", 6000):
            continue
        if cell.noise not in SOME_NOISE or (cell.epochs, cell.lr) not in SHORT_TRAININGS:
            continue
        labels = f"{outcome.right_before:.1f} → {outcome.right_after:.1f} %"
        noise = {"clean": "clean", "sym-40": "symmetric noise 40 %", "asym-40": "asymmetric noise 40 %"}[cell.noise]
        accuracies = " | ".join(mean_and_std(values) for values in (outcome.baselines, outcome.accuracies))
        lines.append(f"| {cell.epochs}, {noise} | {accuracies} | {labels} |")
    return "\n".join(lines) + "\n"


SHORT_TRAININGS = ((12, 0.1), (40, 0.03), (120, 0.1))


@figure_style()
def draw(rows: Iterable[Row]) -> Figure:
    """Draw the difference from cross-entropy in every cell, a panel per method that has results."""
    rows = list(rows)
    by_method = {method: found for method in TITLES if (found := outcomes(rows, method))}
    trainings = list(dict.fromkeys(cell.training for cell in cells()))
    figure = make_figure(3.6 + 2.3 * len(by_method), 0.6 + 0.28 * len(trainings), w_pad=0.05)
    grid = figure.subplots(1, len(by_method), squeeze=False, sharey=True)[0]
    for letter, (method, found), axes in zip("abcde", by_method.items(), grid, strict=False):
        values = np.full((len(trainings), len(ALL_NOISE)), np.nan)
        for cell in cells():
            if cell.name in found:
                values[trainings.index(cell.training), ALL_NOISE.index(cell.noise)] = found[cell.name].difference
        axes.imshow(values, cmap="RdBu", vmin=-10, vmax=10, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                color = "white" if abs(value) > 5 else INK
                axes.text(column, row, f"{value:+.1f}", ha="center", va="center", fontsize=5.5, color=color)
        axes.set_xticks(range(len(ALL_NOISE)), ALL_NOISE, rotation=45, ha="right", fontsize=6)
        axes.set_yticks(range(len(trainings)), trainings, fontsize=6)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        panel_title(axes, letter, TITLES[method], "points above cross-entropy")
    return figure


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, "cifar10", "features", "trec")
    os.environ["OMP_NUM_THREADS"] = "1"
    files = (args.cifar10, args.features, args.trec)
    compared = [(f"{method}/{cell.name}", seed) for cell in cells() for method in METHODS[:2] for seed in SEEDS]
    others = [(f"{method}/{cell.name}", seed) for method in METHODS[2:] for cell in cells() for seed in SEEDS]
    rows = update_csv("safety", args, [*compared, *others], partial(run_parallel, partial(measure, files=files)))
    (RESULTS / "safety.md").write_text(table(rows))
    (RESULTS / "safety.short.md").write_text(short_table(rows))
    readme = ROOT / "README.md"
    readme.write_text(README_TABLE.sub(lambda _: short_table(rows), readme.read_text(), count=1))
    save(draw(rows), ROOT / "docs" / "images", "safety")
    print("\n".join(violations(rows)) or "The default layer is nowhere worse than cross-entropy.")


if __name__ == "__main__":
    main()
