"""Parts of the built-in networks, and their initialization."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn


class FeatureClassifier(nn.Module):
    """Base of the built-in networks: ``features``, then a linear ``head``."""

    head: nn.Linear

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, d)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, c)."""
        return self.head(self.features(x))


def conv3x3(in_channels: int, out_channels: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3 x 3 convolution with padding 1 and without bias, which batch norm has."""
    return nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)


def conv1x1(in_channels: int, out_channels: int, stride: int = 1) -> nn.Conv2d:
    """Return a 1 x 1 convolution without bias: the projection of a shortcut."""
    return nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)


def build_stages(
    block: Callable[[int, int, int], nn.Module],
    blocks: Sequence[int],
    widths: Sequence[int],
    in_channels: int | None = None,
) -> list[nn.Sequential]:
    """Return one sequence of blocks for each width; every stage but the first starts with a block of stride 2.

    Args:
        block: (input channels, output channels, stride) -> block.
        blocks: number of blocks of each stage.
        widths: channels of each stage.
        in_channels: input channels of the first stage; default its width.

    Examples:
        >>> [len(stage) for stage in build_stages(conv3x3, (2, 3), (16, 32))]
        [2, 3]
    """
    stages = []
    channels = widths[0] if in_channels is None else in_channels
    for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
        first = block(channels, width, 1 if number == 0 else 2)
        stages.append(nn.Sequential(first, *(block(width, width, 1) for _ in range(count - 1))))
        channels = width
    return stages


def init_he_normal(net: nn.Module) -> None:
    """Initialize the convolutions of ``net`` from N(0, 2 / (k² · output channels)), after He et al. (2015).

    This variance preserves the scale of gradients through ReLUs. Batch norm and linear layers keep torch's defaults.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def check_widths(widths: Sequence[int], min_count: int) -> tuple[int, ...]:
    """Return ``widths``; raise ValueError unless they are at least ``min_count`` integers >= 1.

    Examples:
        >>> check_widths([32, 64], 1)
        (32, 64)
    """
    is_sequence = isinstance(widths, Sequence) and not isinstance(widths, str)
    if not is_sequence or len(widths) < min_count or not all(isinstance(w, int) and w >= 1 for w in widths):
        count = f", at least {min_count} of them" if min_count else ""
        raise ValueError(f"widths must be a list of integers >= 1{count}; got {widths!r}.")
    return tuple(widths)
