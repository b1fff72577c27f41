"""What rows of samples cost in time and room, however they are kept, and what is lost by keeping their largest entries.

python benchmarks/sample_state.py                          prints tables and writes results/sample_state.csv and results/sample_state.md
python benchmarks/sample_state.py --features FEATURES      accuracy with 100 classes too, on features (x_train, y_train,
                                                    x_test, y_test in an npz file) of CIFAR-100
python benchmarks/sample_state.py --part speed             one part of it, speed, room or accuracy; the others are kept

Times are those of the layer by itself, loss, backward and step, with logits at hand. One core, a quarter of an hour.
"""

import argparse
import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, measure, ratio, read_csv, write_csv
from permll import PermutationLayer

BATCH, K = 128, 16
MOST = 8e9  # bytes of a table that is measured
PARTS = ("speed", "room", "accuracy")
NOISES = {"sym-60": "permll:sym:0.6", "asym-40": "permll:asym:0.4"}
SEEDS = (1, 2, 3)
METHODS = ("permll", "elr", "sop", "selc")
EPOCHS, FEATURE_ROWS = 20, 10_000
# Of tier mini: nothing was searched for on the features.
ON_FEATURES: dict[str, dict[str, Any]] = {
    "permll": {}, "elr": {}, "sop": {"lr_u": 0.078125, "lr_v": 4.0}, "selc": {"alpha": 0.8},
}  # fmt: skip
Row = dict[str, object]


# --- Speed --------------------------------------------------------------------------------------------------------


class Visits:
    """Batches of logits and positions, the same for every layer with so many classes and rows."""

    def __init__(self, rows: int, classes: int) -> None:
        self.logits = [torch.randn(BATCH, classes) for _ in range(4 if classes < 10_000 else 2)]
        self.places = [_distinct(rows) for _ in range(64)]
        self.labels = torch.randint(classes, (rows,))
        self.turn = 0

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return logits of a network, and whose they are."""
        self.turn += 1
        logits = self.logits[self.turn % len(self.logits)].detach().requires_grad_()
        return logits, self.places[self.turn % len(self.places)]

    def step_with(self, layer: PermutationLayer) -> None:
        """Take a step of the layer."""
        logits, index = self.batch()
        layer(logits, index).backward()
        layer.step()

    def step_with_cross_entropy(self) -> None:
        """Take the step everybody takes."""
        logits, index = self.batch()
        torch.nn.functional.cross_entropy(logits, self.labels[index]).backward()


def _distinct(rows: int) -> Tensor:
    """Draw the positions of a batch as a shuffled epoch has them: none comes twice, with few rows or many."""
    some = torch.randint(rows, (4 * BATCH,)).unique()
    return some[torch.randperm(len(some))[:BATCH]]


def against_n() -> Iterator[Row]:
    """Measure a step with ever more rows of 100 classes over one with the fewest, dense and with ``top_k``."""
    forms: dict[str, dict[str, Any]] = {"dense": {}, f"top_k={K}": {"top_k": K}}
    for form, settings in forms.items():
        torch.manual_seed(0)
        steps: dict[str, Callable[[], object]] = {}
        room = {}
        for rows in (10**4, 10**5, 10**6, 10**7):
            if form == "dense" and rows * 100 * 4 > MOST:
                continue
            visits = Visits(rows, 100)
            layer = PermutationLayer(visits.labels, 100, **settings)
            room[rows] = layer.table.nbytes
            steps[str(rows)] = partial(visits.step_with, layer)
        seconds = measure(steps, 400)
        for rows in list(room)[1:]:
            result = ratio(seconds[str(rows)], seconds[str(10**4)])
            yield row("step: N rows / 10^4 rows", form, 100, rows, result.median, *result.interval, "ratio")
        for rows, size in room.items():
            yield row("room of the table", form, 100, rows, size / 1e6, unit="MB")


def against_classes() -> Iterator[Row]:
    """Measure a step with ever more classes over cross-entropy of the same logits."""
    for classes, rounds in ((10, 600), (100, 600), (1000, 300), (21_000, 60)):
        torch.manual_seed(0)
        visits = Visits(10_000, classes)
        steps: dict[str, Callable[[], object]] = {"ce": visits.step_with_cross_entropy}
        forms: dict[str, dict[str, Any]] = {f"top_k={K}": {"top_k": K}, "dense": {}}
        for form, settings in forms.items():
            steps[form] = partial(visits.step_with, PermutationLayer(visits.labels, classes, **settings))
        seconds = measure(steps, rounds)
        for form in forms:
            result = ratio(seconds[form], seconds["ce"])
            yield row("step: layer / cross-entropy", form, classes, 10_000, result.median, *result.interval, "ratio")
            middle = 1e3 * statistics.median(seconds[form])
            yield row("step", form, classes, 10_000, middle, unit="ms")
        yield row("step", "cross-entropy", classes, 10_000, 1e3 * statistics.median(seconds["ce"]), unit="ms")


def forms_of_state() -> Iterator[Row]:
    """Measure a step of the other forms over the dense one, 100,000 rows of 100 classes."""
    torch.manual_seed(0)
    visits = Visits(10**5, 100)
    with TemporaryDirectory() as folder:
        forms: dict[str, dict[str, Any]] = {
            "dense": {},
            "bfloat16": {"dtype": torch.bfloat16},
            "disk": {"file": Path(folder) / "alpha"},
            f"top_k={K}": {"top_k": K},
            f"top_k={K}, bfloat16": {"top_k": K, "dtype": torch.bfloat16},
        }
        layers = {form: PermutationLayer(visits.labels, 100, **settings) for form, settings in forms.items()}
        seconds = measure({form: partial(visits.step_with, layer) for form, layer in layers.items()}, 600)
        for form, layer in layers.items():
            result = ratio(seconds[form], seconds["dense"])
            if form != "dense":
                yield row("step: form / dense", form, 100, 10**5, result.median, *result.interval, "ratio")
            yield row("room of the table", form, 100, 10**5, layer.table.nbytes / 1e6, unit="MB")


# --- Room ---------------------------------------------------------------------------------------------------------


def room() -> Iterator[Row]:
    """Measure a million rows of 21,000 classes in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield from pool.submit(_million, 1_000_000, 21_000).result()


def _million(rows: int, classes: int) -> list[Row]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    visits = Visits(rows, classes)
    visits.step_with_cross_entropy()  # what a step without the layer needs
    before = _peak()
    begin = perf_counter()
    layer = PermutationLayer(visits.labels, classes, top_k=K, epochs=10)
    built = perf_counter() - begin
    visits.step_with(layer)
    stepped = _peak()
    seconds = measure({"layer": partial(visits.step_with, layer), "ce": visits.step_with_cross_entropy}, 200)
    result = ratio(seconds["layer"], seconds["ce"])
    begin = perf_counter()
    layer.corrected_labels(), layer.label_quality()
    asked = perf_counter() - begin
    case = partial(row, case=f"top_k={K}", classes=classes, rows=rows)
    return [
        case("room of the table", value=layer.table.nbytes / 1e6, unit="MB"),
        case("room of a dense table", value=rows * classes * 4 / 1e6, unit="MB"),
        case("peak of memory beyond a step of cross-entropy", value=stepped - before, unit="MB"),
        case("peak with labels and quality asked for", value=_peak() - before, unit="MB"),
        case("building", value=built, unit="s"),
        case("labels and quality", value=asked, unit="s"),
        case("step", value=1e3 * statistics.median(seconds["layer"]), unit="ms"),
        case("step: layer / cross-entropy", value=result.median, low=result.interval[0], high=result.interval[1]),
    ]


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kilobytes


# --- Accuracy -----------------------------------------------------------------------------------------------------


def accuracy(features: Path | None) -> Iterator[Row]:
    """Train with all entries and with few, by the same seeds."""
    for noise in NOISES:
        for method in METHODS:
            for k in (0, 4, 8) if method == "permll" else (0, 4):
                for seed in SEEDS:
                    yield _accuracy(
                        "fashion_mnist, mini", noise, method, k, 10, 10_000, _on_mini(noise, method, k, seed)
                    )
            if features is None:
                continue
            for k in (0, 4, 8, 16) if method == "permll" else (0, 4, 16):
                for seed in SEEDS:
                    found = _on_features(features, noise, method, k, seed)
                    yield _accuracy("cifar100 features", noise, method, k, 100, FEATURE_ROWS, found)


def _accuracy(data: str, noise: str, method: str, k: int, classes: int, rows: int, found: float) -> Row:
    form = f"top_k={k}" if k else "dense"
    return row(f"accuracy: {data}, {noise}", f"{method}, {form}", classes, rows, 100 * found, unit="%")


def _on_mini(noise: str, method: str, k: int, seed: int) -> float:
    from permll.training.train import train

    if not k:  # trained before, by the same recipe
        known = {(line["noise"], line["method"], line["variant"], line["seed"]): line for line in read_csv("mini")}
        return float(known[noise, method, "", str(seed)]["last"])
    draw = 42 + seed  # as every cell of the benchmark
    with TemporaryDirectory() as folder:
        run = train(method=method, recipe=f"mini/{noise}", out=folder, seed=seed, callbacks=[], overrides={"data.noise_seed": draw, "data.split_seed": draw, "training.threads": 1, "training.evaluate_every": 40, "method.top_k": k})  # fmt: skip
        return float(run.result["last"])


def _on_features(features: Path, noise: str, method: str, k: int, seed: int) -> float:
    from permll.data import LabeledData, Vectors
    from permll.noise import corrupt, named_noise
    from permll.training.train import train

    with np.load(features) as arrays:
        x, y = (torch.from_numpy(arrays[f"{name}_train"]) for name in "xy")
        x_test, y_test = (torch.from_numpy(arrays[f"{name}_test"]) for name in "xy")
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(42 + seed))[:FEATURE_ROWS]
    x, y = x[chosen].float(), y[chosen].long()
    drawn = corrupt(y.numpy(), named_noise(NOISES[noise], 100, data_set="cifar100", seed=42 + seed), 42 + seed)
    classes = tuple(str(number) for number in range(100))
    mean, spread = x.mean(0), x.std(0)
    settings: dict[str, Any] = {f"method.{name}": value for name, value in ON_FEATURES[method].items()}
    settings |= {"method.top_k": k} if k else {}
    training_rows = LabeledData(
        Vectors((x - mean) / spread), torch.from_numpy(drawn.noisy), classes, _ids("train", len(x))
    )
    test = LabeledData(Vectors((x_test.float() - mean) / spread), y_test.long(), classes, _ids("test", len(x_test)))
    with TemporaryDirectory() as folder:
        run = train(training_rows, method, recipe="auto/default", test=test, out=folder, epochs=EPOCHS, seed=seed, callbacks=[], overrides={**settings, "network.name": "mlp", "network.widths": [256], "training.batch_size": BATCH, "training.threads": 1, "training.evaluate_every": EPOCHS})  # fmt: skip
        return float(run.result["last"])


def _ids(name: str, rows: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in range(rows))


# --- Writing ------------------------------------------------------------------------------------------------------


def row(
    what: str, case: str, classes: int, rows: int, value: float, low: float | None = None, high: float | None = None,
    unit: str = "ratio",
) -> Row:  # fmt: skip
    """Return a line of the CSV: a value, and the 95 % interval of a median."""
    digits = 4 if unit == "ratio" else 3
    ends = ["" if end is None else round(end, digits) for end in (low, high)]
    return {
        "part": "", "what": what, "case": case, "classes": classes, "rows": rows, "batch": BATCH,
        "value": round(value, digits), "low95": ends[0], "high95": ends[1], "unit": unit,
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return everything as Markdown."""
    lines = ["| what | case | classes | rows | |", "|---|---|---:|---:|---:|"]
    for one in (line for line in rows if line["part"] != "accuracy"):
        value, low, high = (str(one[key]) for key in ("value", "low95", "high95"))
        shown = f"{float(value):,.0f}" if float(value) >= 1000 else f"{float(value):.4g}"
        between = f" [{float(low):.3g}, {float(high):.3g}]" if low else ""
        unit = "" if one["unit"] == "ratio" else f" {one['unit']}"
        counts = " | ".join(f"{int(str(one[key])):,}" for key in ("classes", "rows"))
        lines.append(f"| {one['what']} | {one['case']} | {counts} | {shown}{between}{unit} |")
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for one in (line for line in rows if line["part"] == "accuracy"):
        method, form = str(one["case"]).split(", ")
        found.setdefault(str(one["what"]).removeprefix("accuracy: "), {}).setdefault(method, {}).setdefault(
            form, []
        ).append(float(str(one["value"])))
    forms = ["dense", "top_k=16", "top_k=8", "top_k=4"]
    if found:
        lines += ["", f"| test accuracy in %, {len(SEEDS)} seeds | method | " + " | ".join(forms) + " |"]
        lines.append("|---|---|" + "---:|" * len(forms))
    for what, methods in found.items():
        for method, by_form in methods.items():
            cells = [_spread(by_form.get(form, [])) for form in forms]
            lines.append(f"| {what} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else "-"


def measured(part: str, features: Path | None) -> Iterator[Row]:
    """Yield the lines of one part."""
    sources: dict[str, list[Callable[[], Iterator[Row]]]] = {
        "speed": [against_n, against_classes, forms_of_state],
        "room": [room],
        "accuracy": [partial(accuracy, features)],
    }
    for source in sources[part]:
        for one in source():
            print(*(value for value in one.values() if value != ""), flush=True)
            yield {**one, "part": part}


def main() -> None:
    """Measure what is asked for, keep the rest, and write both files."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--part", choices=PARTS)
    args = parser.parse_args()
    kept: list[Row] = []
    if args.part and (RESULTS / "state.csv").is_file():
        kept = [dict(line) for line in read_csv("state") if line["part"] != args.part]
    for part in (args.part,) if args.part else PARTS:
        for one in measured(part, args.features):
            kept.append(one)
            kept.sort(key=lambda line: PARTS.index(str(line["part"])))
            write_csv("state", kept)
    (RESULTS / "state.md").write_text(table(kept))
    print(f"wrote {RESULTS / 'state.csv'}")


if __name__ == "__main__":
    main()
