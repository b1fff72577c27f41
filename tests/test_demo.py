"""The demo's own arithmetic, without its display."""

import pytest
import torch

from permll import PermutationLayer
from permll.demo import CLASSES, Digits, judge, noisy_digits, train, worst_suspects


@pytest.fixture(scope="module")
def data() -> Digits:
    return noisy_digits(seed=3)


def test_exactly_the_share_of_labels_is_wrong(data: Digits) -> None:
    wrong = data.given != data.true
    assert int(wrong.sum()) == int(0.4 * len(data.true))
    assert len(data.train) == len(data.given) == 1347
    assert len(data.test) == 450
    assert 0 <= data.given.min() <= data.given.max() < CLASSES
    assert 0 <= data.train.min() <= data.train.max() <= 1


def test_the_same_seed_gives_the_same_data_and_the_same_training(data: Digits) -> None:
    again = noisy_digits(seed=3)
    assert all(torch.equal(one, other) for one, other in zip(data, again, strict=True))
    assert not torch.equal(noisy_digits(seed=4).given, data.given)
    state = torch.get_rng_state()
    runs = [[t.accuracy[-1] for t in train(data, "permll", seed=3, epochs=2)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's randomness was touched


def test_judging_counts_against_the_truth(data: Digits) -> None:
    layer = PermutationLayer(data.given, CLASSES)
    untouched = judge(layer, data)
    assert untouched.right_before == untouched.right_after == pytest.approx(0.6, abs=1e-3)
    assert (untouched.found, untouched.precision, untouched.recall) == (0, 0.0, 0.0)

    wrong = (data.given != data.true).nonzero().flatten()
    right = (data.given == data.true).nonzero().flatten()
    layer.alpha[wrong[:30], data.true[wrong[:30]]] = 9.0  # thirty wrong labels corrected,
    layer.alpha[right[:10], (data.true[right[:10]] + 1) % CLASSES] = 9.0  # and ten right ones spoilt
    judged = judge(layer, data)
    assert judged.found == 30
    assert judged.precision == 0.75
    assert judged.recall == pytest.approx(30 / len(wrong))
    assert judged.right_after == pytest.approx(untouched.right_before + 20 / len(data.true))


def test_worst_suspects_are_pictures_with_their_labels(data: Digits) -> None:
    layer = PermutationLayer(data.given, CLASSES)
    layer.alpha[7, (data.given[7] + 1) % CLASSES] = 9.0
    (suspect,) = worst_suspects(layer, data, limit=1)
    assert suspect.image.shape == (8, 8)
    assert (suspect.image.reshape(64) == data.train[7].numpy()).all()
    assert suspect.given == data.given[7]
    assert suspect.proposed == (data.given[7] + 1) % CLASSES
    assert suspect.true == data.true[7]
