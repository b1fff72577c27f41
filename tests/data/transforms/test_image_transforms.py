"""Image and vector transforms against slow versions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.data.transforms import (
    AutoAugment,
    CenterCrop,
    Compose,
    Cutout,
    FeatureDropout,
    GaussianNoise,
    Normalize,
    RandAugment,
    RandomCrop,
    RandomHorizontalFlip,
)
from permll.data.transforms.counter_rng import fold_in, uniform, visit_keys
from permll.data.transforms.geometry import crop, horizontal_flip, pad
from permll.data.transforms.image_transforms import Transform

VIEWS: dict[str, Transform] = {
    "crop": RandomCrop(padding=4),
    "crop of a part": RandomCrop(size=20),
    "flip": RandomHorizontalFlip(),
    "cutout": Cutout(12),
    "rand augment": RandAugment(),
    "auto augment": AutoAugment(),
    "jitter": Compose(Normalize((0.5,) * 3, (0.25,) * 3), GaussianNoise(0.1)),
    "all": Compose(
        RandomCrop(padding=2, mode="zero"),
        RandomHorizontalFlip(),
        RandAugment(3, 0.7),
        Normalize((0.4,) * 3, (0.2,) * 3),
        Cutout(8),
    ),
}


def images(count: int, channels: int = 3, size: int = 32, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (count, channels, size, size), generator=torch.Generator().manual_seed(seed)).byte()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_transform_is_pure_function_of_image_and_key(view: Transform) -> None:
    batch, keys = images(9), visit_keys(0, 0, "x", torch.arange(9))
    before = batch.clone()
    torch.manual_seed(1)
    first = view(batch, keys)
    torch.manual_seed(2)
    torch.testing.assert_close(view(batch, keys), first, rtol=0, atol=0)
    assert torch.equal(batch, before), "a transform must not write into the dataset"
    order = torch.tensor([5, 2, 8])
    torch.testing.assert_close(view(batch[order], keys[order]), first[order], rtol=0, atol=0)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_transform_depends_on_key(view: Transform) -> None:
    batch = images(1).expand(40, -1, -1, -1)
    augmented = view(batch, visit_keys(0, 0, "x", torch.arange(40)))
    assert len(augmented.flatten(1).unique(dim=0)) > 1


@given(size=st.integers(1, 12), width=st.integers(1, 11), channels=st.integers(1, 3))
def test_pad_equals_numpy(size: int, width: int, channels: int) -> None:
    batch = images(2, channels, size)
    padding = ((0, 0), (0, 0), (width, width), (width, width))
    np.testing.assert_array_equal(pad(batch, width, "zero"), np.pad(batch.numpy(), padding))
    if width < size:
        np.testing.assert_array_equal(pad(batch, width, "reflect"), np.pad(batch.numpy(), padding, mode="reflect"))
    else:
        with pytest.raises(ValueError, match="needs larger images"):
            pad(batch, width, "reflect")


def test_crop_and_flip_equal_loop() -> None:
    batch = images(6, size=12)
    top, left, mask = torch.tensor([0, 4, 2, 1, 0, 4]), torch.tensor([3, 0, 5, 5, 0, 1]), torch.arange(6) % 2 == 0
    cropped = crop(batch, top, left, 8, 7)
    flipped = horizontal_flip(batch, mask)
    for i in range(6):
        assert torch.equal(cropped[i], batch[i, :, top[i] : top[i] + 8, left[i] : left[i] + 7])
        assert torch.equal(flipped[i], batch[i].flip(2) if mask[i] else batch[i])


def test_random_crop_is_uniform() -> None:
    batch = torch.arange(81).byte().view(1, 1, 9, 9).expand(4000, 1, 9, 9)
    corners = RandomCrop(size=7)(batch, visit_keys(0, 0, "x", torch.arange(4000)))[:, 0, 0, 0]
    positions, counts = corners.unique(return_counts=True)
    assert positions.tolist() == [row * 9 + column for row in range(3) for column in range(3)]
    assert counts.min() > 4000 / 9 * 0.8


def test_random_flip_has_probability_p() -> None:
    batch = torch.tensor([0, 1]).byte().expand(4000, 1, 1, 2)
    flipped = RandomHorizontalFlip(0.3)(batch, visit_keys(0, 0, "x", torch.arange(4000)))[:, 0, 0, 0].float().mean()
    assert abs(flipped - 0.3) < 0.03


def test_cutout_equals_loop() -> None:
    batch, keys = torch.ones(50, 2, 10, 8), visit_keys(0, 0, "x", torch.arange(50))
    out = Cutout(4, fill=-1.0)(batch, keys)
    for i in range(50):
        y, x = (uniform(keys[i : i + 1], 2)[0] * torch.tensor([10, 8])).long().tolist()
        slow = torch.ones(2, 10, 8)
        slow[:, max(y - 2, 0) : y + 2, max(x - 2, 0) : x + 2] = -1
        assert torch.equal(out[i], slow)


def test_normalize_and_center_crop() -> None:
    batch = images(3, size=11)
    mean, std = (0.1, 0.5, 0.7), (0.2, 0.3, 0.4)
    slow = np.stack([(batch[:, c].numpy() / 255 - mean[c]) / std[c] for c in range(3)], 1)
    out = Normalize(mean, std)(batch, torch.zeros(3).long())
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out, slow, atol=1e-6)
    assert torch.equal(CenterCrop(5)(batch, torch.zeros(3).long()), batch[:, :, 3:8, 3:8])


def test_crops_reject_small_images() -> None:
    for view in (RandomCrop(size=40), CenterCrop(40)):
        with pytest.raises(ValueError, match="is larger than images of 32 x 32"):
            view(images(1), torch.zeros(1).long())


def test_normalize_rejects_floats() -> None:
    """On floats it would write into the dataset, or be applied twice."""
    with pytest.raises(TypeError, match=r"takes uint8 images, got torch\.float32"):
        Normalize((0.5,), (0.5,))(torch.zeros(1, 1, 4, 4), torch.zeros(1).long())


def test_compose_steps_draw_independently() -> None:
    """Two flips with the same draw would always cancel."""
    batch = images(1).expand(200, -1, -1, -1)
    twice = Compose(RandomHorizontalFlip(), RandomHorizontalFlip())(batch, visit_keys(0, 0, "x", torch.arange(200)))
    same = (twice == batch).flatten(1).all(1).float().mean()
    assert 0.3 < same < 0.7


def test_gaussian_noise_and_feature_dropout_statistics() -> None:
    batch, keys = torch.ones(300, 40), visit_keys(0, 0, "x", torch.arange(300))
    noisy = GaussianNoise(0.2)(batch, keys)
    assert abs(noisy.mean() - 1) < 0.01
    assert abs(noisy.std() - 0.2) < 0.01
    assert abs((FeatureDropout(0.25)(batch, keys) == 0).float().mean() - 0.25) < 0.02


def test_feature_dropout_drops_columns_of_a_feature_together() -> None:
    features = torch.tensor([0, 0, 0, 1, 2, 2])
    out = FeatureDropout(0.5, features)(torch.ones(200, 6), visit_keys(0, 0, "x", torch.arange(200)))
    assert torch.equal(out[:, 0], out[:, 1])
    assert torch.equal(out[:, 1], out[:, 2])
    assert torch.equal(out[:, 4], out[:, 5])
    assert not torch.equal(out[:, 0], out[:, 3])
    # the draws, per feature
    dropped = uniform(fold_in(visit_keys(0, 0, "x", torch.arange(200)), 0), 3) < 0.5
    assert torch.equal(out == 0, dropped[:, features])


def test_transforms_accept_empty_batch() -> None:
    """A process may have no row of the last batch."""
    keys = torch.empty(0, dtype=torch.int64)
    for view in VIEWS.values():
        assert len(view(torch.empty(0, 3, 32, 32, dtype=torch.uint8), keys)) == 0
