"""What stands for a sample before any network is trained, by kind of data, and where it is kept.

Small images, vectors and tables come as they are. Large images are seen through a pretrained backbone, if its weights
are at hand or it is asked for, else they are made small. Texts are their words, or embeddings that are asked for.
"""

import hashlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.dataset import LabeledData
from permll.data.encoding import Arrays, Encoder, from_arrays
from permll.data.inputs import Images, Inputs, LazyImages, Texts, Vectors
from permll.data.readers.image_files import SMALL_IMAGE_SIZE, load_small_images
from permll.data.readers.input_spec import describe_inputs, input_kind
from permll.data.sample_digests import sample_digests
from permll.networks.backbone import Backbone, at_hand
from permll.networks.sentences import SentenceEncoder
from permll.training.recipe import AUTO, DataSection, Recipe
from permll.utils.files import atomic_write
from permll.utils.progress import progress

FEATURES = "features"  # the folder in a run
_BLOCK = 256  # rows that are computed between two writings
_LOOKED_AT = 100  # so many images tell how large they are


def settle_features(recipe: Recipe, inputs: Inputs, notify: Callable[[str], None] | None = None) -> DataSection:
    """Return the recipe's section on data with nothing left open: what stands for the samples is written down.

    Args:
        recipe: one with a network of its own takes images in files as they are.
        inputs: as they were read.
        say: takes what was understood, in a sentence.
    """
    section = recipe.data
    if section.weights and not section.backbone:
        raise ValueError(f"the weights {section.weights} need the name of their network too: --backbone timm:NAME.")
    for name, takes in ((section.backbone, "images"), (section.encoder, "texts")):
        if name and input_kind(inputs) != takes:
            raise ValueError(f"{name} takes {takes}, but these are {describe_inputs(inputs)}: leave it out.")
    open_still = recipe.network.name == AUTO and not (section.backbone or section.pixels or recipe.views.resize)
    if isinstance(inputs, LazyImages) and open_still:
        found = at_hand()
        section = section.model_copy(update={"backbone": found} if found else {"pixels": SMALL_IMAGE_SIZE})
    if notify is not None and recipe.network.name == AUTO and isinstance(inputs, LazyImages | Texts):
        notify(_understood(section, inputs))
    return section


def made_small(data: LabeledData, size: int, channels: int | None = None) -> LabeledData:
    """Return images in files as pixels in memory, ``size`` x ``size``; too many or too large, resized when needed.

    Args:
        data: other inputs stay as they are.
        size: pixels of a side.
        channels: those of the training images; default what suits these, one if all are grey.
    """
    if not isinstance(data.inputs, LazyImages):
        return data
    inputs = load_small_images(data.inputs.resize(size, "stretch"), data.ids, size)
    if isinstance(inputs, Images) and channels == 3:
        inputs = Images(inputs.pixels.expand(-1, 3, -1, -1).contiguous())
    if channels == 1 and inputs.batch(torch.arange(1)).shape[1] != 1:
        raise ValueError("the training images are grey, but not all of those to validate or test on.")
    return data.with_inputs(inputs)


def named_encoder(section: DataSection) -> Backbone | SentenceEncoder | None:
    """Return the encoder that a recipe names, if it does."""
    if section.backbone:
        return Backbone.load(section.backbone, section.weights)
    return SentenceEncoder.load(section.encoder) if section.encoder else None


def encoder_of(arrays: Mapping[str, NDArray[Any]]) -> Encoder:
    """Return the encoder of any kind that ``to_arrays`` was called on."""
    kind = json.loads(arrays["about"].tobytes())["kind"] if "about" in arrays else None
    if kind == Backbone.kind:
        return Backbone.from_arrays(arrays)
    return SentenceEncoder.from_arrays(arrays) if kind == SentenceEncoder.kind else from_arrays(arrays)


def keeping(encoder: Encoder | None, folder: Path | None, *, write: bool = True) -> Encoder | None:
    """Return the encoder, one that is slow with its work kept in a folder."""
    if folder is None or not isinstance(encoder, Backbone | SentenceEncoder):
        return encoder
    return CachedEncoder(encoder, folder, write=write)


class CachedEncoder:
    """A slow encoder whose work is kept in files: what it saw before, also in another process, costs nothing.

    Vectors are found again by what samples hold, not by their names. Every so many rows are a file, whole or not there,
    so that a process that is killed loses little; and as rows go on in the same batches, not even the last bits change.

    Args:
        encoder: makes vectors without groups of columns.
        folder: of the files, which are named after the encoder: those of others are left alone.
        write: whether to keep what is new.
    """

    def __init__(self, encoder: Backbone | SentenceEncoder, folder: Path, *, write: bool = True) -> None:
        self.encoder, self.folder, self.write = encoder, folder, write
        self.takes = encoder.takes

    def __repr__(self) -> str:
        return repr(self.encoder)

    def to_arrays(self) -> Arrays:
        """Return the encoder as arrays."""
        return self.encoder.to_arrays()

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of samples."""
        keys = list(sample_digests(inputs))
        name = self._name()
        known = self._read(name)
        new: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in known:
                new.setdefault(key, row)
        with progress(f"features of {self.encoder.name}", len(new)) as advance:
            for start in range(0, len(new), _BLOCK):
                block = dict(list(new.items())[start : start + _BLOCK])
                values = self.encoder(inputs.take(torch.tensor(list(block.values())))).values.numpy()
                self._keep(name, list(block), values)
                known |= zip(block, values, strict=True)
                advance(len(block))
        return Vectors(torch.from_numpy(np.stack([known[key] for key in keys])))

    def _name(self) -> str:
        """Return what files are called: the digest of all that the encoder knows."""
        digest = hashlib.blake2b(digest_size=8)
        for key, value in sorted(self.encoder.to_arrays().items()):
            digest.update(key.encode() + np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()

    def _read(self, name: str) -> dict[bytes, NDArray[np.float32]]:
        known: dict[bytes, NDArray[np.float32]] = {}
        for path in sorted(self.folder.glob(f"{name}-*.npz")):
            with np.load(path, allow_pickle=False) as saved:
                known |= zip(map(bytes, saved["keys"]), saved["values"], strict=True)
        return known

    def _keep(self, name: str, keys: list[bytes], values: NDArray[np.float32]) -> None:
        if not self.write:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self.folder.glob(f"{name}-*.npz")))
        with atomic_write(self.folder / f"{name}-{number:05}.npz") as file:
            np.savez(file, keys=np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1), values=values)


def _understood(section: DataSection, inputs: LazyImages | Texts) -> str:
    """Return what was understood of images in files or texts, in a sentence."""
    if isinstance(inputs, Texts):
        how = f"the embeddings of {section.encoder}" if section.encoder else "their words; --encoder NAME embeds them"
        return f"{len(inputs):,} texts: a small network on {how}"
    if section.backbone:
        how = f"a small network on what {section.backbone} sees in them"
    elif section.pixels == SMALL_IMAGE_SIZE:
        how = (
            f"no pretrained weights at hand, so a small network on {SMALL_IMAGE_SIZE}-pixel images; "
            "--backbone timm:NAME takes better features"
            f"{'' if importlib.util.find_spec('timm') else ' (pip install permll[vision])'}"
        )
    else:
        how = f"a network on images of {section.pixels or inputs.size} pixels"
    return f"{len(inputs):,} images, median {_median_size(inputs)}: {how}"


def _median_size(images: LazyImages) -> str:
    """Return "640 x 480", of an even choice of images."""
    sizes = []
    for row in range(0, len(images), -(-len(images) // _LOOKED_AT)):
        with images.open(int(images.rows[row])) as image:
            sizes.append(image.size)
    width, height = np.median(sizes, 0).astype(int).tolist()
    return f"{width} x {height}"
