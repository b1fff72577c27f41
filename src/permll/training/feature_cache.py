"""Encoders of images and texts: which one is used, and a cache of the features that it computes.

With the extra ``vision`` or ``text``, color images and texts are encoded by a pretrained network, which is downloaded
once, unless the recipe names another one or none. Otherwise, and without a network connection, large images are
downscaled and texts are encoded by tf-idf. Vectors, tables, small gray images and many small color images need no
pretrained encoder.
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

from permll.data.decoding import ShrinkTo
from permll.data.encoding import Arrays, Encoder, from_arrays
from permll.data.inputs import Images, Inputs, LazyImages, Texts, Vectors
from permll.data.readers.image_files import SMALL_IMAGE_SIZE
from permll.data.readers.input_spec import describe_inputs, input_kind
from permll.data.sample_digests import sample_digests
from permll.networks.backbone import Backbone, default_backbone
from permll.networks.sentence_encoder import SentenceEncoder, default_encoder
from permll.training.recipe import AUTO, DataSection, Recipe
from permll.training.run import Run
from permll.utils.files import atomic_write
from permll.utils.messages import install_hint
from permll.utils.progress_bar import progress

FEATURES_FOLDER = "features"  # of a run
BLOCK_ROWS = 256  # features in a file of the cache
MAX_SIZES = 100  # images whose size is read for the median
NONE, TFIDF = "none", "tfidf"  # instead of a pretrained backbone or sentence encoder
MAX_SMALL_IMAGES = 20_000  # from more small images, a network learns good features itself
Notify = Callable[[str], None]


def resolve_features(recipe: Recipe, inputs: Inputs, notify: Notify | None = None) -> DataSection:
    """Return the data section of a recipe with the backbone, image size or encoder that it leaves to the data.

    Args:
        recipe: the recipe; if it names a network, image files stay as they are.
        inputs: samples as they were read.
        notify: called with a sentence before a pretrained network is downloaded.
    """
    section = recipe.data
    if section.weights and not section.backbone:
        raise ValueError(f"the weights {section.weights} need the name of their network: --backbone timm:NAME.")
    for name, takes in ((section.backbone, "images"), (section.encoder, "texts")):
        if name not in (None, "", NONE, TFIDF) and input_kind(inputs) != takes:
            raise ValueError(f"{name} encodes {takes}, but the data are {describe_inputs(inputs)}: remove this option.")
    if _is_open(recipe) and _needs_backbone(inputs):
        backbone = None if section.backbone == NONE else default_backbone(notify)
        pixels = SMALL_IMAGE_SIZE if isinstance(inputs, LazyImages) and not backbone else None
        section = section.model_copy(update={"backbone": backbone, "pixels": pixels})
    elif isinstance(inputs, Texts) and recipe.network.name == AUTO and not section.encoder:
        section = section.model_copy(update={"encoder": default_encoder(notify)})
    if section.backbone == NONE or section.encoder == TFIDF:
        section = section.model_copy(update={"backbone": None, "encoder": None})
    return section


def _needs_backbone(inputs: Inputs) -> bool:
    """Return whether images are in files, or small color images that are too few to learn features from."""
    is_color = isinstance(inputs, Images) and inputs.pixels.shape[1] == 3
    return isinstance(inputs, LazyImages) or (is_color and len(inputs) <= MAX_SMALL_IMAGES)


def small_image_size(recipe: Recipe, notify: Notify | None = None) -> ShrinkTo:
    """Return the side to which ``resolve_features`` will downscale large images, needed when they are decoded."""
    if not _is_open(recipe):
        return recipe.data.pixels
    if recipe.data.backbone == NONE:
        return SMALL_IMAGE_SIZE
    return lambda: None if default_backbone(notify) else SMALL_IMAGE_SIZE


def _is_open(recipe: Recipe) -> bool:
    """Return whether the recipe leaves backbone and image size to the data."""
    section = recipe.data
    return recipe.network.name == AUTO and not (
        section.backbone not in (None, "", NONE) or section.pixels or recipe.views.resize
    )


def load_encoder(section: DataSection) -> Backbone | SentenceEncoder | None:
    """Return the encoder that a recipe names, if any."""
    if section.backbone:
        return Backbone.load(section.backbone, section.weights)
    return SentenceEncoder.load(section.encoder) if section.encoder else None


def encoder_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Encoder:
    """Return the encoder of any kind that was saved by ``to_arrays``."""
    kind = json.loads(arrays["about"].tobytes())["kind"] if "about" in arrays else None
    if kind == Backbone.kind:
        return Backbone.from_arrays(arrays)
    return SentenceEncoder.from_arrays(arrays) if kind == SentenceEncoder.kind else from_arrays(arrays)


def with_cache(encoder: Encoder | None, run: Run | None, *, write: bool = True) -> Encoder | None:
    """Return the encoder, with a cache in the folder of a run if it is a slow one."""
    if run is None or not isinstance(encoder, Backbone | SentenceEncoder):
        return encoder
    return CachedEncoder(encoder, run.folder / FEATURES_FOLDER, write=write)


class CachedEncoder:
    """A slow encoder with a cache in files, shared by processes.

    Features are found by the content of a sample, not by its id. A file has the features of ``BLOCK_ROWS`` samples, so
    that a killed process loses little. The remaining samples are encoded in the same batches, hence to the same bits.

    Args:
        encoder: the encoder.
        folder: folder of the cache; file names contain a hash of the encoder.
        write: whether new features are added to the cache.
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
        """Return the features of samples."""
        keys = list(sample_digests(inputs))
        name = self._encoder_hash()
        features = self._read(name)
        missing: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in features:
                missing.setdefault(key, row)
        with progress(f"features of {self.encoder.name}", len(missing)) as advance:
            for start in range(0, len(missing), BLOCK_ROWS):
                block = dict(list(missing.items())[start : start + BLOCK_ROWS])
                values = self.encoder(inputs.take(torch.tensor(list(block.values())))).values.numpy()
                self._add(name, list(block), values)
                features |= zip(block, values, strict=True)
                advance(len(block))
        return Vectors(torch.from_numpy(np.stack([features[key] for key in keys])))

    def _encoder_hash(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for key, value in sorted(self.encoder.to_arrays().items()):
            digest.update(key.encode() + np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()

    def _read(self, name: str) -> dict[bytes, NDArray[np.float32]]:
        features: dict[bytes, NDArray[np.float32]] = {}
        for path in sorted(self.folder.glob(f"{name}-*.npz")):
            with np.load(path, allow_pickle=False) as saved:
                features |= zip(map(bytes, saved["keys"]), saved["values"], strict=True)
        return features

    def _add(self, name: str, keys: list[bytes], values: NDArray[np.float32]) -> None:
        if not self.write:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self.folder.glob(f"{name}-*.npz")))
        with atomic_write(self.folder / f"{name}-{number:05}.npz") as file:
            np.savez(file, keys=np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1), values=values)


def describe_features(section: DataSection, inputs: Inputs) -> str:
    """Return a sentence about images or texts and how they are encoded; "" for other data and pixels in memory."""
    if isinstance(inputs, Texts):
        features = (
            f"embeddings of {section.encoder}" if section.encoder else "tf-idf features; --encoder NAME uses embeddings"
        )
        return f"{len(inputs):,} texts: a small network on {features}"
    if not isinstance(inputs, LazyImages) and not (isinstance(inputs, Images) and section.backbone):
        return ""
    if section.backbone:
        choice = f"a small network on features of {section.backbone}"
    elif section.pixels == SMALL_IMAGE_SIZE:
        extra = "" if importlib.util.find_spec("timm") else f" ({install_hint('vision')})"
        choice = (
            f"a small network on {SMALL_IMAGE_SIZE}-pixel images, since no pretrained weights were found; --backbone "
            f"timm:NAME uses better features{extra}"
        )
    else:
        assert isinstance(inputs, LazyImages)
        choice = f"a network on images of {section.pixels or inputs.size} pixels"
    return f"{len(inputs):,} images, median size {_median_size(inputs)}: {choice}"


def _median_size(images: LazyImages | Images) -> str:
    """Return the median of width and height over at most ``MAX_SIZES`` images, as "640 x 480"."""
    if isinstance(images, Images):
        return f"{images.pixels.shape[3]} x {images.pixels.shape[2]}"
    sizes = []
    for row in range(0, len(images), -(-len(images) // MAX_SIZES)):
        with images.open(int(images.rows[row])) as image:
            sizes.append(image.size)
    width, height = np.median(sizes, 0).astype(int).tolist()
    return f"{width} x {height}"
