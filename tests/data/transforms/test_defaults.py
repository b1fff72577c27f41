"""Default views of every kind of data."""

import numpy as np
import pytest
import torch
from PIL import Image

from permll.data import Images, Inputs, Items, LabeledData, LazyImages, Table, Texts, Vectors, encode
from permll.data.transforms import default_views
from permll.data.transforms.counter_rng import visit_keys
from permll.data.transforms.defaults import image_statistics, vector_statistics


def open_image(position: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(position).integers(0, 256, (40, 50, 3), dtype=np.uint8))


def pixels(*shape: int) -> Images:
    return Images(torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).byte())


KINDS: dict[str, Inputs] = {
    "color images": pixels(12, 3, 32, 32),
    "gray images": pixels(12, 1, 28, 28),
    "tiny images": pixels(12, 1, 8, 8),
    "image files": LazyImages(open_image, torch.arange(12), size=32),
    "narrow images": pixels(12, 1, 64, 6),
    "images of four channels": pixels(12, 4, 32, 32),
    "vectors": Vectors(torch.linspace(-40, 90, 60).sin().view(12, 5) * 30 + 7),
}


@pytest.mark.parametrize("inputs", KINDS.values(), ids=KINDS.keys())
def test_default_views_have_one_shape_and_differ(inputs: Inputs) -> None:
    views = default_views(inputs)
    raw, keys = inputs.batch(torch.arange(12)), visit_keys(0, 0, "x", torch.arange(12))
    plain, weak, strong = (views[name](raw, keys) for name in ("plain", "weak", "strong"))
    assert plain.dtype == weak.dtype == strong.dtype == torch.float32
    assert plain.shape == weak.shape == strong.shape
    assert not torch.equal(plain, weak)
    assert (strong - plain).abs().mean() > (weak - plain).abs().mean() * 0.9
    assert torch.equal(plain, views["plain"](raw, keys + 1)), "the plain view is deterministic"


def test_default_views_accept_images_of_one_line() -> None:
    lines = pixels(12, 1, 1, 64)
    views, keys = default_views(lines), visit_keys(0, 0, "x", torch.arange(12))
    assert torch.equal(views["weak"](lines.pixels, keys), views["plain"](lines.pixels, keys))
    assert views["strong"](lines.pixels, keys).shape == (12, 1, 1, 64)


def test_gray_images_are_not_flipped() -> None:
    digits = pixels(50, 1, 8, 8)
    assert "Flip" not in str(default_views(digits)["strong"])
    assert "Flip" in str(default_views(KINDS["color images"])["weak"])


def test_statistics_equal_numpy() -> None:
    images = KINDS["color images"]
    assert isinstance(images, Images)
    normalize = image_statistics(images)
    values = images.pixels.numpy() / 255
    np.testing.assert_allclose(normalize.mean, values.mean((0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(normalize.std, values.std((0, 2, 3)), atol=1e-9)
    vectors = torch.cat([torch.randn(40, 3) * 5 + 2, torch.ones(40, 1)], 1)
    mean, std = vector_statistics(Vectors(vectors))
    np.testing.assert_allclose(mean, vectors.numpy().mean(0), atol=1e-5)
    np.testing.assert_allclose(std, [*vectors.numpy().std(0)[:3], 1.0], atol=1e-5)


def test_scaled_vectors_keep_their_scale() -> None:
    vectors = Vectors(torch.randn(40, 3) * torch.tensor([5.0, 1.0, 0.1]) + 2, scaled=True)
    assert vectors.take(torch.arange(5)).scaled
    plain = default_views(vectors)["plain"](vectors.values, torch.arange(40))
    np.testing.assert_allclose(plain.std(0), vectors.values.std(0), atol=1e-5)
    np.testing.assert_allclose(plain.mean(0), 0, atol=1e-5)
    texts = LabeledData(Texts(("one two", "two three", "three")), torch.tensor([0, 1, 0]), ("x", "y"), tuple("uvw"))
    encoded, _ = encode(texts)
    assert isinstance(encoded.inputs, Vectors)
    assert encoded.inputs.scaled


def test_standardized_vectors_have_mean_0_and_std_1() -> None:
    plain = default_views(KINDS["vectors"])["plain"](KINDS["vectors"].batch(torch.arange(12)), torch.arange(12))
    np.testing.assert_allclose(plain.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(plain.std(0, correction=0), 1, atol=1e-5)


def test_default_views_of_items_texts_and_tables() -> None:
    items = Items([(torch.ones(2), 0)], torch.tensor([0]))
    assert torch.equal(default_views(items)["strong"](torch.ones(1, 2), torch.zeros(1).long()), torch.ones(1, 2))
    for raw in (Texts(("a",)), Table({"a": np.ones(1)})):
        with pytest.raises(TypeError, match="encode"):
            default_views(raw)
        with pytest.raises(TypeError, match="encode"):
            raw.batch(torch.tensor([0]))
