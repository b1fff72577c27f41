"""Contract of all built-in networks."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from permll.networks import NETWORKS, build_network

IMAGE_NETWORKS = [name for name, info in NETWORKS.items() if info.inputs == "images"]


def build(name: str, shape: tuple[int, ...] = (3, 16, 16), seed: int = 0) -> nn.Module:
    return build_network(name, input_shape=shape, num_classes=7, seed=seed)


def weights_equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 33, 33), (4, 9, 17)])
@pytest.mark.parametrize("name", NETWORKS)
def test_network_takes_images_of_any_size(name: str, shape: tuple[int, int, int]) -> None:
    net = build(name, shape)
    assert net.training
    logits = net(torch.rand(2, *shape))
    assert logits.shape == (2, 7)
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", NETWORKS)
def test_network_has_gradients_for_all_parameters(name: str) -> None:
    net = build(name)
    cross_entropy(net(torch.randn(8, 3, 16, 16)), torch.arange(8) % 7).backward()
    for key, weights in net.named_parameters():
        assert weights.grad is not None, key
        assert weights.grad.isfinite().all(), key
        assert weights.grad.abs().max() > 1e-7, key


@pytest.mark.parametrize("name", NETWORKS)
def test_network_head_takes_features(name: str) -> None:
    net = build(name).eval()
    images = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        features = net.features(images)  # type: ignore[operator]
        assert features.ndim == 2
        assert torch.equal(net.head(features), net(images))  # type: ignore[operator]


@pytest.mark.parametrize("name", NETWORKS)
def test_network_evaluation_is_independent_of_batch(name: str) -> None:
    net = build(name)
    images = torch.rand(4, 3, 16, 16)
    with torch.no_grad():
        net(images)  # updates the running statistics
        net.eval()
        torch.testing.assert_close(net(images[2:3]), net(images)[2:3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_network_supports_channels_last(name: str) -> None:
    net, images, labels = build(name), torch.rand(4, 3, 16, 16), torch.arange(4)
    other = copy.deepcopy(net).to(memory_format=torch.channels_last)

    def logits_and_gradient(net: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)  # for dropout
        logits = net(images)
        cross_entropy(logits, labels).backward()
        gradient = next(net.parameters()).grad
        assert gradient is not None
        return logits, gradient

    logits, gradient = logits_and_gradient(net, images)
    other_logits, other_gradient = logits_and_gradient(other, images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(other_logits, logits, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(other_gradient, gradient, rtol=1e-2, atol=1e-2 * float(gradient.abs().max()))


@pytest.mark.parametrize("name", NETWORKS)
def test_network_weights_depend_on_seed_only(name: str) -> None:
    torch.manual_seed(1)
    first = build(name)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = build(name)
    assert torch.equal(torch.get_rng_state(), before)
    assert weights_equal(first, again)
    assert not weights_equal(first, build(name, seed=1))


def test_network_ignores_default_device() -> None:
    plain = build("resnet8")
    with torch.device("meta"):
        other = build("resnet8")
    assert {weights.device.type for weights in other.parameters()} == {"cpu"}
    assert weights_equal(plain, other)


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_network_import_path_is_canonical(name: str) -> None:
    module, function = NETWORKS[name].import_path.split(":")
    assert NETWORKS[name].load().__module__ == module
    assert NETWORKS[name].load().__name__ == function
