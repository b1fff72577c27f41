"""What every built-in network promises, whatever its name."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from permll.networks import NETWORKS, build_network

IMAGES = [name for name, info in NETWORKS.items() if info.inputs == "images"]


def built(name: str, shape: tuple[int, ...] = (3, 16, 16), seed: int = 0) -> nn.Module:
    return build_network(name, input_shape=shape, num_classes=7, seed=seed)


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 33, 33), (4, 9, 17)])
@pytest.mark.parametrize("name", NETWORKS)
def test_images_of_any_size_become_logits(name: str, shape: tuple[int, int, int]) -> None:
    net = built(name, shape)
    assert net.training
    logits = net(torch.rand(2, *shape))
    assert logits.shape == (2, 7)
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_reach_every_parameter(name: str) -> None:
    net = built(name)
    cross_entropy(net(torch.randn(8, 3, 16, 16)), torch.arange(8) % 7).backward()
    for where, weights in net.named_parameters():
        assert weights.grad is not None, where
        assert weights.grad.isfinite().all(), where
        assert weights.grad.abs().max() > 1e-7, where


@pytest.mark.parametrize("name", NETWORKS)
def test_the_head_works_on_the_features(name: str) -> None:
    net = built(name).eval()
    images = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        features = net.features(images)  # type: ignore[operator]
        assert features.ndim == 2
        assert torch.equal(net.head(features), net(images))  # type: ignore[operator]


@pytest.mark.parametrize("name", NETWORKS)
def test_one_image_in_evaluation_is_as_one_of_many(name: str) -> None:
    net = built(name)
    images = torch.rand(4, 3, 16, 16)
    with torch.no_grad():
        net(images)  # moves the running statistics away from 0 and 1
        net.eval()
        torch.testing.assert_close(net(images[2:3]), net(images)[2:3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_channels_last_gives_the_same(name: str) -> None:
    net, images, labels = built(name), torch.rand(4, 3, 16, 16), torch.arange(4)
    other = copy.deepcopy(net).to(memory_format=torch.channels_last)

    def logits_and_gradient(net: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)  # for dropout
        logits = net(images)
        cross_entropy(logits, labels).backward()
        gradient = next(net.parameters()).grad
        assert gradient is not None
        return logits, gradient

    logits, gradient = logits_and_gradient(net, images)
    last = images.to(memory_format=torch.channels_last)
    other_logits, other_gradient = logits_and_gradient(other, last)
    torch.testing.assert_close(other_logits, logits, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(other_gradient, gradient, rtol=1e-2, atol=1e-2 * float(gradient.abs().max()))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_seed_decides_the_weights_and_nothing_else_does(name: str) -> None:
    torch.manual_seed(1)
    first = built(name)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = built(name)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(first, again)
    assert not same(first, built(name, seed=1))


def test_the_callers_device_does_not_come_into_it() -> None:
    plain = built("resnet8")
    with torch.device("meta"):
        other = built("resnet8")
    assert {weights.device.type for weights in other.parameters()} == {"cpu"}
    assert same(plain, other)


@pytest.mark.parametrize("name", IMAGES)
def test_what_a_network_is_called_finds_its_code(name: str) -> None:
    module, function = NETWORKS[name].build.split(":")
    assert NETWORKS[name].load().__module__ == module
    assert NETWORKS[name].load().__name__ == function
