"""How fast images come: batched views against a per-image PIL pipeline, and the time to the first batch.

python benchmarks/input.py --root ROOT      CIFAR-10 below ROOT; prints a table and writes results/input.csv
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
EPOCH = 25_600  # images of an epoch with workers, so that starting them does not count for much
Row = dict[str, object]

VIEWS: dict[str, Transform] = {
    "crop, flip, normalise": Compose(RandomCrop(padding=4, mode="zero"), RandomHorizontalFlip(), Normalize(MEAN, STD)),
    "crop, flip, RandAugment, normalise": Compose(
        RandomCrop(padding=4, mode="zero"), RandomHorizontalFlip(), RandAugment(2, 0.3), Normalize(MEAN, STD)
    ),
}


def pil_loader(data: LabeledData, *, strong: bool, workers: int) -> DataLoader[object]:
    """Return the usual pipeline over the same images."""
    assert isinstance(data.inputs, Images)
    pixels = data.inputs.pixels.permute(0, 2, 3, 1).contiguous().numpy()
    images = PilImages(pixels, data.labels.tolist(), strong=strong)
    return DataLoader(images, BATCH, shuffle=True, num_workers=workers)


def for_ever(loader: DataLoader[object]) -> Iterator[object]:
    """Start the loader again whenever it ends."""
    while True:
        yield from loader


def in_one_process(data: LabeledData, name: str, rounds: int) -> Row:
    """Compare batch by batch, in one process and one thread."""
    ours = Stream(data, BATCH, views={"view": VIEWS[name]}).cycle()
    usual = for_ever(pil_loader(data, strong="RandAugment" in name, workers=0))
    turns: dict[str, Callable[[], object]] = {"ours": partial(next, ours), "pil": partial(next, usual)}
    seconds = measure(turns, rounds)
    return row(f"images/s: {name}", 1, seconds, BATCH, TARGET if name.endswith("flip, normalise") else None)


def against_workers(data: LabeledData, name: str, workers: int, rounds: int) -> Row:
    """Compare whole epochs: the usual pipeline with worker processes, ours in the main process alone."""
    data = data.take(torch.arange(EPOCH))
    ours = Stream(data, BATCH, views={"view": VIEWS[name]})
    usual = pil_loader(data, strong=False, workers=workers)
    turns: dict[str, Callable[[], object]] = {"ours": partial(drain, ours), "pil": partial(drain, usual)}
    return row(f"images/s: {name}, PIL in {workers} workers", 1, measure(turns, rounds), EPOCH, None)


def drain(batches: Stream | DataLoader[object]) -> None:
    """Take all batches of an epoch."""
    for _ in batches:
        pass


def first_batch(root: Path, rounds: int) -> Row:
    """Time from nothing but files to the first augmented batch, against reading the files alone."""

    def ours() -> object:
        return next(iter(Stream(load("cifar10", root=root), BATCH, views=VIEWS)))

    files = [path for path in root.rglob("data_batch*") if path.is_file()]

    def reading() -> object:
        return [len(path.read_bytes()) for path in files]

    seconds = measure({"ours": ours, "reading": reading}, rounds)
    result = ratio(seconds["ours"], seconds["reading"])
    shown = f"{statistics.median(seconds['ours']):.2f} s"
    print(f"{'time to the first batch / reading the files':55} {shown:>23}  {result.median:6.1f} x")
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
    """Print and return one comparison, as images per second."""
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
    """Measure everything; leave with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds CIFAR-10")
    root = parser.parse_args().root
    torch.set_num_threads(1)
    data = load("cifar10", root=root)
    print(f"{'':55} {'ours':>10} {'PIL':>12}  {'ratio':>8}")
    weak = next(iter(VIEWS))
    rows = [in_one_process(data, name, rounds) for name, rounds in zip(VIEWS, (400, 150), strict=True)]
    rows.append(against_workers(data, weak, 2, 15))
    rows.append(first_batch(root, 15))
    print(f"written to {write_csv('input', rows)}")
    sys.exit(any(entry["met"] is False for entry in rows))


if __name__ == "__main__":
    main()
