"""A batch of class labels in place of positions is noticed; positions never are taken for labels."""

import copy
import warnings
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from permll import PermutationLayer
from permll.layer.base import CHECKED_BATCHES, CorrectionLayer
from permll.layer.validation import MIN_COMPARED, looks_like_labels

MESSAGE = r"index looks like class labels: pass each sample's position .*; permll\.IndexedDataset adds it"
BUILDERS = [PermutationLayer, PermutationLayer.paper]


def slow_looks_like_labels(index: Sequence[int], num_classes: int, rows: int) -> bool:
    """Return the same as ``looks_like_labels``, by plain Python."""
    if len(index) < 8 or rows < 10 * num_classes or not set(index) <= set(range(num_classes)):
        return False
    return len({index.count(i) for i in index}) > 1 and sorted(index) != list(index)


def loss_of(layer: CorrectionLayer, index: Tensor) -> Tensor:
    return layer(torch.randn(len(index), layer.num_classes, requires_grad=True), index)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize(
    ("num_classes", "rows", "batch"), [(2, 50, 16), (10, 1000, 16), (10, 100, 64), (100, 5000, 64)]
)
def test_labels_as_index_give_one_warning(build, num_classes: int, rows: int, batch: int) -> None:
    labels = torch.randint(num_classes, (rows,))
    layer = build(labels, num_classes=num_classes)
    losses = (loss_of(layer, labels[index]) for index in BatchSampler(RandomSampler(labels), batch, drop_last=False))
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        list(losses)
    assert len(caught) == 1


def test_labels_as_index_are_noticed_in_a_compiled_graph_and_in_a_copy() -> None:
    labels = torch.arange(100) % 3
    layer = PermutationLayer(labels, num_classes=3)
    for one in (copy.deepcopy(layer), layer):
        with pytest.warns(UserWarning, match=MESSAGE):
            torch.compile(loss_of, backend="eager")(one, labels[torch.randperm(100)[:32]])


def test_first_batches_only_are_compared() -> None:
    labels = torch.randint(3, (1000,))
    layer = PermutationLayer(labels, num_classes=3)
    for _ in range(CHECKED_BATCHES):
        loss_of(layer, torch.randperm(1000)[:32])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss_of(layer, labels[:32])


def test_evaluation_is_not_compared() -> None:
    labels = torch.randint(3, (1000,))
    layer = PermutationLayer(labels, num_classes=3).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss_of(layer, labels[:32])
    with pytest.warns(UserWarning, match=MESSAGE):
        loss_of(layer.train(), labels[:32])


@given(
    index=st.lists(st.integers(-1, 6), max_size=14),
    num_classes=st.integers(2, 6),
    rows=st.sampled_from([10, 20, 40, 60]),
)
def test_rule_equals_slow_rule(index: list[int], num_classes: int, rows: int) -> None:
    tensor = torch.tensor(index, dtype=torch.int64)
    assert looks_like_labels(tensor, num_classes, rows) == slow_looks_like_labels(index, num_classes, rows)


@given(rows=st.integers(2, 400), num_classes=st.integers(2, 100), batch=st.integers(1, 130), data=st.data())
def test_no_alarm_for_permutations_and_batches_in_order(
    rows: int, num_classes: int, batch: int, data: st.DataObject
) -> None:
    views = data.draw(st.integers(1, 3))
    in_order = torch.arange(rows)
    shuffled = torch.randperm(rows, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 2**31))))
    for order in (in_order, shuffled):
        for index in order.split(batch):
            assert not looks_like_labels(index, num_classes, rows)
            assert not looks_like_labels(index.repeat(views), num_classes, rows)  # views one after the other
    for index in in_order.repeat_interleave(views).split(batch):  # each sample several times
        assert not looks_like_labels(index, num_classes, rows)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("sampler", [SequentialSampler, RandomSampler, lambda x: RandomSampler(x, replacement=True)])
def test_layer_gives_no_alarm_in_training(build, sampler) -> None:
    labels = torch.arange(300) % 20
    layer = build(labels, num_classes=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in BatchSampler(sampler(labels), 10, drop_last=False):
            loss_of(layer, torch.tensor(index)).backward()
            layer.step()


def test_small_or_regular_batches_are_no_evidence() -> None:
    labels = torch.tensor([0, 0, 1, 0, 1, 1, 0])
    assert len(labels) < MIN_COMPARED
    assert not looks_like_labels(labels, 2, 1000)
    assert not looks_like_labels(torch.zeros(50, dtype=torch.int64), 2, 1000)  # one class
    assert not looks_like_labels(torch.tensor([], dtype=torch.int64), 2, 1000)
