"""Residual networks for small images (He et al., 2016): 3 x 3 stem of stride 1, no max pooling, ReLU after each sum.

Parameters for c classes of color images:

    resnet8       77,392 +  65 c        widths 16, 32, 64          1 block per stage
    resnet32     466,256 +  65 c        widths 16, 32, 64          5 blocks per stage
    resnet18  11,168,832 + 513 c        widths 64, 128, 256, 512   2, 2, 2, 2 blocks
    resnet34  21,276,992 + 513 c        widths 64, 128, 256, 512   3, 4, 6, 3 blocks

A shortcut that changes the shape is a 1 x 1 convolution with batch norm. The paper's ResNet-32 pads with zeros instead,
which saves 2,752 parameters.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import relu

from permll.networks._layers import FeatureClassifier, build_stages, conv1x1, conv3x3, init_he_normal

THIN = (16, 32, 64)
WIDE = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """relu(bn(conv(relu(bn(conv(x))))) + shortcut(x))."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(in_channels, out_channels, stride), nn.BatchNorm2d(out_channels)
        self.conv2, self.bn2 = conv3x3(out_channels, out_channels), nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(conv1x1(in_channels, out_channels, stride), nn.BatchNorm2d(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        inner = relu(self.bn1(self.conv1(x)), inplace=True)
        return relu(self.bn2(self.conv2(inner)) + self.shortcut(x), inplace=True)


class ResNet(FeatureClassifier):
    """Stem, stages of ``BasicBlock``, global average pooling, linear head.

    Args:
        in_channels: 1 for grayscale images, 3 for color.
        num_classes: c.
        blocks: number of blocks of each stage.
        widths: channels of each stage.
    """

    def __init__(self, in_channels: int, num_classes: int, blocks: Sequence[int], widths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv3x3(in_channels, widths[0]), nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True))
        self.stages = nn.Sequential(*build_stages(BasicBlock, blocks, widths))
        self.head = nn.Linear(widths[-1], num_classes)
        init_he_normal(self)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, last width)."""
        return self.stages(self.stem(x)).mean((2, 3))


def resnet8(in_channels: int, num_classes: int) -> ResNet:
    """Return a thin ResNet-8 with 78,042 parameters for ten classes of color images.

    Examples:
        >>> sum(p.numel() for p in resnet8(3, 10).parameters())
        78042
    """
    return ResNet(in_channels, num_classes, (1, 1, 1), THIN)


def resnet32(in_channels: int, num_classes: int) -> ResNet:
    """Return a thin ResNet-32 with 466,906 parameters for ten classes of color images."""
    return ResNet(in_channels, num_classes, (5, 5, 5), THIN)


def resnet18(in_channels: int, num_classes: int) -> ResNet:
    """Return a ResNet-18 for CIFAR with 11,173,962 parameters for ten classes of color images."""
    return ResNet(in_channels, num_classes, (2, 2, 2, 2), WIDE)


def resnet34(in_channels: int, num_classes: int) -> ResNet:
    """Return a ResNet-34 for CIFAR with 21,282,122 parameters for ten classes of color images."""
    return ResNet(in_channels, num_classes, (3, 4, 6, 3), WIDE)
