"""Streams on any number of processes, resumed streams and balanced streams."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from permll.data import Batch, LabeledData, LazyImages, Stream
from permll.data.decoding import FileOpener
from permll.data.streams import Order
from permll.data.transforms import Compose, Cutout, Normalize, RandAugment, RandomCrop, RandomHorizontalFlip, mixup
from tests.helpers.toy_data import toy

NORMALIZE = Normalize((0.5,) * 3, (0.25,) * 3)
VIEWS = {
    "weak": Compose(RandomCrop(padding=2), RandomHorizontalFlip(), NORMALIZE),
    "strong": Compose(RandomCrop(padding=2), RandAugment(), NORMALIZE, Cutout(4)),
}
ORDERS: tuple[Order, ...] = ("shuffled", "sequential", "weighted", "balanced")


def assert_same(one: Batch, other: Batch) -> None:
    assert torch.equal(one.index, other.index)
    assert torch.equal(one.labels, other.labels)
    assert torch.equal(one.keys, other.keys)
    assert one.views.keys() == other.views.keys()
    for name in one.views:
        assert torch.equal(one.views[name], other.views[name])


def join_shards(parts: list[Batch]) -> Batch:
    """Return the batch of all processes: row i went to rank i mod R."""
    size, total = len(parts), sum(len(part.index) for part in parts)
    assert all(part.global_size == total for part in parts)
    order = torch.tensor([row for rank in range(size) for row in range(rank, total, size)]).argsort()

    def join(values: list[Tensor]) -> Tensor:
        return torch.cat(values)[order]

    views = {name: join([part.views[name] for part in parts]) for name in parts[0].views}
    return Batch(join([p.index for p in parts]), join([p.labels for p in parts]), views, join([p.keys for p in parts]))


@settings(max_examples=40)
@given(
    rows=st.integers(2, 90),
    batch_size=st.integers(6, 40),
    world_size=st.sampled_from([1, 2, 3]),
    order=st.sampled_from(["shuffled", "sequential"]),
    seed=st.integers(0, 1 << 40),
    subset=st.booleans(),
)
def test_stream_visits_every_row_once_per_epoch(
    rows: int, batch_size: int, world_size: int, order: Order, seed: int, subset: bool
) -> None:
    data = toy(rows)
    chosen = torch.arange(0, rows, 2) if subset else None
    expected = list(range(0, rows, 2)) if subset else list(range(rows))
    streams = [
        Stream(data, batch_size, order=order, rows=chosen, seed=seed, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for epoch in range(2):
        visited = [[batch.index for batch in stream] for stream in streams]
        assert {len(batches) for batches in visited} == {len(streams[0])}, "all processes take the same number of steps"
        assert sorted(torch.cat([torch.cat(batches) for batches in visited]).tolist()) == expected
        assert {stream.epoch for stream in streams} == {epoch + 1}


@settings(max_examples=20)
@given(
    rows=st.integers(9, 70),
    batch_size=st.integers(6, 40),
    world_size=st.sampled_from([2, 3]),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 1000),
)
def test_processes_together_visit_what_one_process_visits(
    rows: int, batch_size: int, world_size: int, order: Order, seed: int
) -> None:
    data = toy(rows)
    single = Stream(data, batch_size, views=VIEWS, order=order, seed=seed)
    shards = [
        Stream(data, batch_size, views=VIEWS, order=order, seed=seed, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for _ in range(2):
        for full, *parts in zip(single, *shards, strict=True):
            assert_same(full, join_shards(list(parts)))


@settings(max_examples=20)
@given(
    rows=st.integers(2, 60),
    batch_size=st.integers(2, 20),
    order=st.sampled_from(ORDERS),
    stop=st.integers(0, 40),
    seed=st.integers(0, 1000),
)
def test_resumed_stream_equals_uninterrupted_stream(
    rows: int, batch_size: int, order: Order, stop: int, seed: int
) -> None:
    data = toy(rows)
    corrected = (data.labels + torch.arange(rows)) % 3

    def make() -> Stream:
        return Stream(data, batch_size, views=VIEWS, order=order, seed=seed)

    full, first, second = make(), make(), make()
    if order in ("weighted", "balanced"):
        for stream in (full, first):
            stream.balance(corrected)
    total = stop + 7
    expected = list(itertools.islice(full.cycle(), total))
    batches = list(itertools.islice(first.cycle(), stop))
    second.load_state_dict(first.state_dict())
    batches += itertools.islice(second.cycle(), total - stop)
    for one, other in zip(expected, batches, strict=True):
        assert_same(one, other)


def test_stream_state_survives_torch_save(tmp_path: Path) -> None:
    stream = Stream(toy(20), 8, order="weighted")
    next(iter(stream))
    torch.save(stream.state_dict(), tmp_path / "state.pt")
    other = Stream(toy(20), 8, order="weighted")
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for one, two in zip(stream, other, strict=True):
        assert_same(one, two)


def test_balance_applies_from_next_epoch_also_after_resume() -> None:
    data = toy(60)
    corrected = torch.zeros_like(data.labels)
    corrected[:30] = 1

    def run(interrupt: bool) -> list[Tensor]:
        stream = Stream(data, 10, order="weighted", seed=3)
        first = [batch.index for batch in itertools.islice(stream, 2)]
        stream.balance(corrected)
        if interrupt:
            again = Stream(data, 10, order="weighted", seed=3)
            again.load_state_dict(stream.state_dict())
            stream = again
        return [*first, *(batch.index for batch in stream), *(batch.index for batch in stream)]

    undisturbed = [batch.index for batch in Stream(data, 10, order="weighted", seed=3)]
    assert all(map(torch.equal, run(True), run(False)))
    assert all(map(torch.equal, run(False)[:6], undisturbed))
    unbalanced = Stream(data, 10, order="weighted", seed=3)
    unbalanced.seek(1)
    assert not all(map(torch.equal, run(False)[6:], [batch.index for batch in unbalanced]))


def test_order_depends_on_epoch_and_seed_not_on_global_generator() -> None:
    data = toy(40)
    stream = Stream(data, 40, views=VIEWS, seed=1)
    torch.manual_seed(5)
    first, second = next(iter(stream)), None
    stream = Stream(data, 40, views=VIEWS, seed=1)
    torch.manual_seed(6)
    np.random.seed(6)
    again, second = itertools.islice(stream.cycle(), 2)
    (other,) = Stream(data, 40, views=VIEWS, seed=2)
    assert_same(first, again)
    assert not torch.equal(first.index, second.index)
    assert not torch.equal(first.index, other.index)
    by_row = [batch.views["weak"][batch.index.argsort()] for batch in (first, second, other)]
    assert not torch.equal(by_row[0], by_row[1])
    assert not torch.equal(by_row[0], by_row[2])


def test_repeated_row_gets_different_views() -> None:
    data = toy(2)
    (batch,) = Stream(data, 40, views={"weak": VIEWS["weak"]}, order="weighted", draws=40)
    assert len(batch.x.flatten(1).unique(dim=0)) > 2


def test_views_draw_independently() -> None:
    data, view = toy(30), VIEWS["weak"]
    (two,) = Stream(data, 30, views={"a": view, "b": view})
    (one,) = Stream(data, 30, views={"b": view})
    assert not torch.equal(two.views["a"], two.views["b"])
    assert torch.equal(two.views["b"], one.x)


def test_weighted_stream_is_balanced_by_latest_labels() -> None:
    data = toy(3000)
    counts = data.class_counts
    assert counts.max() > 2.5 * counts.min()
    stream = Stream(data, 500, order="weighted", draws=30_000, seed=1)
    given_ = torch.cat([batch.labels for batch in stream])
    fractions = torch.bincount(given_, minlength=3) / len(given_)
    assert (fractions - 1 / 3).abs().max() < 0.015
    corrected = torch.arange(3000) % 30 // 27  # 90 % and 10 %
    stream.balance(corrected)
    index = torch.cat([batch.index for batch in stream])
    assert abs(corrected[index].float().mean() - 0.5) < 0.015


def test_balanced_stream_draws_without_replacement() -> None:
    data = toy(300)
    smallest = int(data.class_counts.min())
    index = torch.cat([batch.index for batch in Stream(data, 50, order="balanced", draws=3 * smallest)])
    assert len(index.unique()) == len(index) == 3 * smallest
    assert torch.bincount(data.labels[index]).tolist() == [smallest] * 3
    every = torch.cat([batch.index for batch in Stream(data, 50, order="balanced", draws=10_000)])
    assert sorted(every.tolist()) == list(range(300)), "no row is repeated"


def test_cycle_continues_over_epochs() -> None:
    short, long = Stream(toy(5), 2), Stream(toy(40), 4)
    pairs = list(zip(long, short.cycle(), strict=False))
    assert len(pairs) == len(long) == 10
    assert short.epoch >= 3


def test_batch_index_labels_and_pixels_match() -> None:
    data = toy(50)
    for batch in Stream(data, 16, rows=torch.arange(20, 50)):
        assert torch.equal(batch.labels, data.labels[batch.index])
        assert torch.equal(batch.x, data.inputs.batch(batch.index))
        assert batch.index.min() >= 20


def test_batch_keys_determine_mixup() -> None:
    (one,), (again,) = (Stream(toy(8), 8) for _ in range(2))
    assert torch.equal(mixup(one.keys, 1.0)(one.x.float()), mixup(again.keys, 1.0)(again.x.float()))


def image_files(folder: Path, count: int) -> LabeledData:
    names = tuple(f"{number}.png" for number in range(count))
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (30 + number, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    images = LazyImages(FileOpener(folder, names), torch.arange(count), size=32)
    return LabeledData(images, torch.arange(count) % 2, ("a", "b"), names)


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_workers_do_not_change_batches(tmp_path: Path) -> None:
    data = image_files(tmp_path, 13)
    views = {
        "weak": Compose(RandomCrop(28), RandomHorizontalFlip(), NORMALIZE),
        "strong": Compose(RandomCrop(28), RandAugment(), NORMALIZE),
    }
    here, there = (Stream(data, 4, views=views, workers=workers, seed=2) for workers in (0, 2))
    for _ in range(2):
        for one, other in zip(here, there, strict=True):
            assert_same(one, other)
    state: dict[str, Any] = {}
    for step, _ in enumerate(there):
        if step == 1:  # workers have read ahead; only returned batches count
            state = there.state_dict()
    resumed = Stream(data, 4, views=views, workers=2, seed=2)
    resumed.load_state_dict(state)
    rest = [batch.index for batch in resumed]
    here.seek(2, 2)
    assert all(map(torch.equal, rest, [batch.index for batch in here]))
    assert len(rest) == len(here) - 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 4, "world_size": 3}, "too small: each of 3 processes needs at least two rows"),
        (
            {"batch_size": 4, "order": "random"},
            "order must be one of shuffled, sequential, weighted, balanced; got 'random'",
        ),
        ({"batch_size": 4, "rows": [1, 1]}, "rows must be unique"),
        ({"batch_size": 4, "rows": [1, 5]}, r"rows must be in 0\.\.4, got 1 other position \(5\)"),
        ({"batch_size": 4, "rows": [0.5]}, "rows must be integer positions of shape .*, got torch.float32"),
        ({"batch_size": 4, "rows": [True, False]}, r"a mask must have shape \(5,\), got shape \(2,\)"),
        ({"batch_size": 4, "seed": -1}, "must not be negative"),
        ({"batch_size": 4, "draws": 3}, "draws= is not supported for a shuffled stream"),
        ({"batch_size": 4, "rank": 1}, r"rank must be in 0\.\.0"),
        ({"batch_size": 4, "rows": torch.tensor([], dtype=torch.int64)}, "needs rows to draw from, got 0 rows"),
        ({"batch_size": 4, "draws": 0, "order": "weighted"}, "0 draws"),
    ],
)
def test_stream_rejects_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(toy(5), **arguments)


@pytest.mark.parametrize("other", [{"batch_size": 5}, {"seed": 1}, {"order": "balanced"}, {"rows": torch.arange(1, 9)}])
def test_stream_rejects_state_of_other_stream(other: dict[str, Any]) -> None:
    arguments = {"batch_size": 4, "rows": torch.arange(8)}
    state = Stream(toy(9), **(arguments | other)).state_dict()
    with pytest.raises(ValueError, match=f"{next(iter(other))} is .* there and .* here"):
        Stream(toy(9), **arguments).load_state_dict(state)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.zeros(3).long(), "each of the 9 samples, got 3"),
        (torch.zeros(9), "must be integers .* got float32"),
        (torch.zeros(9, 3).long(), "each of the 9 samples"),
        (torch.full((9,), 3), r"labels to balance by must be in 0\.\.2, but 9 rows"),
        (torch.full((9,), -1), r"must be in 0\.\.2"),
    ],
)
def test_balance_rejects_invalid_labels(labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(toy(9), 4, order="balanced").balance(labels)


def test_balance_rejects_shuffled_stream() -> None:
    with pytest.raises(ValueError, match="a shuffled stream cannot be balanced"):
        Stream(toy(9), 4).balance(torch.zeros(9).long())


def test_streams_of_equal_length_end_epochs_together() -> None:
    """The last batch ends the epoch, even if no further batch is requested."""
    one, other = Stream(toy(12), 4), Stream(toy(12), 4, seed=1)
    for epoch in range(3):
        assert len(list(zip(one, other, strict=False))) == 3
        assert (one.epoch, other.epoch) == (epoch + 1, epoch + 1)
        assert len(list(itertools.islice(one, 3))) == 3
        one.seek(epoch + 1)


def test_stream_rejects_two_loops() -> None:
    stream = Stream(toy(12), 4)
    with pytest.raises(RuntimeError, match="one loop at a time"):
        list(zip(stream, stream, strict=False))
    stream = Stream(toy(12), 4)
    iterator = iter(stream)
    next(iterator)
    stream.seek(5)
    with pytest.raises(RuntimeError, match="moved during iteration"):
        next(iterator)
    assert (stream.epoch, stream.step) == (5, 0)


def test_loop_continues_after_break() -> None:
    stream, expected = Stream(toy(30), 4), list(Stream(toy(30), 4))
    batches = [next(iter(stream)), *stream]
    for one, other in zip(expected, batches, strict=True):
        assert_same(one, other)


def test_single_view_and_repr() -> None:
    stream = Stream(toy(30), 4, views=VIEWS["weak"])
    assert next(iter(stream)).x.dtype == torch.float32
    assert repr(stream) == "Stream(30 rows, shuffled, batches of 4, epoch 0, batch 1 of 8)"
    with pytest.raises(TypeError, match="data must be LabeledData, got ndarray"):
        Stream(np.zeros((3, 2)), 2)  # type: ignore[arg-type]


def test_stream_rows_accept_mask() -> None:
    mask = torch.arange(30) % 3 == 0
    visited = torch.cat([batch.index for batch in Stream(toy(30), 4, rows=mask)])
    assert sorted(visited.tolist()) == list(range(0, 30, 3))


def test_stream_names_give_independent_draws() -> None:
    (one,), (other,) = (Stream(toy(30), 30, views=VIEWS, name=name) for name in ("labeled", "unlabeled"))
    assert not torch.equal(one.index, other.index)
    assert not set(one.keys.tolist()) & set(other.keys.tolist())


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_workers_do_not_use_global_generator(tmp_path: Path) -> None:
    data = image_files(tmp_path, 6)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    list(Stream(data, 4, workers=2))
    assert torch.equal(torch.rand(3), expected)
