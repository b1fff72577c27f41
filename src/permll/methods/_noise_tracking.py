"""Running estimate of the noise rate from predictions for held-out samples."""

from torch import Tensor

from permll.functional.noise_rate import conservative_noise_rate
from permll.methods._base import Method, PredictLogits

UPDATE_WEIGHT = 1 / 3  # of a new estimate: single estimates vary by some points


def update_noise_rate(rate: Tensor, method: Method, predict_logits: PredictLogits, *, first: bool) -> bool:
    """Move ``rate`` toward the noise rate of the held-out samples; return False if there are none.

    Predictions for training samples would underestimate it, because networks memorize wrong labels.

    Args:
        rate: () running estimate, updated in place.
        method: method whose networks predict.
        predict_logits: predictions of a network.
        first: whether this is the first estimate.
    """
    labels = method.info.held_out
    if labels is None:
        return False
    probabilities = method.predict_probs(predict_logits, held_out=True)
    estimate = conservative_noise_rate(probabilities.clamp_min(1e-12).log(), labels.cpu())
    rate.lerp_(rate.new_tensor(estimate), 1.0 if first else UPDATE_WEIGHT)
    return True
