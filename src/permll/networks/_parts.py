"""What residual networks and small ones share: convolutions, rows of blocks, and how their weights start."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3 x 3 convolution that keeps the size at stride 1; without a bias, for batch norm has one."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


def conv1x1(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """Return a 1 x 1 convolution without a bias: the projection of a shortcut."""
    return nn.Conv2d(inputs, outputs, 1, stride, bias=False)


def stages(
    block: Callable[[int, int, int], nn.Module], blocks: Sequence[int], widths: Sequence[int], inputs: int | None = None
) -> list[nn.Sequential]:
    """Return one row of blocks for each width; each stage but the first begins with a block of stride 2.

    Args:
        block: makes a block of (channels in, channels out, stride).
        blocks: how many blocks each stage has.
        widths: how many channels each stage has.
        inputs: how many the first stage takes; default as many as it has.

    Examples:
        >>> [len(stage) for stage in stages(conv3x3, (2, 3), (16, 32))]
        [2, 3]
    """
    rows = []
    inputs = widths[0] if inputs is None else inputs
    for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
        first = block(inputs, width, 1 if number == 0 else 2)
        rows.append(nn.Sequential(first, *(block(width, width, 1) for _ in range(count - 1))))
        inputs = width
    return rows


def he_normal(net: nn.Module) -> None:
    """Draw the convolutions of ``net`` anew from N(0, 2 / (k² · channels out)), after He et al. (2015).

    That variance keeps the size of gradients through ReLUs. Batch norm and linear layers keep torch's start.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def pooled(x: Tensor) -> Tensor:
    """Return the mean (B, C) of each channel of (B, C, H, W), whatever H and W are."""
    return x.mean(dim=(2, 3))


def read_widths(widths: Sequence[int], least: int) -> tuple[int, ...]:
    """Return ``widths``, checked: at least so many of them, each a whole number from 1.

    Examples:
        >>> read_widths([32, 64], 1)
        (32, 64)
    """
    several = isinstance(widths, Sequence) and not isinstance(widths, str)
    if not several or len(widths) < least or not all(isinstance(w, int) and w >= 1 for w in widths):
        number = f", at least {least} of them" if least else ""
        raise ValueError(f"widths must be a list of whole numbers from 1{number}; got {widths!r}.")
    return tuple(widths)
