"""Time and memory of per-sample state by storage format, and the accuracy with ``top_k`` storage.

python benchmarks/sample_state.py                      prints tables, writes results/sample_state.csv and .md
python benchmarks/sample_state.py --features FEATURES  also accuracy with 100 classes, on features of CIFAR-100
                                                       (x_train, y_train, x_test, y_test in an npz file)
python benchmarks/sample_state.py --part speed         only speed, memory or accuracy; the other rows are kept

Times are those of the layer alone (loss, backward and step), for given logits. One core, a quarter of an hour.
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
from permll.bench.jobs import NOISE_SEED_OFFSET
from permll.layer.base import CorrectionLayer

BATCH, K = 128, 16
MAX_TABLE_BYTES = 8e9
PARTS = ("speed", "memory", "accuracy")
NOISES = {"sym-60": "permll:sym:0.6", "asym-40": "permll:asym:0.4"}
SEEDS = (1, 2, 3)
METHODS = ("permll", "elr", "sop", "selc")
EPOCHS, FEATURE_ROWS = 20, 10_000
# Values of tier mini, without a search on the features.
FEATURE_SETTINGS: dict[str, dict[str, Any]] = {
    "permll": {}, "elr": {}, "sop": {"lr_u": 0.078125, "lr_v": 4.0}, "selc": {"alpha": 0.8},
}  # fmt: skip
Row = dict[str, object]


# --- Speed --------------------------------------------------------------------------------------------------------


class Batches:
    """Batches of logits and sample indices, the same for all layers."""

    def __init__(self, rows: int, classes: int) -> None:
        self.logits = [torch.randn(BATCH, classes) for _ in range(4 if classes < 10_000 else 2)]
        self.indices = [_distinct(rows) for _ in range(64)]
        self.labels = torch.randint(classes, (rows,))
        self.count = 0

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return logits and sample indices."""
        self.count += 1
        logits = self.logits[self.count % len(self.logits)].detach().requires_grad_()
        return logits, self.indices[self.count % len(self.indices)]

    def step_with(self, layer: CorrectionLayer) -> None:
        """Take a step with the layer."""
        logits, index = self.batch()
        layer(logits, index).backward()
        layer.step()

    def step_with_cross_entropy(self) -> None:
        """Take a step with cross-entropy."""
        logits, index = self.batch()
        torch.nn.functional.cross_entropy(logits, self.labels[index]).backward()


def _distinct(rows: int) -> Tensor:
    """Draw the distinct indices of a batch, as in a shuffled epoch."""
    indices = torch.randint(rows, (4 * BATCH,)).unique()
    return indices[torch.randperm(len(indices))[:BATCH]]


def compare_num_rows() -> Iterator[Row]:
    """Compare a step at increasing numbers of rows with 100 classes, dense and with ``top_k``."""
    forms: dict[str, dict[str, Any]] = {"dense": {}, f"top_k={K}": {"top_k": K}}
    for form, settings in forms.items():
        torch.manual_seed(0)
        steps: dict[str, Callable[[], object]] = {}
        table_bytes = {}
        for rows in (10**4, 10**5, 10**6, 10**7):
            if form == "dense" and rows * 100 * 4 > MAX_TABLE_BYTES:
                continue
            batches = Batches(rows, 100)
            layer = PermutationLayer.paper(batches.labels, 100, **settings)
            table_bytes[rows] = layer.table.nbytes
            steps[str(rows)] = partial(batches.step_with, layer)
        seconds = measure(steps, 400)
        for rows in list(table_bytes)[1:]:
            result = ratio(seconds[str(rows)], seconds[str(10**4)])
            yield row("step: N rows / 10^4 rows", form, 100, rows, result.median, *result.interval, "ratio")
        for rows, size in table_bytes.items():
            yield row("memory of the table", form, 100, rows, size / 1e6, unit="MB")


def compare_num_classes() -> Iterator[Row]:
    """Compare a step at increasing numbers of classes with cross-entropy on the same logits."""
    for classes, rounds in ((10, 600), (100, 600), (1000, 300), (21_000, 60)):
        torch.manual_seed(0)
        batches = Batches(10_000, classes)
        steps: dict[str, Callable[[], object]] = {"ce": batches.step_with_cross_entropy}
        forms: dict[str, dict[str, Any]] = {f"top_k={K}": {"top_k": K}, "dense": {}}
        for form, settings in forms.items():
            steps[form] = partial(batches.step_with, PermutationLayer.paper(batches.labels, classes, **settings))
        seconds = measure(steps, rounds)
        for form in forms:
            result = ratio(seconds[form], seconds["ce"])
            yield row("step: layer / cross-entropy", form, classes, 10_000, result.median, *result.interval, "ratio")
            yield row("step", form, classes, 10_000, 1e3 * statistics.median(seconds[form]), unit="ms")
        yield row("step", "cross-entropy", classes, 10_000, 1e3 * statistics.median(seconds["ce"]), unit="ms")


def compare_storage() -> Iterator[Row]:
    """Compare storage formats with the dense one, for 100,000 rows of 100 classes."""
    torch.manual_seed(0)
    batches = Batches(10**5, 100)
    with TemporaryDirectory() as folder:
        forms: dict[str, dict[str, Any]] = {
            "dense": {},
            "bfloat16": {"dtype": torch.bfloat16},
            "disk": {"file": Path(folder) / "alpha"},
            f"top_k={K}": {"top_k": K},
            f"top_k={K}, bfloat16": {"top_k": K, "dtype": torch.bfloat16},
        }
        layers = {form: PermutationLayer.paper(batches.labels, 100, **settings) for form, settings in forms.items()}
        seconds = measure({form: partial(batches.step_with, layer) for form, layer in layers.items()}, 600)
        for form, layer in layers.items():
            result = ratio(seconds[form], seconds["dense"])
            if form != "dense":
                yield row("step: form / dense", form, 100, 10**5, result.median, *result.interval, "ratio")
            yield row("memory of the table", form, 100, 10**5, layer.table.nbytes / 1e6, unit="MB")


# --- Memory -------------------------------------------------------------------------------------------------------


def measure_memory() -> Iterator[Row]:
    """Measure a million rows of 21,000 classes in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield from pool.submit(_measure_memory, 1_000_000, 21_000).result()


def _measure_memory(rows: int, classes: int) -> list[Row]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batches = Batches(rows, classes)
    batches.step_with_cross_entropy()  # the memory of a step without the layer
    before = _peak_mb()
    start = perf_counter()
    layer = PermutationLayer.paper(batches.labels, classes, top_k=K, epochs=10)
    build_seconds = perf_counter() - start
    batches.step_with(layer)
    peak_of_steps = _peak_mb()
    seconds = measure({"layer": partial(batches.step_with, layer), "ce": batches.step_with_cross_entropy}, 200)
    result = ratio(seconds["layer"], seconds["ce"])
    start = perf_counter()
    layer.corrected_labels(), layer.label_quality()
    label_seconds = perf_counter() - start
    case = partial(row, case=f"top_k={K}", classes=classes, rows=rows)
    return [
        case("memory of the table", value=layer.table.nbytes / 1e6, unit="MB"),
        case("memory of a dense table", value=rows * classes * 4 / 1e6, unit="MB"),
        case("peak of memory beyond a step of cross-entropy", value=peak_of_steps - before, unit="MB"),
        case("peak with corrected labels and label quality", value=_peak_mb() - before, unit="MB"),
        case("building", value=build_seconds, unit="s"),
        case("labels and quality", value=label_seconds, unit="s"),
        case("step", value=1e3 * statistics.median(seconds["layer"]), unit="ms"),
        case("step: layer / cross-entropy", value=result.median, low=result.interval[0], high=result.interval[1]),
    ]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # from kilobytes


# --- Accuracy -----------------------------------------------------------------------------------------------------


def measure_accuracy(features: Path | None) -> Iterator[Row]:
    """Train with dense and with ``top_k`` storage, with the same seeds."""
    for noise in NOISES:
        for method in METHODS:
            for k in (0, 4, 8) if method == "permll" else (0, 4):
                for seed in SEEDS:
                    accuracy = _train_mini(noise, method, k, seed)
                    yield _accuracy_row("fashion_mnist, mini", noise, method, k, 10, 10_000, accuracy)
            if features is None:
                continue
            for k in (0, 4, 8, 16) if method == "permll" else (0, 4, 16):
                for seed in SEEDS:
                    accuracy = _train_features(features, noise, method, k, seed)
                    yield _accuracy_row("cifar100 features", noise, method, k, 100, FEATURE_ROWS, accuracy)


def _accuracy_row(data: str, noise: str, method: str, k: int, classes: int, rows: int, accuracy: float) -> Row:
    form = f"top_k={k}" if k else "dense"
    return row(f"accuracy: {data}, {noise}", f"{method}, {form}", classes, rows, 100 * accuracy, unit="%")


def _train_mini(noise: str, method: str, k: int, seed: int) -> float:
    from permll.training.train import train

    if not k:  # the same recipe as in benchmarks/mini.py
        rows = {(line["noise"], line["method"], line["variant"], line["seed"]): line for line in read_csv("mini")}
        return float(rows[noise, method, "", str(seed)]["last"])
    draw = NOISE_SEED_OFFSET + seed
    with TemporaryDirectory() as folder:
        run = train(
            method=method,
            recipe=f"mini/{noise}",
            out=folder,
            seed=seed,
            callbacks=[],
            overrides={
                "data.noise_seed": draw,
                "data.split_seed": draw,
                "training.threads": 1,
                "training.evaluate_every": 40,
                "method.top_k": k,
            },
        )
        return float(run.result["last"])


def _train_features(features: Path, noise: str, method: str, k: int, seed: int) -> float:
    from permll.data import LabeledData, Vectors
    from permll.noise import corrupt, named_noise
    from permll.training.train import train

    with np.load(features) as arrays:
        x, y = (torch.from_numpy(arrays[f"{name}_train"]) for name in "xy")
        x_test, y_test = (torch.from_numpy(arrays[f"{name}_test"]) for name in "xy")
    draw = NOISE_SEED_OFFSET + seed
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(draw))[:FEATURE_ROWS]
    x, y = x[chosen].float(), y[chosen].long()
    corruption = corrupt(y.numpy(), named_noise(NOISES[noise], 100, data_set="cifar100", seed=draw), draw)
    classes = tuple(str(number) for number in range(100))
    mean, spread = x.mean(0), x.std(0)
    settings: dict[str, Any] = {f"method.{name}": value for name, value in FEATURE_SETTINGS[method].items()}
    settings |= {"method.top_k": k} if k else {}
    train_data = LabeledData(
        Vectors((x - mean) / spread), torch.from_numpy(corruption.noisy), classes, _ids("train", len(x))
    )
    test = LabeledData(Vectors((x_test.float() - mean) / spread), y_test.long(), classes, _ids("test", len(x_test)))
    with TemporaryDirectory() as folder:
        run = train(
            train_data,
            method,
            recipe="auto/default",
            test=test,
            out=folder,
            epochs=EPOCHS,
            seed=seed,
            callbacks=[],
            overrides={
                **settings,
                "network.name": "mlp",
                "network.widths": [256],
                "training.batch_size": BATCH,
                "training.threads": 1,
                "training.evaluate_every": EPOCHS,
            },
        )
        return float(run.result["last"])


def _ids(name: str, rows: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in range(rows))


# --- Writing ------------------------------------------------------------------------------------------------------


def row(
    what: str, case: str, classes: int, rows: int, value: float, low: float | None = None, high: float | None = None,
    unit: str = "ratio",
) -> Row:  # fmt: skip
    """Return a row of the CSV file: a value, and the 95 % confidence interval of a median."""
    digits = 4 if unit == "ratio" else 3
    ends = ["" if end is None else round(end, digits) for end in (low, high)]
    return {
        "part": "", "what": what, "case": case, "classes": classes, "rows": rows, "batch": BATCH,
        "value": round(value, digits), "low95": ends[0], "high95": ends[1], "unit": unit,
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| what | case | classes | rows | |", "|---|---|---:|---:|---:|"]
    for line in (line for line in rows if line["part"] != "accuracy"):
        value, low, high = (str(line[key]) for key in ("value", "low95", "high95"))
        number = f"{float(value):,.0f}" if float(value) >= 1000 else f"{float(value):.4g}"
        interval = f" [{float(low):.3g}, {float(high):.3g}]" if low else ""
        unit = "" if line["unit"] == "ratio" else f" {line['unit']}"
        counts = " | ".join(f"{int(str(line[key])):,}" for key in ("classes", "rows"))
        lines.append(f"| {line['what']} | {line['case']} | {counts} | {number}{interval}{unit} |")
    accuracies: dict[str, dict[str, dict[str, list[float]]]] = {}
    for line in (line for line in rows if line["part"] == "accuracy"):
        method, form = str(line["case"]).split(", ")
        by_method = accuracies.setdefault(str(line["what"]).removeprefix("accuracy: "), {})
        by_method.setdefault(method, {}).setdefault(form, []).append(float(str(line["value"])))
    forms = ["dense", "top_k=16", "top_k=8", "top_k=4"]
    if accuracies:
        lines += ["", f"| test accuracy in %, {len(SEEDS)} seeds | method | " + " | ".join(forms) + " |"]
        lines.append("|---|---|" + "---:|" * len(forms))
    for what, methods in accuracies.items():
        for method, by_form in methods.items():
            cells = [_mean_and_std(by_form.get(form, [])) for form in forms]
            lines.append(f"| {what} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean_and_std(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else "-"


def measure_part(part: str, features: Path | None) -> Iterator[Row]:
    """Yield the rows of one part."""
    sources: dict[str, list[Callable[[], Iterator[Row]]]] = {
        "speed": [compare_num_rows, compare_num_classes, compare_storage],
        "memory": [measure_memory],
        "accuracy": [partial(measure_accuracy, features)],
    }
    for source in sources[part]:
        for line in source():
            print(*(value for value in line.values() if value != ""), flush=True)
            yield {**line, "part": part}


def main() -> None:
    """Measure the chosen parts, keep the other rows, and write both files."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--part", choices=PARTS)
    args = parser.parse_args()
    rows: list[Row] = []
    if args.part and (RESULTS / "sample_state.csv").is_file():
        rows = [dict(line) for line in read_csv("sample_state") if line["part"] != args.part]
    for part in (args.part,) if args.part else PARTS:
        for line in measure_part(part, args.features):
            rows.append(line)
            rows.sort(key=lambda line: PARTS.index(str(line["part"])))
            write_csv("sample_state", rows)
    (RESULTS / "sample_state.md").write_text(table(rows))
    print(f"wrote {RESULTS / 'sample_state.csv'}")


if __name__ == "__main__":
    main()
