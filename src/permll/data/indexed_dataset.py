"""``IndexedDataset``: a PyTorch dataset whose samples carry their index."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset


class IndexedDataset(Dataset[Any]):
    """A map-style dataset that adds the index to every sample, for ``PermutationLayer`` and other per-sample losses.

    A tuple or list gets the index as its last element, a mapping under the key ``"index"``, any other sample becomes
    the pair (sample, index).

    Args:
        dataset: a map-style dataset.

    Examples:
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> dataset = IndexedDataset(TensorDataset(torch.tensor([1.0, 2.0]), torch.tensor([0, 1])))
        >>> dataset[1]
        (tensor(2.), tensor(1), 1)
        >>> IndexedDataset([{"text": "good", "label": 1}])[0]
        {'text': 'good', 'label': 1, 'index': 0}
    """

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(f"IndexedDataset needs a map-style dataset, with a length; got {type(dataset).__name__}.")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        """Return the sample at a position, with its index."""
        sample = self.dataset[index]
        index = range(len(self))[index]  # of a negative position, the one it stands for
        if isinstance(sample, Mapping):
            return {**sample, "index": index}
        return (*sample, index) if isinstance(sample, tuple | list) else (sample, index)
