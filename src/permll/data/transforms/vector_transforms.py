"""Transforms of feature vectors and encoded tables."""

from dataclasses import dataclass

from torch import Tensor

from permll.data.transforms.counter_rng import fold_in, normal, uniform


@dataclass(frozen=True, eq=False)
class Standardize:
    """(value - mean) / std per column; mean and std are (F,)."""

    mean: Tensor
    std: Tensor

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG002
        """Return float32 (B, F)."""
        return (batch - self.mean.to(batch.device)) / self.std.to(batch.device)


@dataclass(frozen=True)
class GaussianNoise:
    """Additive Gaussian noise of standard deviation ``std``, for standardized values."""

    std: float

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with noise."""
        noise = normal(keys, batch[0].numel() if len(batch) else 0).view_as(batch)
        return batch + self.std * noise.to(batch.device)


@dataclass(frozen=True, eq=False)
class FeatureDropout:
    """Sets each feature to 0, the mean of standardized values, with probability ``p``.

    Args:
        p: probability in [0, 1).
        features: (F,) index of the feature of each column; columns of one feature are dropped together.
    """

    p: float
    features: Tensor | None = None

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with some features set to 0."""
        count = batch.shape[1] if self.features is None else int(self.features.max()) + 1
        dropped = uniform(fold_in(keys, 0), count) < self.p
        if self.features is not None:
            dropped = dropped[:, self.features.cpu()]
        return batch.masked_fill(dropped.to(batch.device), 0.0)
