"""MLP and plain convolutional networks: layers and options."""

import pytest
import torch
from torch import nn

from permll.networks.cnn import CNN7, CNN9, SmallCNN
from permll.networks.mlp import MLP
from permll.networks.preact import wide_resnet16_8


def layer_types(net: nn.Module) -> list[str]:
    return [type(one).__name__ for one in net.modules() if not list(one.children()) and one is not net]


def test_mlp_layers() -> None:
    assert layer_types(MLP(4, 3)) == ["Linear", "BatchNorm1d", "ReLU"] * 2 + ["Linear"]
    assert layer_types(MLP(4, 3, widths=[8], batch_norm=False, dropout=0.5)) == ["Linear", "ReLU", "Dropout", "Linear"]


def test_mlp_matches_formula() -> None:
    net = MLP(4, 3, widths=(5,)).double().eval()
    for tensor in net.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor))
    state = net.state_dict()
    x = torch.randn(6, 4, dtype=torch.float64)
    hidden = x @ state["hidden.0.weight"].T
    hidden = (hidden - state["hidden.1.running_mean"]) / (state["hidden.1.running_var"] + 1e-5).sqrt()
    hidden = (hidden * state["hidden.1.weight"] + state["hidden.1.bias"]).clamp(min=0)
    torch.testing.assert_close(net(x), hidden @ state["head.weight"].T + state["head.bias"])


def test_mlp_without_hidden_layers_is_linear() -> None:
    net = MLP(4, 3, widths=())
    x = torch.randn(5, 4)
    torch.testing.assert_close(net(x), x @ net.head.weight.T + net.head.bias)


def test_mlp_flattening_ignores_memory_format() -> None:
    net = MLP(3 * 4 * 4, 3).eval()
    images = torch.rand(2, 3, 4, 4)
    assert torch.equal(net(images.to(memory_format=torch.channels_last)), net(images.reshape(2, -1)))


def test_mlp_dropout_is_off_in_evaluation() -> None:
    net, x = MLP(4, 3, widths=(64,), batch_norm=False, dropout=0.5), torch.rand(2, 4)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


def test_small_cnn_layers() -> None:
    stage = ["Conv2d", "BatchNorm2d", "ReLU"]
    assert layer_types(SmallCNN(1, 3)) == [*stage, "MaxPool2d", *stage, "MaxPool2d", *stage, "Linear"]
    assert SmallCNN(1, 3, widths=(8, 24)).head.in_features == 24


@pytest.mark.parametrize(("size", "last"), [(8, 2), (9, 3), (28, 7), (33, 9)])
def test_small_cnn_pools_with_ceil(size: int, last: int) -> None:
    assert SmallCNN(3, 3).body(torch.rand(2, 3, size, size)).shape == (2, 128, last, last)


def test_cnn9_layers() -> None:
    stage = ["Conv2d", "BatchNorm2d", "LeakyReLU"]
    pooled = [*stage * 3, "MaxPool2d", "Dropout2d"]
    assert layer_types(CNN9(3, 10)) == [*pooled, *pooled, *stage * 3, "Linear"]
    net = CNN9(3, 10).eval()
    body = net.body(torch.rand(2, 3, 32, 32))
    assert body.shape == (2, 256, 8, 8)
    assert net.last(body).shape == (2, 128, 2, 2)


def test_cnn9_pads_small_images() -> None:
    net = CNN9(1, 3).eval()
    images, padded = torch.rand(2, 1, 8, 20), torch.zeros(2, 256, 7, 7)
    padded[:, :, :2, :5] = net.body(images)
    torch.testing.assert_close(net.features(images), net.last(padded)[:, :, 0, 0])


def test_dropout_is_validated() -> None:
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got 1"):
        CNN9(3, 10, dropout=1.0)
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got -0.1"):
        wide_resnet16_8(3, 10, dropout=-0.1)
    probabilities = [one.p for one in wide_resnet16_8(3, 10, dropout=0.1).modules() if isinstance(one, nn.Dropout)]
    assert probabilities == [0.1] * 6


def test_cnn7_takes_other_sizes() -> None:
    net = CNN7(3, 10).eval()
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(net.features(images), net.body(images).flatten(1))
    assert net.features(torch.rand(2, 3, 50, 70)).shape == (2, 256)
