"""Residual networks for small images (He et al., 2016): 3 x 3 stem of stride 1, no max-pool, ReLU after each sum.

With c classes and colour images they have so many parameters:

    resnet8       77,392 +  65 c        widths 16, 32, 64          1 block per stage
    resnet32     466,256 +  65 c        widths 16, 32, 64          5 blocks per stage
    resnet18  11,168,832 + 513 c        widths 64, 128, 256, 512   2, 2, 2, 2 blocks
    resnet34  21,276,992 + 513 c        widths 64, 128, 256, 512   3, 4, 6, 3 blocks

Where its shape changes, a shortcut is a 1 x 1 convolution with batch norm. The paper's own ResNet-32 pads with zeros
there, which saves 2,752 parameters.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import relu

from permll.networks._parts import conv1x1, conv3x3, he_normal, pooled, stages

THIN = (16, 32, 64)
WIDE = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """relu(bn(conv(relu(bn(conv(x))))) + shortcut(x))."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, outputs, ⌈H / stride⌉, ⌈W / stride⌉)."""
        inner = relu(self.bn1(self.conv1(x)), inplace=True)
        return relu(self.bn2(self.conv2(inner)) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """Stem, stages of ``BasicBlock``, mean over the image, head.

    Args:
        in_channels: 1 for grey images, 3 for colour.
        num_classes: c.
        blocks: how many blocks each stage has.
        widths: how many channels each stage has.
    """

    def __init__(self, in_channels: int, num_classes: int, blocks: Sequence[int], widths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv3x3(in_channels, widths[0]), nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True))
        self.stages = nn.Sequential(*stages(BasicBlock, blocks, widths))
        self.head = nn.Linear(widths[-1], num_classes)
        he_normal(self)

    def features(self, x: Tensor) -> Tensor:
        """Return what the head sees: (B, last width)."""
        return pooled(self.stages(self.stem(x)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, c) of images (B, C, H, W)."""
        return self.head(self.features(x))


def resnet8(in_channels: int, num_classes: int) -> ResNet:
    """Return the smallest: 78,042 parameters for ten classes of colour images.

    Examples:
        >>> sum(p.numel() for p in resnet8(3, 10).parameters())
        78042
    """
    return ResNet(in_channels, num_classes, (1, 1, 1), THIN)


def resnet32(in_channels: int, num_classes: int) -> ResNet:
    """Return the thin, deep one: 466,906 parameters for ten classes of colour images."""
    return ResNet(in_channels, num_classes, (5, 5, 5), THIN)


def resnet18(in_channels: int, num_classes: int) -> ResNet:
    """Return the usual ResNet-18 for CIFAR: 11,173,962 parameters for ten classes of colour images."""
    return ResNet(in_channels, num_classes, (2, 2, 2, 2), WIDE)


def resnet34(in_channels: int, num_classes: int) -> ResNet:
    """Return the usual ResNet-34 for CIFAR: 21,282,122 parameters for ten classes of colour images."""
    return ResNet(in_channels, num_classes, (3, 4, 6, 3), WIDE)
