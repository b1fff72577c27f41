"""The MLP and the small convolutional network: their options, and what they do with them."""

import pytest
import torch
from torch import nn

from permll.networks.cnn import SmallCNN
from permll.networks.mlp import MLP


def kinds(net: nn.Module) -> list[str]:
    return [type(one).__name__ for one in net.modules() if not list(one.children()) and one is not net]


def test_mlp_layers() -> None:
    assert kinds(MLP(4, 3)) == ["Linear", "BatchNorm1d", "ReLU"] * 2 + ["Linear"]
    assert kinds(MLP(4, 3, widths=[8], batch_norm=False, dropout=0.5)) == ["Linear", "ReLU", "Dropout", "Linear"]


def test_mlp_is_its_formula() -> None:
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


def test_mlp_flattens_in_the_order_of_the_axes_not_of_memory() -> None:
    net = MLP(3 * 4 * 4, 3).eval()
    images = torch.rand(2, 3, 4, 4)
    assert torch.equal(net(images.to(memory_format=torch.channels_last)), net(images.reshape(2, -1)))


def test_dropout_only_in_training() -> None:
    net, x = MLP(4, 3, widths=(64,), batch_norm=False, dropout=0.5), torch.rand(2, 4)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


def test_small_cnn_layers() -> None:
    stage = ["Conv2d", "BatchNorm2d", "ReLU"]
    assert kinds(SmallCNN(1, 3)) == [*stage, "MaxPool2d", *stage, "MaxPool2d", *stage, "Linear"]
    assert SmallCNN(1, 3, widths=(8, 24)).head.in_features == 24


@pytest.mark.parametrize(("size", "last"), [(8, 2), (9, 3), (28, 7), (33, 9)])
def test_small_cnn_halves_the_image_twice_and_keeps_odd_borders(size: int, last: int) -> None:
    assert SmallCNN(3, 3).body(torch.rand(2, 3, size, size)).shape == (2, 128, last, last)
