"""The noise rate, as a method finds it while it trains: from what its networks say of rows they do not train on."""

from torch import Tensor

from permll.functional.noise_rate import conservative_noise_rate
from permll.methods._base import Method, PredictLogits

FOLLOWS = 1 / 3  # of the way to each new estimate: single ones scatter by some points


def follow_held_out(rate: Tensor, method: Method, predict_logits: PredictLogits, *, first: bool) -> bool:
    """Move ``rate`` towards the share of wrong labels among held-out rows; False where there are no such rows.

    Labels and predictions of training rows tell less: what networks have learned by heart, they no longer doubt.

    Args:
        rate: () the estimate so far.
        method: whose networks look.
        scan: by which they do.
        first: there is no estimate so far.
    """
    assert method.info is not None
    if method.info.held_out is None:
        return False
    said = method.predict_rows(predict_logits, held_out=True)
    found = conservative_noise_rate(said.clamp_min(1e-12).log(), method.info.held_out.cpu())
    rate.lerp_(rate.new_tensor(found), 1.0 if first else FOLLOWS)
    return True
