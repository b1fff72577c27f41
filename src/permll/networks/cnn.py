"""The small convolutional network, for small images and short waits."""

from collections.abc import Sequence

from torch import Tensor, nn

from permll.networks._parts import conv3x3, he_normal, pooled, read_widths


class SmallCNN(nn.Module):
    """A 3 x 3 convolution, batch norm and ReLU for each of ``widths``, halving the image in between; mean, head.

    At the default widths an 8 x 8 image is still 2 x 2 at the end. Larger images of any size will do.

    Args:
        in_channels: 1 for grey images, 3 for colour.
        num_classes: c.
        widths: channels of each convolution.

    Examples:
        >>> import torch
        >>> SmallCNN(1, 10)(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(self, in_channels: int, num_classes: int, widths: Sequence[int] = (32, 64, 128)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in read_widths(widths, 1):
            if layers:
                layers.append(nn.MaxPool2d(2, ceil_mode=True))  # the last row of an odd image counts too
            layers += [conv3x3(in_channels, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            in_channels = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(in_channels, num_classes)
        he_normal(self)

    def features(self, x: Tensor) -> Tensor:
        """Return what the head sees: (B, last width)."""
        return pooled(self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, c) of images (B, C, H, W)."""
        return self.head(self.features(x))
