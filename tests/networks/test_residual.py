"""Residual networks: equations, parameter counts and initialization."""

import pytest
import torch
from torch import Tensor, nn

from permll.networks import build_network
from permll.networks._layers import conv1x1, init_he_normal
from permll.networks.preact import PreActResNet
from permll.networks.resnet import ResNet
from tests.helpers import slow_networks

BLOCKS, WIDTHS = (1, 2), (4, 6)
FORMS = {
    "post": (lambda: ResNet(3, 5, BLOCKS, WIDTHS), slow_networks.resnet),
    "pre": (lambda: PreActResNet(3, 5, BLOCKS, WIDTHS), slow_networks.preact),
    "wide": (lambda: PreActResNet(3, 5, BLOCKS, WIDTHS, stem=3), slow_networks.preact),
    "pre, DivideMix": (lambda: PreActResNet(3, 5, BLOCKS, WIDTHS, dividemix=True), slow_networks.preact_dividemix),
}


@pytest.mark.parametrize("size", [(8, 8), (7, 10)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_residual_forward_matches_equations(form: str, training: bool, size: tuple[int, int]) -> None:
    build, expected = FORMS[form]
    net = slow_networks.randomize_weights(build()).train(training)
    images = torch.randn(3, 3, *size, dtype=torch.float64)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}  # training updates running statistics
    torch.testing.assert_close(net(images), expected(images, state, training))


@pytest.mark.parametrize("form", FORMS)
def test_residual_gradients_match_equations(form: str) -> None:
    build, expected = FORMS[form]
    net = slow_networks.randomize_weights(build())
    images = torch.randn(3, 3, 8, 8, dtype=torch.float64)
    weights = dict(net.named_parameters())
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()} | weights
    actual = torch.autograd.grad(net(images).square().sum(), list(weights.values()))
    manual = torch.autograd.grad(expected(images, state, True).square().sum(), list(weights.values()))
    torch.testing.assert_close(actual, manual)


def test_preact_forms_differ_in_norm_layers() -> None:
    standard, other = (dict(FORMS[form][0]().named_parameters()) for form in ("pre", "pre, DivideMix"))
    assert standard.keys() - other.keys() == {"last.0.weight", "last.0.bias"}
    assert other.keys() - standard.keys() == {"stem.1.weight", "stem.1.bias"}


@pytest.mark.parametrize(
    ("name", "ten", "per_class"),
    [
        ("cnn", 94_762, 129),
        ("resnet8", 78_042, 65),
        ("resnet32", 466_906, 65),
        ("resnet18", 11_173_962, 513),
        ("resnet34", 21_282_122, 513),
        ("preact_resnet18", 11_172_170, 513),
        ("preact_resnet18_dividemix", 11_171_274, 513),
        ("preact_resnet32", 466_714, 65),
        ("wide_resnet16_8", 10_961_370, 513),
        ("cnn7", 517_554, 257),
        ("cnn9", 4_432_522, 129),
    ],
)
def test_network_parameter_count(name: str, ten: int, per_class: int) -> None:
    for num_classes in (10, 14):
        net = build_network(name, input_shape=(3, 32, 32), num_classes=num_classes, seed=0)
        assert sum(weights.numel() for weights in net.parameters()) == ten + (num_classes - 10) * per_class


@pytest.mark.parametrize(("name", "layers"), [("resnet8", 8), ("resnet32", 32), ("preact_resnet32", 32)])
def test_resnet_name_is_number_of_layers(name: str, layers: int) -> None:
    net = build_network(name, input_shape=(3, 32, 32), num_classes=10, seed=0)
    convolutions = [one for one in net.modules() if isinstance(one, nn.Conv2d) and one.kernel_size == (3, 3)]
    assert len(convolutions) + 1 == layers


def weight_stds(net: nn.Module) -> list[tuple[Tensor, float]]:
    """Return the actual and the expected standard deviation of each large convolution."""
    large = [one for one in net.modules() if isinstance(one, nn.Conv2d) and one.weight.numel() > 10_000]
    assert large
    return [(one.weight.detach().std(), (2 / (one.out_channels * one.kernel_size[0] ** 2)) ** 0.5) for one in large]


@pytest.mark.parametrize("name", ["cnn", "resnet32", "preact_resnet32"])
def test_convolutions_have_he_initialization(name: str) -> None:
    net = build_network(name, input_shape=(3, 32, 32), num_classes=10, seed=0)
    for actual, expected in weight_stds(net):
        assert float(actual) == pytest.approx(expected, rel=0.05)


def test_dividemix_form_has_torch_initialization() -> None:
    net = build_network("preact_resnet18_dividemix", input_shape=(3, 32, 32), num_classes=10, seed=0)
    for one in net.modules():
        if isinstance(one, nn.Conv2d):
            fan_in = one.in_channels * one.kernel_size[0] ** 2
            assert float(one.weight.detach().abs().max()) <= fan_in**-0.5  # uniform in ± 1 / sqrt(fan in)


def test_he_normal_uses_output_channels() -> None:
    net = conv1x1(10, 1000)
    init_he_normal(net)
    assert float(net.weight.detach().std()) == pytest.approx((2 / 1000) ** 0.5, rel=0.05)
