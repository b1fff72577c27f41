"""A small convolutional network for small images."""

from collections.abc import Sequence

from torch import Tensor, nn

from permll.networks._layers import check_widths, conv3x3, global_average_pool, init_he_normal


class SmallCNN(nn.Module):
    """A 3 x 3 convolution, batch norm and ReLU for each width, with max pooling in between; then mean and head.

    At the default widths an 8 x 8 image has 2 x 2 positions at the end. Images may have any larger size.

    Args:
        in_channels: 1 for grayscale images, 3 for color.
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
        for width in check_widths(widths, 1):
            if layers:
                layers.append(nn.MaxPool2d(2, ceil_mode=True))  # keeps the last row of an odd image
            layers += [conv3x3(in_channels, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            in_channels = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(in_channels, num_classes)
        init_he_normal(self)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, last width)."""
        return global_average_pool(self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, c) of images (B, C, H, W)."""
        return self.head(self.features(x))
