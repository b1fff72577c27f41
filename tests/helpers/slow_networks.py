"""Residual networks from their equations, with tensors only."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

State = Mapping[str, Tensor]


def randomize_weights(net: nn.Module) -> nn.Module:
    """Return ``net`` in double precision with random parameters and statistics."""
    net.double()
    for name, tensor in net.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.5 if "var" in name else 0.5 * torch.randn_like(tensor))
    return net


def conv(x: Tensor, weight: Tensor, stride: int = 1) -> Tensor:
    size = weight.shape[-1]
    height, width = x.shape[2:]
    padded = x.new_zeros(*x.shape[:2], height + size - 1, width + size - 1)
    border = size // 2
    padded[:, :, border : border + height, border : border + width] = x
    total = x.new_zeros(())
    for row in range(size):
        for column in range(size):
            window = padded[:, :, row : row + height : stride, column : column + width : stride]
            total = total + torch.einsum("bchw,oc->bohw", window, weight[:, :, row, column])
    return total


def norm(x: Tensor, state: State, name: str, training: bool) -> Tensor:
    mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    if training:
        mean = x.mean(dim=(0, 2, 3))
        variance = ((x - mean[:, None, None]) ** 2).mean(dim=(0, 2, 3))
    scale = state[f"{name}.weight"] / (variance + 1e-5) ** 0.5
    return (x - mean[:, None, None]) * scale[:, None, None] + state[f"{name}.bias"][:, None, None]


def relu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.0)


def post_block(x: Tensor, state: State, name: str, stride: int, training: bool) -> Tensor:
    first = relu(norm(conv(x, state[f"{name}.conv1.weight"], stride), state, f"{name}.bn1", training))
    second = norm(conv(first, state[f"{name}.conv2.weight"]), state, f"{name}.bn2", training)
    if f"{name}.shortcut.0.weight" in state:
        projected = conv(x, state[f"{name}.shortcut.0.weight"], stride)
        return relu(second + norm(projected, state, f"{name}.shortcut.1", training))
    return relu(second + x)


def pre_block(x: Tensor, state: State, name: str, stride: int, training: bool) -> Tensor:
    u = relu(norm(x, state, f"{name}.bn1", training))
    first = relu(norm(conv(u, state[f"{name}.conv1.weight"], stride), state, f"{name}.bn2", training))
    second = conv(first, state[f"{name}.conv2.weight"])
    if f"{name}.shortcut.weight" in state:
        return second + conv(u, state[f"{name}.shortcut.weight"], stride)
    return second + x


def dividemix_block(x: Tensor, state: State, name: str, stride: int, training: bool) -> Tensor:
    u = relu(norm(x, state, f"{name}.bn1", training))
    first = relu(norm(conv(u, state[f"{name}.conv1.weight"], stride), state, f"{name}.bn2", training))
    second = conv(first, state[f"{name}.conv2.weight"])
    if f"{name}.shortcut.weight" in state:
        return second + conv(u, state[f"{name}.shortcut.weight"], stride)
    return second + u


def two_stages(x: Tensor, state: State, block: Callable[..., Tensor], training: bool) -> Tensor:
    """Return one block, then two in a stage of half the size: all kinds of shortcuts."""
    x = block(x, state, "stages.0.0", 1, training)
    x = block(x, state, "stages.1.0", 2, training)
    return block(x, state, "stages.1.1", 1, training)


def head(x: Tensor, state: State) -> Tensor:
    return x.mean(dim=3).mean(dim=2) @ state["head.weight"].T + state["head.bias"]


def resnet(x: Tensor, state: State, training: bool) -> Tensor:
    x = relu(norm(conv(x, state["stem.0.weight"]), state, "stem.1", training))
    return head(two_stages(x, state, post_block, training), state)


def preact(x: Tensor, state: State, training: bool) -> Tensor:
    x = two_stages(conv(x, state["stem.0.weight"]), state, pre_block, training)
    return head(relu(norm(x, state, "last.0", training)), state)


def preact_dividemix(x: Tensor, state: State, training: bool) -> Tensor:
    x = relu(norm(conv(x, state["stem.0.weight"]), state, "stem.1", training))
    return head(two_stages(x, state, dividemix_block, training), state)
