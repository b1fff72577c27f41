"""Speed of batched augmentation compared with a per-image PIL pipeline, and the time to the first batch.

python benchmarks/input.py --root ROOT      CIFAR-10 in ROOT; prints a table and writes results/input.csv
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pil_pipeline import MEAN, STD, PilImages
from benchmarks.timing import measure, ratio, spread, write_csv
from permll.data import Images, LabeledData, Stream, load
from permll.data.transforms import Compose, Normalize, RandAugment, RandomCrop, RandomHorizontalFlip, Transform

BATCH = 128
TARGET = 5.0
EPOCH = 25_600  # images per epoch with workers, so that their start-up time is negligible
Row = dict[str, object]

VIEWS: dict[str, Transform] = {
    "crop, flip, normalize": Compose(RandomCrop(padding=4, mode="zero"), RandomHorizontalFlip(), Normalize(MEAN, STD)),
    "crop, flip, RandAugment, normalize": Compose(
        RandomCrop(padding=4, mode="zero"), RandomHorizontalFlip(), RandAugment(2, 0.3), Normalize(MEAN, STD)
    ),
}


def pil_loader(data: LabeledData, *, strong: bool, workers: int) -> DataLoader[object]:
    """Return the per-image pipeline over the same images."""
    assert isinstance(data.inputs, Images)
    pixels = data.inputs.pixels.permute(0, 2, 3, 1).contiguous().numpy()
    images = PilImages(pixels, data.labels.tolist(), strong=strong)
    return DataLoader(images, BATCH, shuffle=True, num_workers=workers)


def cycle(loader: DataLoader[object]) -> Iterator[object]:
    """Yield the batches of endless epochs."""
    while True:
        yield from loader


def compare_batches(data: LabeledData, name: str, rounds: int) -> Row:
    """Compare the time per batch, in one process and one thread."""
    ours = Stream(data, BATCH, views={"view": VIEWS[name]}).cycle()
    pil = cycle(pil_loader(data, strong="RandAugment" in name, workers=0))
    candidates: dict[str, Callable[[], object]] = {"ours": partial(next, ours), "pil": partial(next, pil)}
    seconds = measure(candidates, rounds)
    return row(f"images/s: {name}", 1, seconds, BATCH, TARGET if name.endswith("flip, normalize") else None)


def compare_epochs(data: LabeledData, name: str, workers: int, rounds: int) -> Row:
    """Compare the time per epoch: PIL with worker processes, ours in the main process."""
    data = data.take(torch.arange(EPOCH))
    ours = Stream(data, BATCH, views={"view": VIEWS[name]})
    pil = pil_loader(data, strong=False, workers=workers)
    candidates: dict[str, Callable[[], object]] = {"ours": partial(drain, ours), "pil": partial(drain, pil)}
    return row(f"images/s: {name}, PIL in {workers} workers", 1, measure(candidates, rounds), EPOCH, None)


def drain(batches: Stream | DataLoader[object]) -> None:
    """Iterate over an epoch."""
    for _ in batches:
        pass


def first_batch(root: Path, rounds: int) -> Row:
    """Compare the time from files to the first augmented batch with reading the files."""

    def ours() -> object:
        return next(iter(Stream(load("cifar10", root=root), BATCH, views=VIEWS)))

    files = [path for path in root.rglob("data_batch*") if path.is_file()]

    def reading() -> object:
        return [len(path.read_bytes()) for path in files]

    seconds = measure({"ours": ours, "reading": reading}, rounds)
    result = ratio(seconds["ours"], seconds["reading"])
    time = f"{statistics.median(seconds['ours']):.2f} s"
    print(f"{'time to the first batch / reading the files':55} {time:>23}  {result.median:6.1f} x")
    return {
        "what": "seconds: files to first batch",
        "processes": 1,
        "ours": round(statistics.median(seconds["ours"]), 3),
        "other": round(statistics.median(seconds["reading"]), 3),
        **spread(result, 2),
        "target": "",
        "met": "",
    }


def row(what: str, processes: int, seconds: dict[str, list[float]], images: int, target: float | None) -> Row:
    """Print and return one comparison in images per second."""
    result = ratio(seconds["pil"], seconds["ours"])
    ours, pil = (round(images / statistics.median(seconds[name])) for name in ("ours", "pil"))
    met = "" if target is None else result.median >= target
    print(f"{what:55} {ours:10,} {pil:12,}  {result.median:6.1f} x  {'' if met == '' else 'ok' if met else 'MISSED'}")
    return {
        "what": what,
        "processes": processes,
        "ours": ours,
        "other": pil,
        **spread(result, 2),
        "target": target or "",
        "met": met,
    }


def main() -> None:
    """Measure everything; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds CIFAR-10")
    root = parser.parse_args().root
    torch.set_num_threads(1)
    data = load("cifar10", root=root)
    print(f"{'':55} {'ours':>10} {'PIL':>12}  {'ratio':>8}")
    weak = next(iter(VIEWS))
    rows = [compare_batches(data, name, rounds) for name, rounds in zip(VIEWS, (400, 150), strict=True)]
    rows.append(compare_epochs(data, weak, 2, 15))
    rows.append(first_batch(root, 15))
    print(f"written to {write_csv('input', rows)}")
    sys.exit(any(entry["met"] is False for entry in rows))


if __name__ == "__main__":
    main()
