"""Public methods of the layers outside a training step: queries, checks of labels, state dicts, copies, averages."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.swa_utils import AveragedModel
from torch.testing import assert_close

from permll import PermutationLayer
from permll.layer.paper import PaperPermutationLayer
from permll.layer.reference import permutation_layer

LABELS = [2, 0, 1, 1, 2]
SETTINGS: dict[str, Any] = {"init": 0.35, "lr": 0.1, "on": "prediction", "loss": "ce"}
BOTH_LAYERS = pytest.mark.parametrize("build", [PermutationLayer, PermutationLayer.paper], ids=["default", "paper"])


@pytest.fixture
def layer() -> PaperPermutationLayer:
    layer = PermutationLayer.paper(LABELS, num_classes=3, init=0.5, lr=0.1)
    layer.alpha.add_(torch.randn(5, 3))
    return layer


def random_layer(labels: list[int], ids: list | None = None, num_classes: int = 3) -> PaperPermutationLayer:
    layer = PermutationLayer.paper(labels, num_classes=num_classes, ids=ids, init=0.5)
    layer.alpha.normal_()
    return layer


@pytest.mark.parametrize("labels", [LABELS, tuple(LABELS), np.array(LABELS, dtype=np.uint8), torch.tensor(LABELS)])
def test_labels_may_be_list_array_or_tensor(labels) -> None:
    layer = PermutationLayer.paper(labels, num_classes=3)
    assert layer.labels.tolist() == LABELS
    assert layer.corrected_labels().tolist() == LABELS
    logits = torch.randn(2, 3)
    assert torch.equal(layer(logits, [1, 3]), layer(logits, torch.tensor([1, 3])))
    assert torch.equal(layer(logits, np.array([1, 3])), layer(logits, torch.tensor([1, 3], dtype=torch.int32)))


def test_arguments_may_be_numpy_scalars() -> None:
    labels = np.array(LABELS)
    layer = PermutationLayer.paper(labels, num_classes=labels.max() + 1, epochs=np.int64(20))
    assert layer.num_classes == 3
    assert type(layer.num_classes) is int
    assert PermutationLayer.paper(labels, 3, lr=np.float32(0.25)).lr == 0.25


def test_labels_are_copied() -> None:
    labels = torch.tensor(LABELS)
    layer = PermutationLayer.paper(labels, num_classes=3)
    labels[0] = 0
    assert layer.labels.tolist() == LABELS


def test_weights_matrix_and_corrected_labels_follow_alpha(layer: PaperPermutationLayer) -> None:
    assert_close(layer.weights(), layer.alpha.softmax(-1))
    assert_close(layer.weights([4, 0]), layer.alpha[[4, 0]].softmax(-1))
    assert_close(layer.weights(4), layer.alpha[[4]].softmax(-1))
    assert_close(layer.weights(np.int64(4)), layer.weights(4))
    assert_close(layer.matrix(3), permutation_layer(layer.alpha[3], 1))
    assert_close(layer.matrix(0), permutation_layer(layer.alpha[0], 2))
    assert torch.equal(layer.corrected_labels(), layer.alpha.argmax(-1))


def test_label_quality_is_probability_of_given_label(layer: PaperPermutationLayer) -> None:
    quality = layer.label_quality()
    expected = [float(layer.alpha[i].softmax(-1)[y]) for i, y in enumerate(LABELS)]
    assert_close(quality, torch.tensor(expected))
    assert ((quality >= 0) & (quality <= 1)).all()

    logits = torch.randn(5, 3)
    expected = [float((layer.alpha[i] + logits[i]).softmax(-1)[y]) for i, y in enumerate(LABELS)]
    assert_close(layer.label_quality(logits), torch.tensor(expected))
    assert_close(layer.posterior(logits[[3]], [3]), (layer.alpha[[3]] + logits[[3]]).softmax(-1))


def test_suspects_are_ordered_by_quality(layer: PaperPermutationLayer) -> None:
    quality = layer.label_quality()
    order = layer.suspects()
    assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
    assert (quality[order].diff() >= 0).all()
    assert torch.equal(layer.suspects(limit=2), order[:2])
    assert layer.suspects(limit=0).tolist() == []
    logits = torch.randn(5, 3)
    assert torch.equal(layer.suspects(logits=logits), layer.label_quality(logits).argsort())


def test_layer_has_no_parameters_and_a_repr(layer: PaperPermutationLayer) -> None:
    assert list(layer.parameters()) == []
    assert repr(layer) == "PaperPermutationLayer(5 rows, num_classes=3, init=0.5, lr=0.1, on='prediction', loss='ce')"
    assert repr(PermutationLayer(LABELS, 3)) == "PermutationLayer(5 rows, num_classes=3, held_out=0.05)"


@pytest.mark.parametrize("cast", ["half", "bfloat16", "float"])
def test_alpha_stays_float32_under_casts(layer: PaperPermutationLayer, cast: str) -> None:
    before = layer.alpha.clone()
    getattr(torch.nn.Sequential(layer), cast)()
    assert layer.alpha.dtype == torch.float32
    assert torch.equal(layer.alpha, before)


def test_layer_double_and_device(layer: PaperPermutationLayer) -> None:
    before = layer.alpha.clone()
    logits = torch.randn(2, 3)
    assert layer.double()(logits, [0, 1]).dtype == torch.float64
    assert torch.equal(layer.alpha, before.double())
    assert layer.float().to("meta").alpha.device.type == "meta"


def test_state_dict_round_trip(layer: PaperPermutationLayer, tmp_path) -> None:
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = PermutationLayer.paper(LABELS, num_classes=3, init=0.5, lr=0.1)
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    assert torch.equal(other.alpha, layer.alpha)
    assert set(layer.state_dict()) == {"alpha", "labels", "settings"}
    assert torch.equal(copy.deepcopy(layer).alpha, layer.alpha)


@pytest.mark.parametrize("ids", [["e", "b", "c", "d", "a"], [50, 20, 30, 40, 10]])
def test_state_matches_rows_by_id(ids: list) -> None:
    """Reordered, one row removed, one row added."""
    saved = random_layer(LABELS, ids)
    new = "z" if isinstance(ids[0], str) else 99
    target = PermutationLayer.paper([1, 2, 0, 1], num_classes=3, init=0.5, ids=[ids[3], ids[0], new, ids[2]])
    start = target.alpha.clone()
    target.load_state_dict(saved.state_dict())
    assert torch.equal(target.alpha[[0, 1, 3]], saved.alpha[[3, 0, 2]])
    assert torch.equal(target.alpha[2], start[2])
    assert target.labels.tolist() == [1, 2, 0, 1]
    assert all(isinstance(value, torch.Tensor) for value in saved.state_dict().values())


def test_state_with_few_matching_rows_warns() -> None:
    target = PermutationLayer.paper([2, 0, 1], num_classes=3, init=0.5, ids=["e", "x", "y"])
    with pytest.warns(
        UserWarning, match="only 1 of 3 rows were found in the state; the others keep their initial values"
    ):
        target.load_state_dict(random_layer(LABELS, ["e", "b", "c", "d", "a"]).state_dict())


def test_index_may_be_string_ids() -> None:
    layer = random_layer(LABELS, ["e", "b", "c", "d", "a"])
    logits = torch.randn(2, 3)
    assert torch.equal(layer(logits, ["a", "e"]), layer(logits, [4, 0]))
    assert layer.ids is not None
    assert layer.ids.positions(["d"]).tolist() == [3]


@pytest.mark.parametrize("kind", [np.array, list, lambda ids: [np.str_(name) for name in ids]])
def test_ids_and_index_may_be_numpy(kind) -> None:
    layer = random_layer(LABELS, kind(["e", "b", "c", "d", "a"]))
    logits = torch.randn(2, 3)
    assert torch.equal(layer(logits, kind(["a", "e"])), layer(logits, [4, 0]))
    assert torch.equal(layer.matrix("a"), layer.matrix(4))
    numbers = PermutationLayer.paper(LABELS, num_classes=3, ids=[np.int64(k) for k in range(10, 15)])
    assert numbers.ids is not None
    assert numbers.ids.values == [10, 11, 12, 13, 14]
    assert numbers.ids.positions(torch.tensor([14, 10])).tolist() == [4, 0]


def test_arrays_may_be_strided_or_read_only() -> None:
    labels = np.array(LABELS)
    labels.setflags(write=False)
    layer = PermutationLayer.paper(labels[::-1], num_classes=3)
    assert layer.labels.tolist() == LABELS[::-1]
    logits = torch.randn(5, 3)
    assert torch.equal(layer(logits, np.arange(5)[::-1]), layer(logits, [4, 3, 2, 1, 0]))


def test_load_state_dict_discards_pending_gradients() -> None:
    layer = random_layer(LABELS)
    saved = {name: value.clone() for name, value in layer.state_dict().items()}
    layer(torch.randn(5, 3, requires_grad=True), range(5)).backward()
    layer.load_state_dict(saved)
    layer.step()
    assert torch.equal(layer.alpha, saved["alpha"])


def test_copy_has_separate_pending_gradients() -> None:
    layer = random_layer(LABELS)
    layer(torch.randn(5, 3, requires_grad=True), range(5)).backward()
    before = layer.alpha.clone()
    other = pickle.loads(pickle.dumps(copy.deepcopy(layer)))
    other.step()
    assert torch.equal(layer.alpha, before)
    layer.step()
    assert torch.equal(layer.alpha, other.alpha)
    assert not torch.equal(layer.alpha, before)


def test_state_loads_into_another_dtype() -> None:
    saved = random_layer(LABELS, ["e", "b", "c", "d", "a"])
    target = PermutationLayer.paper(LABELS, num_classes=3, init=0.5, ids=["e", "b", "c", "d", "a"]).double()
    target.load_state_dict(saved.state_dict())
    assert target.alpha.dtype == torch.float64
    assert torch.equal(target.alpha, saved.alpha.double())


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (random_layer([2, 0, 1, 1, 0]), r"other labels: 1 differ, the first is row 4 with 0 in the state and 2 here"),
        (random_layer([2, 0, 1]), r"the state has 3 rows and this layer 5"),
        (random_layer(LABELS, num_classes=4), r"has shape \(5, 4\), but this layer has 3 classes"),
        (random_layer(LABELS, list("abcde")), r"the state has ids and this layer does not"),
    ],
)
def test_unfitting_state_is_rejected(saved: PaperPermutationLayer, message: str) -> None:
    layer = random_layer(LABELS)
    before = layer.alpha.clone()
    with pytest.raises(RuntimeError, match=message):
        layer.load_state_dict(saved.state_dict())
    assert torch.equal(layer.alpha, before)


@pytest.mark.parametrize("ids", [["x", "y"], [0, 1]])
def test_state_without_common_ids_is_rejected(ids: list) -> None:
    layer = PermutationLayer.paper([0, 1], num_classes=3, init=0.5, ids=["a", "b"])
    with pytest.raises(RuntimeError, match=r"have no id in common: the first ids are .* and 'a'"):
        layer.load_state_dict(random_layer([0, 1], ids).state_dict())
    with pytest.raises(RuntimeError, match="this layer has ids and the state does not"):
        layer.load_state_dict(random_layer([0, 1]).state_dict())


def test_changed_label_error_names_the_id() -> None:
    layer = PermutationLayer.paper([1, 2], num_classes=3, init=0.5, ids=["x.png", "y.png"])
    with pytest.raises(RuntimeError, match=r"the first is row 'y.png' with 0 in the state and 2 here"):
        layer.load_state_dict(random_layer([0, 1], ["y.png", "x.png"]).state_dict())


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"init": 0.4}, "init=0.4 instead of 0.35"),
        ({"lr": 0.2}, "lr=0.2 instead of 0.1"),
        ({"on": "label"}, "on='label' instead of 'prediction'"),
        ({"loss": "l1"}, "loss='l1' instead of 'ce'"),
        ({"init": 0.4, "loss": "kl"}, "init=0.4 instead of 0.35, loss='kl' instead of 'ce'"),
    ],
)
def test_state_with_other_settings_is_rejected(other: dict[str, Any], difference: str) -> None:
    layer = PermutationLayer.paper(LABELS, 10, **SETTINGS)
    saved = PermutationLayer.paper(LABELS, 10, **SETTINGS | other)
    saved.alpha.normal_()
    before = layer.alpha.clone()
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict(saved.state_dict())
    sentence = f"the state was saved with {difference}: build the layer with the settings of the state."
    assert str(caught.value).split("\n\t")[1:] == [sentence]
    assert torch.equal(layer.alpha, before)


def test_state_of_another_layer_class_is_rejected() -> None:
    default, paper = PermutationLayer(LABELS, 3), PermutationLayer.paper(LABELS, 3)
    with pytest.raises(RuntimeError, match="saved with layer='PermutationLayer' instead of 'PaperPermutationLayer'"):
        paper.load_state_dict(default.state_dict())
    with pytest.raises(RuntimeError, match="saved with layer='PaperPermutationLayer' instead of 'PermutationLayer'"):
        default.load_state_dict(paper.state_dict())


@BOTH_LAYERS
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("settings", r"the state has no settings: it was not saved by this layer\."),
        ("labels", r'Missing key\(s\) in state_dict: "labels"'),
    ],
)
def test_state_without_a_key_is_rejected(build: Callable[..., Any], key: str, message: str) -> None:
    layer, saved = build(LABELS, 3), build(LABELS, 3)
    saved.table.write(torch.arange(5), torch.randn(5, 3))
    state, before = saved.state_dict(), layer.alpha.clone()
    del state[key]
    with pytest.raises(RuntimeError, match=message):
        layer.load_state_dict(state)
    assert torch.equal(layer.alpha, before)


@BOTH_LAYERS
def test_labels_of_a_batch_are_checked(build: Callable[..., Any]) -> None:
    layer, logits = build(LABELS, 3), torch.randn(3, 3)
    expected = layer(logits, [4, 0, 1])
    for labels in ([2, 2, 0], np.array([2, 2, 0]), torch.tensor([2, 2, 0], dtype=torch.int32)):
        assert torch.equal(layer(logits, [4, 0, 1], labels=labels), expected)
    subset = torch.utils.data.Subset(LABELS, [2, 3, 4])
    positions, labels = zip(*enumerate(subset), strict=True)  # positions in the subset
    for mode in (True, False):
        with pytest.raises(
            ValueError, match=r"^3 labels .*first is 1 instead of 2 at index 0: .*\(a Subset counts from 0"
        ):
            layer.train(mode)(logits, positions, labels=labels)
    assert torch.equal(layer(logits, subset.indices, labels=labels), layer(logits, [2, 3, 4]))
    with pytest.raises(ValueError, match=r"^1 labels .*first is 1 instead of 0 at index 1: "):
        layer(logits, [4, 0, 1], labels=[2, 2, 1])
    with pytest.raises(ValueError, match=r"one entry per row of logits, got shape \(2,\)"):
        layer(logits, [4, 0, 1], labels=[2, 2])
    with pytest.raises(TypeError, match="labels must be integers"):
        layer(logits, [4, 0, 1], labels=[2.0, 2.0, 0.0])


@BOTH_LAYERS
@pytest.mark.parametrize("decay", [None, 0.9])
def test_average_of_models_keeps_labels(build: Callable[..., Any], decay: float | None) -> None:
    """0.9 * 3 + 0.1 * 3 < 3 in float32: an average over labels would round some of them down."""
    labels = torch.arange(10).repeat(50)
    x = torch.randn(500, 4)
    module = torch.nn.ModuleDict({"net": torch.nn.Linear(4, 10), "layer": build(labels, 10)})
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    averaging = {} if decay is None else {"avg_fn": torch.optim.swa_utils.get_ema_avg_fn(decay)}
    average = AveragedModel(module, use_buffers=True, **averaging)
    for index in torch.randperm(500).repeat(3).split(100):
        optimizer.zero_grad()
        module["layer"](module["net"](x[index]), index, labels=labels[index]).backward()
        optimizer.step()
        module["layer"].step()
        average.update_parameters(module)
    layer = average.module["layer"]
    assert torch.equal(layer.labels, labels)
    assert layer.alpha.isfinite().all()
    assert layer(average.module["net"](x), torch.arange(500), labels=labels).isfinite()
    assert torch.equal(average.state_dict()["module.layer.labels"], labels)


@BOTH_LAYERS
def test_weights_of_a_model_without_the_layer_load_into_one_with_it(build: Callable[..., Any]) -> None:
    net, layer = torch.nn.Linear(2, 3), build(LABELS, 3)
    model, before = torch.nn.ModuleDict({"net": net, "layer": layer}), layer.alpha.clone()
    weights = {f"net.{name}": value + 1 for name, value in net.state_dict().items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert "layer.settings" in missing
    assert unexpected == []
    assert torch.equal(net.weight, weights["net.weight"])
    assert torch.equal(layer.alpha, before)
