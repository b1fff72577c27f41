"""Steps of the views of vectors and encoded tables: noise on every value, and features that go missing."""

from dataclasses import dataclass

from torch import Tensor

from permll.data.transforms.counter_rng import fold, normal, uniform


@dataclass(frozen=True, eq=False)
class Standardize:
    """(value - mean) / std, column by column; mean and std are (F,)."""

    mean: Tensor
    std: Tensor

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG002
        """Return float32 (B, F)."""
        return (batch - self.mean.to(batch.device)) / self.std.to(batch.device)


@dataclass(frozen=True)
class Jitter:
    """Normal noise of standard deviation ``std`` on every value: give it standardised values."""

    std: float

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with noise."""
        noise = normal(keys, batch[0].numel() if len(batch) else 0).view_as(batch)
        return batch + self.std * noise.to(batch.device)


@dataclass(frozen=True, eq=False)
class Drop:
    """Each feature is set to 0, the mean of standardised values, with probability ``chance``.

    Args:
        chance: in [0, 1).
        features: (F,) which feature each column belongs to; columns of one feature go together.
    """

    chance: float
    features: Tensor | None = None

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with some features gone."""
        count = batch.shape[1] if self.features is None else int(self.features.max()) + 1
        gone = uniform(fold(keys, 0), count) < self.chance
        if self.features is not None:
            gone = gone[:, self.features.cpu()]
        return batch.masked_fill(gone.to(batch.device), 0.0)
