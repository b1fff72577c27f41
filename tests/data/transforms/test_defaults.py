"""Every kind of data has a plain, a weak and a strong view."""

import numpy as np
import pytest
import torch
from PIL import Image

from permll.data import Images, Inputs, Items, LabeledData, LazyImages, Table, Texts, Vectors, encode
from permll.data.transforms import default_views
from permll.data.transforms.counter_rng import visit_keys
from permll.data.transforms.defaults import image_statistics, vector_statistics


def picture(position: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(position).integers(0, 256, (40, 50, 3), dtype=np.uint8))


def pixels(*shape: int) -> Images:
    return Images(torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).byte())


KINDS: dict[str, Inputs] = {
    "colour images": pixels(12, 3, 32, 32),
    "grey images": pixels(12, 1, 28, 28),
    "tiny images": pixels(12, 1, 8, 8),
    "image files": LazyImages(picture, torch.arange(12), size=32),
    "narrow images": pixels(12, 1, 64, 6),
    "images of four channels": pixels(12, 4, 32, 32),
    "vectors": Vectors(torch.linspace(-40, 90, 60).sin().view(12, 5) * 30 + 7),
}


@pytest.mark.parametrize("inputs", KINDS.values(), ids=KINDS.keys())
def test_three_views_of_one_shape_that_differ(inputs: Inputs) -> None:
    views = default_views(inputs)
    raw, keys = inputs.batch(torch.arange(12)), visit_keys(0, 0, "x", torch.arange(12))
    plain, weak, strong = (views[name](raw, keys) for name in ("plain", "weak", "strong"))
    assert plain.dtype == weak.dtype == strong.dtype == torch.float32
    assert plain.shape == weak.shape == strong.shape
    assert not torch.equal(plain, weak)
    assert (strong - plain).abs().mean() > (weak - plain).abs().mean() * 0.9
    assert torch.equal(plain, views["plain"](raw, keys + 1)), "to evaluate, nothing is left to chance"


def test_images_of_one_line_are_not_moved_out_of_themselves() -> None:
    lines = pixels(12, 1, 1, 64)
    views, keys = default_views(lines), visit_keys(0, 0, "x", torch.arange(12))
    assert torch.equal(views["weak"](lines.pixels, keys), views["plain"](lines.pixels, keys))
    assert views["strong"](lines.pixels, keys).shape == (12, 1, 1, 64)


def test_grey_images_are_not_mirrored() -> None:
    digits = pixels(50, 1, 8, 8)
    assert "Flip" not in str(default_views(digits)["strong"])
    assert "Flip" in str(default_views(KINDS["colour images"])["weak"])


def test_statistics_are_numpys() -> None:
    images = KINDS["colour images"]
    assert isinstance(images, Images)
    found = image_statistics(images)
    values = images.pixels.numpy() / 255
    np.testing.assert_allclose(found.mean, values.mean((0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(found.std, values.std((0, 2, 3)), atol=1e-9)
    vectors = torch.cat([torch.randn(40, 3) * 5 + 2, torch.ones(40, 1)], 1)
    mean, std = vector_statistics(Vectors(vectors))
    np.testing.assert_allclose(mean, vectors.numpy().mean(0), atol=1e-5)
    np.testing.assert_allclose(std, [*vectors.numpy().std(0)[:3], 1.0], atol=1e-5)


def test_columns_whose_scales_mean_something_keep_them() -> None:
    vectors = Vectors(torch.randn(40, 3) * torch.tensor([5.0, 1.0, 0.1]) + 2, scaled=True)
    assert vectors.take(torch.arange(5)).scaled
    seen = default_views(vectors)["plain"](vectors.values, torch.arange(40))
    np.testing.assert_allclose(seen.std(0), vectors.values.std(0), atol=1e-5)
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-5)
    texts = LabeledData(Texts(("one two", "two three", "three")), torch.tensor([0, 1, 0]), ("x", "y"), tuple("uvw"))
    encoded, _ = encode(texts)
    assert isinstance(encoded.inputs, Vectors)
    assert encoded.inputs.scaled


def test_standardised_vectors_have_mean_0_and_spread_1() -> None:
    plain = default_views(KINDS["vectors"])["plain"](KINDS["vectors"].batch(torch.arange(12)), torch.arange(12))
    np.testing.assert_allclose(plain.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(plain.std(0, correction=0), 1, atol=1e-5)


def test_items_keep_their_own_views_and_raw_kinds_ask_to_be_encoded() -> None:
    items = Items([(torch.ones(2), 0)], torch.tensor([0]))
    assert torch.equal(default_views(items)["strong"](torch.ones(1, 2), torch.zeros(1).long()), torch.ones(1, 2))
    for raw in (Texts(("a",)), Table({"a": np.ones(1)})):
        with pytest.raises(TypeError, match="encode"):
            default_views(raw)
        with pytest.raises(TypeError, match="encode"):
            raw.batch(torch.tensor([0]))
