"""Streams: every row once on any number of ranks, the same after an interruption, balanced when asked."""

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
from permll.data.decoding import OpenFile
from permll.data.streams import Order
from permll.data.transforms import Chain, Crop, Cutout, Flip, Normalize, RandAugment, mixup
from tests.helpers.toy_data import toy

NORMALISE = Normalize((0.5,) * 3, (0.25,) * 3)
VIEWS = {
    "weak": Chain(Crop(padding=2), Flip(), NORMALISE),
    "strong": Chain(Crop(padding=2), RandAugment(), NORMALISE, Cutout(4)),
}
ORDERS: tuple[Order, ...] = ("shuffled", "sequential", "weighted", "even")


def assert_same(one: Batch, other: Batch) -> None:
    assert torch.equal(one.index, other.index)
    assert torch.equal(one.labels, other.labels)
    assert torch.equal(one.keys, other.keys)
    assert one.views.keys() == other.views.keys()
    for name in one.views:
        assert torch.equal(one.views[name], other.views[name])


def joined(parts: list[Batch]) -> Batch:
    """Put the shares of the ranks together again: row i of the batch went to rank i mod R."""
    ranks, total = len(parts), sum(len(part.index) for part in parts)
    where = torch.tensor([place for rank in range(ranks) for place in range(rank, total, ranks)]).argsort()

    def whole(values: list[Tensor]) -> Tensor:
        return torch.cat(values)[where]

    views = {name: whole([part.views[name] for part in parts]) for name in parts[0].views}
    return Batch(
        whole([p.index for p in parts]), whole([p.labels for p in parts]), views, whole([p.keys for p in parts])
    )


@settings(max_examples=40)
@given(
    rows=st.integers(2, 90),
    batch_size=st.integers(6, 40),
    ranks=st.sampled_from([1, 2, 3]),
    order=st.sampled_from(["shuffled", "sequential"]),
    seed=st.integers(0, 1 << 40),
    subset=st.booleans(),
)
def test_every_row_is_visited_once_an_epoch(
    rows: int, batch_size: int, ranks: int, order: Order, seed: int, subset: bool
) -> None:
    data = toy(rows)
    chosen = torch.arange(0, rows, 2) if subset else None
    wanted = list(range(0, rows, 2)) if subset else list(range(rows))
    streams = [
        Stream(data, batch_size, order=order, rows=chosen, seed=seed, rank=rank, ranks=ranks) for rank in range(ranks)
    ]
    for epoch in range(2):
        visited = [[batch.index for batch in stream] for stream in streams]
        assert {len(batches) for batches in visited} == {len(streams[0])}, "all ranks take the same number of steps"
        assert sorted(torch.cat([torch.cat(batches) for batches in visited]).tolist()) == wanted
        assert {stream.epoch for stream in streams} == {epoch + 1}


@settings(max_examples=20)
@given(
    rows=st.integers(9, 70),
    batch_size=st.integers(6, 40),
    ranks=st.sampled_from([2, 3]),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 1000),
)
def test_ranks_together_see_what_one_process_sees(
    rows: int, batch_size: int, ranks: int, order: Order, seed: int
) -> None:
    data = toy(rows)
    alone = Stream(data, batch_size, views=VIEWS, order=order, seed=seed)
    shared = [
        Stream(data, batch_size, views=VIEWS, order=order, seed=seed, rank=rank, ranks=ranks) for rank in range(ranks)
    ]
    for _ in range(2):
        for whole, *parts in zip(alone, *shared, strict=True):
            assert_same(whole, joined(list(parts)))


@settings(max_examples=30)
@given(
    rows=st.integers(2, 60),
    batch_size=st.integers(2, 20),
    order=st.sampled_from(ORDERS),
    stop=st.integers(0, 40),
    seed=st.integers(0, 1000),
)
def test_an_interrupted_stream_goes_on_as_if_nothing_had_happened(
    rows: int, batch_size: int, order: Order, stop: int, seed: int
) -> None:
    data = toy(rows)
    corrected = (data.labels + torch.arange(rows)) % 3

    def make() -> Stream:
        return Stream(data, batch_size, views=VIEWS, order=order, seed=seed)

    whole, first, second = make(), make(), make()
    if order in ("weighted", "even"):
        for stream in (whole, first):
            stream.balance(corrected)
    total = stop + 7
    expected = list(itertools.islice(whole.cycle(), total))
    seen = list(itertools.islice(first.cycle(), stop))
    second.load_state_dict(first.state_dict())
    seen += itertools.islice(second.cycle(), total - stop)
    for one, other in zip(expected, seen, strict=True):
        assert_same(one, other)


def test_a_state_can_be_saved_as_a_file(tmp_path: Path) -> None:
    stream = Stream(toy(20), 8, order="weighted")
    next(iter(stream))
    torch.save(stream.state_dict(), tmp_path / "state.pt")
    other = Stream(toy(20), 8, order="weighted")
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for one, two in zip(stream, other, strict=True):
        assert_same(one, two)


def test_a_balance_set_within_an_epoch_waits_for_the_next_even_over_an_interruption() -> None:
    data = toy(60)
    corrected = torch.zeros_like(data.labels)
    corrected[:30] = 1

    def run(interrupt: bool) -> list[Tensor]:
        stream = Stream(data, 10, order="weighted", seed=3)
        seen = [batch.index for batch in itertools.islice(stream, 2)]
        stream.balance(corrected)
        if interrupt:
            again = Stream(data, 10, order="weighted", seed=3)
            again.load_state_dict(stream.state_dict())
            stream = again
        return [*seen, *(batch.index for batch in stream), *(batch.index for batch in stream)]

    undisturbed = [batch.index for batch in Stream(data, 10, order="weighted", seed=3)]
    assert all(map(torch.equal, run(True), run(False)))
    assert all(map(torch.equal, run(False)[:6], undisturbed))
    unbalanced = Stream(data, 10, order="weighted", seed=3)
    unbalanced.seek(1)
    assert not all(map(torch.equal, run(False)[6:], [batch.index for batch in unbalanced]))


def test_epochs_and_seeds_differ_and_the_global_generator_does_not_matter() -> None:
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


def test_a_row_drawn_twice_in_an_epoch_gets_two_views() -> None:
    data = toy(2)
    (batch,) = Stream(data, 40, views={"weak": VIEWS["weak"]}, order="weighted", draws=40)
    assert len(batch.x.flatten(1).unique(dim=0)) > 2


def test_views_do_not_share_their_draws_and_one_more_changes_no_other() -> None:
    data, view = toy(30), VIEWS["weak"]
    (two,) = Stream(data, 30, views={"a": view, "b": view})
    (one,) = Stream(data, 30, views={"b": view})
    assert not torch.equal(two.views["a"], two.views["b"])
    assert torch.equal(two.views["b"], one.x)


def test_a_weighted_stream_is_balanced_by_the_labels_it_was_given_last() -> None:
    data = toy(3000)
    counts = data.counts
    assert counts.max() > 2.5 * counts.min()
    stream = Stream(data, 500, order="weighted", draws=30_000, seed=1)
    given_ = torch.cat([batch.labels for batch in stream])
    share = torch.bincount(given_, minlength=3) / len(given_)
    assert (share - 1 / 3).abs().max() < 0.015
    corrected = torch.arange(3000) % 30 // 27  # 90 % and 10 %
    stream.balance(corrected)
    index = torch.cat([batch.index for batch in stream])
    assert abs(corrected[index].float().mean() - 0.5) < 0.015


def test_an_even_stream_takes_each_row_at_most_once_and_every_label_alike() -> None:
    data = toy(300)
    least = int(data.counts.min())
    index = torch.cat([batch.index for batch in Stream(data, 50, order="even", draws=3 * least)])
    assert len(index.unique()) == len(index) == 3 * least
    assert torch.bincount(data.labels[index]).tolist() == [least] * 3
    every = torch.cat([batch.index for batch in Stream(data, 50, order="even", draws=10_000)])
    assert sorted(every.tolist()) == list(range(300)), "no row is repeated to fill the number"


def test_a_cycling_stream_keeps_pace_with_a_longer_one() -> None:
    few, many = Stream(toy(5), 2), Stream(toy(40), 4)
    pairs = list(zip(many, few.cycle(), strict=False))
    assert len(pairs) == len(many) == 10
    assert few.epoch >= 3


def test_index_labels_and_pixels_belong_together() -> None:
    data = toy(50)
    for batch in Stream(data, 16, rows=torch.arange(20, 50)):
        assert torch.equal(batch.labels, data.labels[batch.index])
        assert torch.equal(batch.x, data.inputs.batch(batch.index))
        assert batch.index.min() >= 20


def test_the_keys_of_a_batch_make_its_mixup() -> None:
    (one,), (again,) = (Stream(toy(8), 8) for _ in range(2))
    assert torch.equal(mixup(one.keys, 1.0)(one.x.float()), mixup(again.keys, 1.0)(again.x.float()))


def picture_files(folder: Path, count: int) -> LabeledData:
    names = tuple(f"{number}.png" for number in range(count))
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (30 + number, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    images = LazyImages(OpenFile(folder, names), torch.arange(count), size=32)
    return LabeledData(images, torch.arange(count) % 2, ("a", "b"), names)


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_workers_change_nothing(tmp_path: Path) -> None:
    data = picture_files(tmp_path, 13)
    views = {"weak": Chain(Crop(28), Flip(), NORMALISE), "strong": Chain(Crop(28), RandAugment(), NORMALISE)}
    here, there = (Stream(data, 4, views=views, workers=workers, seed=2) for workers in (0, 2))
    for _ in range(2):
        for one, other in zip(here, there, strict=True):
            assert_same(one, other)
    state: dict[str, Any] = {}
    for step, _ in enumerate(there):
        if step == 1:  # workers have read ahead by now; only what was handed out counts
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
        ({"batch_size": 4, "ranks": 3}, "too small: each of 3 ranks needs two rows"),
        (
            {"batch_size": 4, "order": "random"},
            "order must be one of shuffled, sequential, weighted, even; got 'random'",
        ),
        ({"batch_size": 4, "rows": [1, 1]}, "rows must differ"),
        ({"batch_size": 4, "rows": [1, 5]}, r"rows lie in 0\.\.4, but there are 1 other \(5\)"),
        ({"batch_size": 4, "rows": [0.5]}, "whole numbers; got torch.float32"),
        ({"batch_size": 4, "rows": [True, False]}, "one truth value for each of 5 rows"),
        ({"batch_size": 4, "seed": -1}, "must not be negative"),
        ({"batch_size": 4, "draws": 3}, "draws= has no meaning for a shuffled stream"),
        ({"batch_size": 4, "rank": 1}, r"rank must lie in 0\.\.0"),
        ({"batch_size": 4, "rows": torch.tensor([], dtype=torch.int64)}, "needs rows to draw from, got 0 rows"),
        ({"batch_size": 4, "draws": 0, "order": "weighted"}, "0 draws"),
    ],
)
def test_impossible_streams_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(toy(5), **arguments)


@pytest.mark.parametrize("other", [{"batch_size": 5}, {"seed": 1}, {"order": "even"}, {"rows": torch.arange(1, 9)}])
def test_a_state_of_another_stream_is_refused(other: dict[str, Any]) -> None:
    arguments = {"batch_size": 4, "rows": torch.arange(8)}
    state = Stream(toy(9), **(arguments | other)).state_dict()
    with pytest.raises(ValueError, match=f"{next(iter(other))} .* there and .* here"):
        Stream(toy(9), **arguments).load_state_dict(state)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.zeros(3).long(), r"each of the 9 samples, got torch.int64 \(3,\)"),
        (torch.zeros(9), "got torch.float32"),
        (torch.zeros(9, 3).long(), r"got torch.int64 \(9, 3\)"),
        (torch.full((9,), 3), r"must lie in 0\.\.2"),
        (torch.full((9,), -1), r"must lie in 0\.\.2"),
    ],
)
def test_balance_wants_a_class_for_every_sample(labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(toy(9), 4, order="even").balance(labels)


def test_balance_and_weights_are_for_streams_that_draw() -> None:
    with pytest.raises(ValueError, match="only weighted and even ones are balanced"):
        Stream(toy(9), 4).balance(torch.zeros(9).long())
    with pytest.raises(ValueError, match="has no weights"):
        Stream(toy(9), 4, order="even").weigh(torch.ones(9))
    with pytest.raises(ValueError, match="a weight for each of the 9 samples, got 3"):
        Stream(toy(9), 4, order="weighted").weigh(torch.ones(3))


def test_weights_of_ones_own_hold_from_the_next_epoch_on_and_over_an_interruption() -> None:
    data, weights = toy(40), torch.zeros(40)
    weights[[3, 5]] = torch.tensor([1.0, 3.0])
    stream = Stream(data, 10, order="weighted", draws=400)
    next(iter(stream))
    stream.weigh(weights)
    assert len(torch.cat([batch.index for batch in stream]).unique()) > 2
    again = Stream(data, 10, order="weighted", draws=400)
    again.load_state_dict(stream.state_dict())
    drawn = torch.cat([batch.index for batch in again])
    assert set(drawn.tolist()) == {3, 5}
    assert abs((drawn == 5).float().mean() - 0.75) < 0.08


def test_streams_side_by_side_end_their_epochs_together() -> None:
    """The last batch ends the epoch, whether or not anybody asks for one more."""
    one, other = Stream(toy(12), 4), Stream(toy(12), 4, seed=1)
    for epoch in range(3):
        assert len(list(zip(one, other, strict=False))) == 3
        assert (one.epoch, other.epoch) == (epoch + 1, epoch + 1)
        assert len(list(itertools.islice(one, 3))) == 3
        one.seek(epoch + 1)


def test_two_loops_over_one_stream_are_told_apart() -> None:
    stream = Stream(toy(12), 4)
    with pytest.raises(RuntimeError, match="one loop at a time"):
        list(zip(stream, stream, strict=False))
    stream = Stream(toy(12), 4)
    trainer = iter(stream)
    next(trainer)
    stream.seek(5)
    with pytest.raises(RuntimeError, match="went elsewhere"):
        next(trainer)
    assert (stream.epoch, stream.step) == (5, 0)


def test_a_loop_that_was_left_goes_on_where_it_was() -> None:
    stream, whole = Stream(toy(30), 4), list(Stream(toy(30), 4))
    seen = [next(iter(stream)), *stream]
    for one, other in zip(whole, seen, strict=True):
        assert_same(one, other)


def test_one_view_needs_no_name_and_a_stream_says_where_it_stands() -> None:
    stream = Stream(toy(30), 4, views=VIEWS["weak"])
    assert next(iter(stream)).x.dtype == torch.float32
    assert repr(stream) == "Stream(30 rows, shuffled, batches of 4, epoch 0, batch 1 of 8)"
    with pytest.raises(TypeError, match="draws from Data, got ndarray"):
        Stream(np.zeros((3, 2)), 2)  # type: ignore[arg-type]


def test_rows_may_be_a_mask() -> None:
    mask = torch.arange(30) % 3 == 0
    visited = torch.cat([batch.index for batch in Stream(toy(30), 4, rows=mask)])
    assert sorted(visited.tolist()) == list(range(0, 30, 3))


def test_streams_of_one_seed_and_other_names_share_no_draws() -> None:
    (one,), (other,) = (Stream(toy(30), 30, views=VIEWS, name=name) for name in ("labeled", "unlabeled"))
    assert not torch.equal(one.index, other.index)
    assert not set(one.keys.tolist()) & set(other.keys.tolist())


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_workers_leave_the_global_generator_alone(tmp_path: Path) -> None:
    data = picture_files(tmp_path, 6)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    list(Stream(data, 4, workers=2))
    assert torch.equal(torch.rand(3), expected)
