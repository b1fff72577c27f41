"""The noise rate, as a method finds it while it trains: from what its networks say of rows they do not train on."""

from permll.functional.noise_rate import noise_rate
from permll.methods._base import Method, Scan

FOLLOWS = 1 / 3  # of the way to each new estimate: single ones scatter by some points


def held_out_noise_rate(method: Method, scan: Scan) -> float | None:
    """Return the share of wrong labels among held-out rows, by ``noise_rate``; None where there are no such rows.

    Labels and predictions of training rows tell less: what networks have learned by heart, they no longer doubt.
    """
    assert method.info is not None
    if method.info.held_out is None:
        return None
    said = method._mean_prediction(scan, held_out=True)
    return noise_rate(said.clamp_min(1e-12).log(), method.info.held_out.cpu())
