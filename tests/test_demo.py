"""Data, training and evaluation of the demo."""

import pytest
import torch

from permll import PermutationLayer
from permll.demo import (
    NUM_CLASSES,
    NoisyDigits,
    evaluate_correction,
    least_trusted_samples,
    load_noisy_digits,
    train,
)


@pytest.fixture(scope="module")
def data() -> NoisyDigits:
    return load_noisy_digits(seed=3)


def test_demo_data_has_exact_noise_rate(data: NoisyDigits) -> None:
    wrong = data.labels != data.clean_labels
    assert int(wrong.sum()) == int(0.4 * len(data.clean_labels))
    assert len(data.images) == len(data.labels) == 1347
    assert len(data.test_images) == 450
    assert 0 <= data.labels.min() <= data.labels.max() < NUM_CLASSES
    assert 0 <= data.images.min() <= data.images.max() <= 1


def test_demo_is_deterministic(data: NoisyDigits) -> None:
    again = load_noisy_digits(seed=3)
    assert all(torch.equal(a, b) for a, b in zip(data, again, strict=True))
    assert not torch.equal(load_noisy_digits(seed=4).labels, data.labels)
    state = torch.get_rng_state()
    runs = [[t.accuracy[-1] for t in train(data, "permll_plus", seed=3, epochs=2)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert torch.equal(torch.get_rng_state(), state)  # global random state is unchanged


def test_evaluate_correction_counts(data: NoisyDigits) -> None:
    layer = PermutationLayer.paper(data.labels, NUM_CLASSES)
    initial = evaluate_correction(layer, data)
    assert initial.right_before == initial.right_after == pytest.approx(0.6, abs=1e-3)
    assert (initial.found, initial.precision, initial.recall) == (0, 0.0, 0.0)

    wrong = (data.labels != data.clean_labels).nonzero().flatten()
    right = (data.labels == data.clean_labels).nonzero().flatten()
    layer.alpha[wrong[:30], data.clean_labels[wrong[:30]]] = 9.0  # corrects 30 wrong labels
    layer.alpha[right[:10], (data.clean_labels[right[:10]] + 1) % NUM_CLASSES] = 9.0  # breaks 10 correct ones
    result = evaluate_correction(layer, data)
    assert result.found == 30
    assert result.precision == 0.75
    assert result.recall == pytest.approx(30 / len(wrong))
    assert result.right_after == pytest.approx(initial.right_before + 20 / len(data.clean_labels))


def test_least_trusted_samples_have_image_and_labels(data: NoisyDigits) -> None:
    layer = PermutationLayer.paper(data.labels, NUM_CLASSES)
    layer.alpha[7, (data.labels[7] + 1) % NUM_CLASSES] = 9.0
    (suspect,) = least_trusted_samples(layer, data, limit=1)
    assert suspect.image.shape == (8, 8)
    assert (suspect.image.reshape(64) == data.images[7].numpy()).all()
    assert suspect.given == data.labels[7]
    assert suspect.proposed == (data.labels[7] + 1) % NUM_CLASSES
    assert suspect.true == data.clean_labels[7]
