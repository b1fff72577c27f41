"""Datasets, readers of user data, transforms and batch streams."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.data import transforms as transforms
    from permll.data.dataset import LabeledData as LabeledData
    from permll.data.encoding import encode as encode
    from permll.data.inputs import Images as Images
    from permll.data.inputs import Inputs as Inputs
    from permll.data.inputs import Items as Items
    from permll.data.inputs import LazyImages as LazyImages
    from permll.data.inputs import Table as Table
    from permll.data.inputs import Texts as Texts
    from permll.data.inputs import Vectors as Vectors
    from permll.data.loading import load as load
    from permll.data.splits import split as split
    from permll.data.streams import Batch as Batch
    from permll.data.streams import Stream as Stream

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "encoding": ("encode",),
        "inputs": ("Images", "Inputs", "Items", "LazyImages", "Table", "Texts", "Vectors"),
        "loading": ("load",),
        "dataset": ("LabeledData",),
        "splits": ("split",),
        "streams": ("Batch", "Stream"),
        "transforms": (),
    },
)
