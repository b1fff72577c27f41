"""Residual networks with batch norm and ReLU before each convolution (He et al., 2016b), in the two forms in use.

Both have the block u = relu(bn(x)), y = conv(relu(bn(conv(u)))) + shortcut, and where the shape changes the shortcut is
a 1 x 1 convolution of u, without batch norm. They differ in three places:

                                   standard        DivideMix's code
    after the stem                 nothing         batch norm, ReLU
    shortcut of the same shape     x               u
    before the mean                bn, ReLU        nothing

So in the standard form an unbroken sum runs from the stem to the head; in the other one it does not, and its features
are as large as its weights make them. Papers that say "PreAct ResNet-18" often ran the second. Its weights start as
torch's convolutions do, as there; those of the standard form as ``he_normal`` draws them.

A wide network (Zagoruyko and Komodakis, 2016) is of the standard form, with few blocks of many channels after a narrow
stem, and dropout before the second convolution of each block.

With c classes and colour images they have so many parameters:

    preact_resnet18             11,167,040 + 513 c
    preact_resnet18_dividemix   11,166,144 + 513 c
    preact_resnet32                466,064 +  65 c
    wide_resnet16_8             10,956,240 + 513 c
"""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import relu

from permll.networks._parts import conv1x1, conv3x3, he_normal, pooled, stages
from permll.networks.resnet import THIN, WIDE


class PreActBlock(nn.Module):
    """conv(relu(bn(conv(u)))) + shortcut with u = relu(bn(x)).

    Args:
        inputs: channels in.
        outputs: channels out.
        stride: of the first convolution and of the shortcut.
        activated_shortcut: a shortcut of the same shape is u instead of x.
        dropout: the probability that a value is dropped before the second convolution.
    """

    def __init__(
        self, inputs: int, outputs: int, stride: int, activated_shortcut: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv3x3(inputs, outputs, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv3x3(outputs, outputs)
        changes = stride != 1 or inputs != outputs
        self.shortcut: nn.Module = conv1x1(inputs, outputs, stride) if changes else nn.Identity()
        self.activated_shortcut = changes or activated_shortcut
        self.dropout: nn.Module = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, outputs, ⌈H / stride⌉, ⌈W / stride⌉)."""
        u = relu(self.bn1(x), inplace=True)
        inner = relu(self.bn2(self.conv1(u)), inplace=True)
        return self.conv2(self.dropout(inner)) + self.shortcut(u if self.activated_shortcut else x)


class PreActResNet(nn.Module):
    """Stem, stages of ``PreActBlock``, mean over the image, head.

    Args:
        in_channels: 1 for grey images, 3 for colour.
        num_classes: c.
        blocks: how many blocks each stage has.
        widths: how many channels each stage has.
        dividemix: the form of DivideMix's code instead of the standard one.
        stem: channels of the stem; default those of the first stage.
        dropout: the probability that a value is dropped inside a block.
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
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}.")
        width = widths[0] if stem is None else stem
        first, last = conv3x3(in_channels, width), _activation(widths[-1])
        self.stem = nn.Sequential(first, *_activation(width)) if dividemix else nn.Sequential(first)
        block = partial(PreActBlock, activated_shortcut=dividemix, dropout=dropout)
        self.stages = nn.Sequential(*stages(block, blocks, widths, width))
        self.last = nn.Identity() if dividemix else nn.Sequential(*last)
        self.head = nn.Linear(widths[-1], num_classes)
        if not dividemix:
            he_normal(self)

    def features(self, x: Tensor) -> Tensor:
        """Return what the head sees: (B, last width)."""
        return pooled(self.last(self.stages(self.stem(x))))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, c) of images (B, C, H, W)."""
        return self.head(self.features(x))


def preact_resnet18(in_channels: int, num_classes: int) -> PreActResNet:
    """Return the standard form: 11,172,170 parameters for ten classes of colour images."""
    return PreActResNet(in_channels, num_classes, (2, 2, 2, 2), WIDE)


def preact_resnet18_dividemix(in_channels: int, num_classes: int) -> PreActResNet:
    """Return the form of DivideMix's code: 11,171,274 parameters for ten classes of colour images."""
    return PreActResNet(in_channels, num_classes, (2, 2, 2, 2), WIDE, dividemix=True)


def preact_resnet32(in_channels: int, num_classes: int) -> PreActResNet:
    """Return the thin, deep one, standard form: 466,714 parameters for ten classes of colour images.

    Examples:
        >>> sum(p.numel() for p in preact_resnet32(3, 10).parameters())
        466714
    """
    return PreActResNet(in_channels, num_classes, (5, 5, 5), THIN)


def wide_resnet16_8(in_channels: int, num_classes: int, dropout: float = 0.0) -> PreActResNet:
    """Return WRN-16-8: 10,961,370 parameters for ten classes of colour images.

    Examples:
        >>> sum(p.numel() for p in wide_resnet16_8(3, 10).parameters())
        10961370
    """
    return PreActResNet(in_channels, num_classes, (2, 2, 2), (128, 256, 512), stem=16, dropout=dropout)


def _activation(width: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
