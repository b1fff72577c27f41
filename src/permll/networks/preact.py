"""Pre-activation residual networks (He et al., 2016b), in the two forms in use.

Both have the block u = relu(bn(x)), y = conv(relu(bn(conv(u)))) + shortcut. A shortcut that changes the shape is a
1 x 1 convolution of u, without batch norm. The forms differ in three places:

                                   standard        DivideMix's code
    after the stem                 nothing         batch norm, ReLU
    shortcut of the same shape     x               u
    before the mean                bn, ReLU        nothing

The standard form has identity shortcuts from the stem to the head; DivideMix's form does not, and its features are not
normalized. Papers with a "PreAct ResNet-18" often use DivideMix's form. It has torch's default initialization, as in
that code; the standard form is initialized by ``init_he_normal``.

A wide network (Zagoruyko and Komodakis, 2016) has the standard form, with few blocks of many channels after a narrow
stem, and dropout before the second convolution of each block.

Parameters for c classes of color images:

    preact_resnet18             11,167,040 + 513 c
    preact_resnet18_dividemix   11,166,144 + 513 c
    preact_resnet32                466,064 +  65 c
    wide_resnet16_8             10,956,240 + 513 c
"""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import relu

from permll.networks._layers import FeatureClassifier, build_stages, conv1x1, conv3x3, init_he_normal
from permll.networks.resnet import THIN, WIDE
from permll.utils.validation import check_range


class PreActBlock(nn.Module):
    """conv(relu(bn(conv(u)))) + shortcut with u = relu(bn(x)).

    Args:
        in_channels: input channels.
        out_channels: output channels.
        stride: stride of the first convolution and of the shortcut.
        activated_shortcut: whether a shortcut of the same shape is u instead of x.
        dropout: dropout probability before the second convolution.
    """

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, activated_shortcut: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(in_channels), conv3x3(in_channels, out_channels, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(out_channels), conv3x3(out_channels, out_channels)
        changes_shape = stride != 1 or in_channels != out_channels
        self.shortcut: nn.Module = conv1x1(in_channels, out_channels, stride) if changes_shape else nn.Identity()
        self.activated_shortcut = changes_shape or activated_shortcut
        self.dropout: nn.Module = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        u = relu(self.bn1(x), inplace=True)
        inner = relu(self.bn2(self.conv1(u)), inplace=True)
        return self.conv2(self.dropout(inner)) + self.shortcut(u if self.activated_shortcut else x)


class PreActResNet(FeatureClassifier):
    """Stem, stages of ``PreActBlock``, global average pooling, linear head.

    Args:
        in_channels: 1 for grayscale images, 3 for color.
        num_classes: c.
        blocks: number of blocks of each stage.
        widths: channels of each stage.
        dividemix: whether to use the form of DivideMix's code instead of the standard one.
        stem: channels of the stem; default those of the first stage.
        dropout: dropout probability inside a block.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        blocks: Sequence[int],
        widths: Sequence[int],
        dividemix: bool = False,
        stem: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_range("[0, 1)", dropout=dropout)
        width = widths[0] if stem is None else stem
        self.stem = nn.Sequential(conv3x3(in_channels, width), *(_activation(width) if dividemix else []))
        block = partial(PreActBlock, activated_shortcut=dividemix, dropout=dropout)
        self.stages = nn.Sequential(*build_stages(block, blocks, widths, width))
        self.last = nn.Identity() if dividemix else nn.Sequential(*_activation(widths[-1]))
        self.head = nn.Linear(widths[-1], num_classes)
        if not dividemix:
            init_he_normal(self)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, last width)."""
        return self.last(self.stages(self.stem(x))).mean((2, 3))


def preact_resnet18(in_channels: int, num_classes: int) -> PreActResNet:
    """Return the standard PreAct ResNet-18 with 11,172,170 parameters for ten classes of color images."""
    return PreActResNet(in_channels, num_classes, (2, 2, 2, 2), WIDE)


def preact_resnet18_dividemix(in_channels: int, num_classes: int) -> PreActResNet:
    """Return DivideMix's PreAct ResNet-18 with 11,171,274 parameters for ten classes of color images."""
    return PreActResNet(in_channels, num_classes, (2, 2, 2, 2), WIDE, dividemix=True)


def preact_resnet32(in_channels: int, num_classes: int) -> PreActResNet:
    """Return a thin standard PreAct ResNet-32 with 466,714 parameters for ten classes of color images.

    Examples:
        >>> sum(p.numel() for p in preact_resnet32(3, 10).parameters())
        466714
    """
    return PreActResNet(in_channels, num_classes, (5, 5, 5), THIN)


def wide_resnet16_8(in_channels: int, num_classes: int, dropout: float = 0.0) -> PreActResNet:
    """Return WRN-16-8 with 10,961,370 parameters for ten classes of color images.

    Examples:
        >>> sum(p.numel() for p in wide_resnet16_8(3, 10).parameters())
        10961370
    """
    return PreActResNet(in_channels, num_classes, (2, 2, 2), (128, 256, 512), stem=16, dropout=dropout)


def _activation(width: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
