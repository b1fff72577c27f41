"""Convolutional networks without shortcuts: a small one, and two that Co-teaching and later methods use on CIFAR.

Parameters for c classes of color images:

    cnn       93,472 + 129 c     32, 64, 128
    cnn9   4,431,232 + 129 c     Co-teaching: 3 x 128, 3 x 256, then 512, 256 and 128 without padding, mean
    cnn7     514,984 + 257 c     Co-teaching+ on CIFAR-100, JoCoR: 2 x 64, 2 x 128, 196 and 16
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d, pad

from permll.networks._layers import FeatureClassifier, check_widths, conv3x3, init_he_normal
from permll.utils.validation import check_range

MIN_SIZE = 7  # pixels that three convolutions without padding need


class SmallCNN(FeatureClassifier):
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
        return self.body(x).mean((2, 3))


class CNN9(FeatureClassifier):
    """Nine 3 x 3 convolutions with batch norm and LeakyReLU, and max pooling with channel dropout after three and six.

    Images that are too small for the last three convolutions are padded with zeros.

    Args:
        in_channels: 1 for grayscale images, 3 for color.
        num_classes: c.
        dropout: dropout probability of a channel.

    Examples:
        >>> import torch
        >>> CNN9(3, 10)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, in_channels: int, num_classes: int, dropout: float = 0.25) -> None:
        super().__init__()
        check_range("[0, 1)", dropout=dropout)
        layers: list[nn.Module] = []
        for width in (128, 256):
            for _ in range(3):
                layers += [conv3x3(in_channels, width), nn.BatchNorm2d(width), nn.LeakyReLU(0.01)]
                in_channels = width
            layers += [nn.MaxPool2d(2), nn.Dropout2d(dropout)]
        self.body = nn.Sequential(*layers)
        last: list[nn.Module] = []
        for width in (512, 256, 128):
            last += [nn.Conv2d(in_channels, width, 3, bias=False), nn.BatchNorm2d(width), nn.LeakyReLU(0.01)]
            in_channels = width
        self.last = nn.Sequential(*last)
        self.head = nn.Linear(in_channels, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, 128)."""
        body = self.body(x)
        right, bottom = (max(MIN_SIZE - size, 0) for size in (body.shape[3], body.shape[2]))
        if right or bottom:
            body = pad(body, (0, right, 0, bottom))
        return self.last(body).mean((2, 3))


class CNN7(FeatureClassifier):
    """Six 3 x 3 convolutions with batch norm and ReLU, max pooling after every two, and a linear head.

    The head has 16 channels of 4 x 4 pixels as inputs, as from 32 x 32 images; other sizes are max-pooled to it.

    Args:
        in_channels: 1 for grayscale images, 3 for color.
        num_classes: c.

    Examples:
        >>> import torch
        >>> CNN7(3, 10)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for widths in ((64, 64), (128, 128), (196, 16)):
            for width in widths:
                layers += [conv3x3(in_channels, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                in_channels = width
            layers.append(nn.MaxPool2d(2))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(16 * in_channels, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, 256)."""
        return adaptive_max_pool2d(self.body(x), 4).flatten(1)
