"""Search space of each method at tier mini: six settings, including the authors' values if they published any.

Optimizer and schedule are those of the tier for all methods; only joint optimization, which relies on a high learning
rate, also searches the learning rate. Cross-entropy has no parameters: six optimizer settings are tried for reference,
and it keeps those of the tier. Methods that train a second network from scratch may take twice the epochs, as in their
papers.
"""

from itertools import product
from typing import Any

Overrides = dict[str, Any]  # recipe values by dotted key


def grid(**values: list[Any]) -> list[Overrides]:
    """Return all combinations of values; ``__`` in a key stands for a dot."""
    keys = [key.replace("__", ".") for key in values]
    return [dict(zip(keys, chosen, strict=True)) for chosen in product(*values.values())]


TIER_OPTIMIZER = {"optimizer.lr": 0.05, "optimizer.weight_decay": 5e-4}  # of tier mini
EPOCHS = [40, 80]
FRACTIONS = [0.25, 0.5, 0.75]

GRIDS: dict[str, list[Overrides]] = {
    "ce": grid(optimizer__lr=[0.02, 0.05, 0.1], optimizer__weight_decay=[5e-4, 2e-3]),
    "bootstrap_soft": grid(method__beta=[0.95, 0.9, 0.8, 0.7, 0.55, 0.4]),
    "bootstrap_hard": grid(method__beta=[0.8, 0.7, 0.65, 0.6, 0.5, 0.4]),
    "gce": grid(method__q=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    "gce_truncated": grid(method__q=[0.7, 0.9], method__k=[0.1, 0.3, 0.5]),
    "sl": grid(method__alpha=[0.03, 0.1, 0.3], method__A=[-4.0, -9.2103]),
    # An average over ten epochs, as published, is longer than a stage at this tier.
    "nlnl": grid(method__average=[3], training__epochs=EPOCHS, method__complementary=[1, 3, 9]),
    "jnpl": grid(method__average=[3], training__epochs=EPOCHS, method__complementary=[1, 3, 9]),
    "forward": grid(training__epochs=EPOCHS, method__estimate=FRACTIONS),
    "backward": grid(training__epochs=EPOCHS, method__estimate=FRACTIONS),
    "glc": grid(training__epochs=EPOCHS, method__estimate=FRACTIONS),
    "dual_t": grid(training__epochs=EPOCHS, method__estimate=FRACTIONS),
    "t_revision": grid(method__estimate=[0.1, 0.25], method__revision_lr=[5e-6, 5e-5, 5e-4]),
    "s_model": grid(training__epochs=EPOCHS, method__baseline=FRACTIONS),
    "c_model": grid(training__epochs=EPOCHS, method__baseline=FRACTIONS),
    "sukhbaatar": grid(method__freeze=FRACTIONS, method__decay=[0.3, 1.0]),
    "webly": grid(method__baseline=FRACTIONS, method__neighbors=[5, 10]),
    # Two perturbations instead of ten, in a fifth of the time.
    "mlnt": grid(method__perturbations=[2], method__baseline=[0.25, 0.5], method__meta_lr=[0.05, 0.2, 0.5]),
    "elr": grid(method__beta=[0.7, 0.9], method__lam=[1.0, 3.0, 7.0]),
    "sop": grid(method__lr_u=[0.078125, 0.25], method__lr_v=[0.078125, 0.78125, 4.0]),
    "pencil": grid(method__lr=[4.6875, 10.0, 15.0], method__alpha=[0.1, 0.4]),
    "joint": grid(method__alpha=[0.8, 1.2], optimizer__lr=[0.03, 0.05, 0.1]),
    "selc": grid(method__alpha=[0.7, 0.8, 0.9], method__start_before=[0.05, 0.1]),
    "selc_plus": grid(training__epochs=EPOCHS, method__alpha=[0.7, 0.8, 0.9]),
    "m_correction": grid(method__variant=["M-DYR-H", "M-DYR-S", "MD-DYR-SH"], method__warm_up=[0.15, 0.35]),
    "decoupling": grid(method__warm_up=[0.0, 0.1, 1 / 3], method__min_fraction=[0.0, 0.1]),
    # The noise rate is estimated in all settings.
    "co_teaching": grid(method__ramp=[0.05, 0.25], method__exponent=[0.5, 1.0, 2.0]),
    "co_teaching_plus": grid(method__warm_up=[0.1, 0.25, 0.5], method__min_fraction=[0.0, 0.1]),
    "jocor": grid(method__ramp=[0.05, 0.25], method__lam=[0.5, 0.65, 0.9]),
    # The weak view is the image itself here, which tells nothing by a second draw.
    "morph": grid(method__consistency_view=["strong"], method__history=[3, 10], method__weight=[0.0, 1.0, 5.0]),
    # λ_u follows from the estimated noise rate in all settings.
    "dividemix": grid(method__penalty=[0.0, 1.0], method__warm_up=[0.05, 0.1, 0.25]),
    "elr_plus": grid(method__beta=[0.7, 0.9], method__lam=[1.0, 3.0, 7.0]),
    "unicon": grid(method__lambda_u=[3.0, 10.0, 30.0], method__warm_up=[0.1, 0.25]),
    # η = 12 and 48, with a warm-up of zero, two or four epochs.
    "permll": grid(method__init=[0.35], method__lr=[0.09375, 0.375], method__warm_up=[0, 158, 316]),
    # η = 12, 48 and 192.
    "permll-label": grid(
        method__on=["label"], method__init=[0.35], method__lr=[0.09375, 0.375, 1.5], method__warm_up=[0, 316]
    ),
}
