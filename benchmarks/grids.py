"""The six settings that each method may choose from at tier mini: the authors' own among them, where there are any.

Optimizer and schedule are those of the tier, for all alike; only joint optimisation, whose idea is a high learning
rate, chooses that too. Cross-entropy has nothing of its own to choose: six optimizers are tried for it as well, to see
what they can do, and it keeps the tier's. Methods that train a second network from scratch may take twice the epochs,
as they do in their papers.
"""

from itertools import product
from typing import Any

Setting = dict[str, Any]  # dotted keys of a recipe


def grid(**values: list[Any]) -> list[Setting]:
    """Return all combinations, keys with two underscores for a dot."""
    keys = [key.replace("__", ".") for key in values]
    return [dict(zip(keys, chosen, strict=True)) for chosen in product(*values.values())]


FRAME = {"optimizer.lr": 0.05, "optimizer.weight_decay": 5e-4}  # of tier mini
TWICE = [40, 80]  # epochs
SHARES = [0.25, 0.5, 0.75]

GRIDS: dict[str, list[Setting]] = {
    "ce": grid(optimizer__lr=[0.02, 0.05, 0.1], optimizer__weight_decay=[5e-4, 2e-3]),
    "bootstrap_soft": grid(method__beta=[0.95, 0.9, 0.8, 0.7, 0.55, 0.4]),
    "bootstrap_hard": grid(method__beta=[0.8, 0.7, 0.65, 0.6, 0.5, 0.4]),
    "gce": grid(method__q=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    "gce_truncated": grid(method__q=[0.7, 0.9], method__k=[0.1, 0.3, 0.5]),
    "sl": grid(method__alpha=[0.03, 0.1, 0.3], method__A=[-4.0, -9.2103]),
    # A memory of ten epochs is longer than a stage here.
    "nlnl": grid(method__average=[3], training__epochs=TWICE, method__complementary=[1, 3, 9]),
    "jnpl": grid(method__average=[3], training__epochs=TWICE, method__complementary=[1, 3, 9]),
    "forward": grid(training__epochs=TWICE, method__estimate=SHARES),
    "backward": grid(training__epochs=TWICE, method__estimate=SHARES),
    "glc": grid(training__epochs=TWICE, method__estimate=SHARES),
    "dual_t": grid(training__epochs=TWICE, method__estimate=SHARES),
    "t_revision": grid(method__estimate=[0.1, 0.25], method__revision_lr=[5e-6, 5e-5, 5e-4]),
    "s_model": grid(training__epochs=TWICE, method__baseline=SHARES),
    "c_model": grid(training__epochs=TWICE, method__baseline=SHARES),
    "sukhbaatar": grid(method__freeze=SHARES, method__decay=[0.3, 1.0]),
    "webly": grid(method__baseline=SHARES, method__neighbors=[5, 10]),
    # Two perturbations in place of ten: a fifth of the time.
    "mlnt": grid(method__perturbations=[2], method__baseline=[0.25, 0.5], method__meta_lr=[0.05, 0.2, 0.5]),
    "elr": grid(method__beta=[0.7, 0.9], method__lam=[1.0, 3.0, 7.0]),
    "sop": grid(method__lr_u=[0.078125, 0.25], method__lr_v=[0.078125, 0.78125, 4.0]),
    "pencil": grid(method__lr=[4.6875, 10.0, 15.0], method__alpha=[0.1, 0.4]),
    "joint": grid(method__alpha=[0.8, 1.2], optimizer__lr=[0.03, 0.05, 0.1]),
    "selc": grid(method__alpha=[0.7, 0.8, 0.9], method__start_before=[0.05, 0.1]),
    "selc_plus": grid(training__epochs=TWICE, method__alpha=[0.7, 0.8, 0.9]),
    "m_correction": grid(method__variant=["M-DYR-H", "M-DYR-S", "MD-DYR-SH"], method__warm_up=[0.15, 0.35]),
    "decoupling": grid(method__warm_up=[0.0, 0.1, 1 / 3], method__min_fraction=[0.0, 0.1]),
    # The noise rate is estimated in all of them.
    "co_teaching": grid(method__ramp=[0.05, 0.25], method__exponent=[0.5, 1.0, 2.0]),
    "co_teaching_plus": grid(method__warm_up=[0.1, 0.25, 0.5], method__min_fraction=[0.0, 0.1]),
    "jocor": grid(method__ramp=[0.05, 0.25], method__lam=[0.5, 0.65, 0.9]),
    # The weak view is the image itself here, which tells nothing by a second draw.
    "morph": grid(method__consistency_view=["strong"], method__history=[3, 10], method__weight=[0.0, 1.0, 5.0]),
    # λ_u follows from the estimated noise rate in all of them.
    "dividemix": grid(method__penalty=[0.0, 1.0], method__warm_up=[0.05, 0.1, 0.25]),
    "elr_plus": grid(method__beta=[0.7, 0.9], method__lam=[1.0, 3.0, 7.0]),
    "unicon": grid(method__lambda_u=[3.0, 10.0, 30.0], method__warm_up=[0.1, 0.25]),
    # η = 12 and 48; cross-entropy for no, two or four epochs first.
    "permll": grid(method__init=[0.35], method__lr=[0.09375, 0.375], method__warm_up=[0, 158, 316]),
    # On the label, with η = 12, 48 and 192.
    "permll-label": grid(
        method__on=["label"], method__init=[0.35], method__lr=[0.09375, 0.375, 1.5], method__warm_up=[0, 316]
    ),
}
