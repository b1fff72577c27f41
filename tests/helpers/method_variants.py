"""Settings of methods for contract tests: state, passes or networks differ from those of the defaults."""

from typing import Any

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "bootstrap_hard": [{"warm_up_epochs": 2}],
    "nlnl": [{"average": 2, "complementary": 4}],
    "forward": [{"T": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]], "quantile": 1.0}],
    "t_revision": [{"estimate": 3, "reweight": 2, "estimate_lr": 0.1, "revision_lr": 1e-3}],
    "elr": [{"top_k": 2, "state": "bfloat16"}],
    "sop": [{"consistency": 0.9, "balance": 0.1, "u_loss": "both"}, {"top_k": 2}],
    "pencil": [{"first": 2, "compatibility": "plain", "lr": 3.0, "final_lr": 0.1}],
    "joint": [{"window": 2, "prior": "given", "first": 1, "second": 3, "final_lr": 0.1}],
    "m_correction": [{"variant": "M-DYR-S"}, {"variant": "MD-DYR-SH"}],
    "c_model": [{"baseline": 2, "simple": 1, "neighbors": 2}],
    "mlnt": [{"baseline": 2, "perturbations": 2, "begin": 0.0, "full": 0.3, "second_order": False}],
    "decoupling": [{"warm_up": 2, "min_fraction": 0.0}],
    "co_teaching": [{"noise_rate": 0.3, "ramp": 3, "exponent": 2.0, "schedule": "code"}, {"ramp": 4}],
    "co_teaching_plus": [{"noise_rate": 0.2, "warm_up": 0, "double_softmax": True}, {"ramp": 2, "warm_up": 3}],
    "jocor": [{"noise_rate": 0.3, "lam": 0.5}, {"ramp": 3}],
    "morph": [{"history": 2, "ramp": 2, "consistency_view": "strong"}, {"history": 3, "weight": 0.0}],
    "dividemix": [
        {"warm_up": 2, "history": 2, "lambda_u": 5.0, "penalty": 0.0, "guess": "training"},
        {"draws": 30, "mixup_on": "labeled", "threshold": 0.7},
    ],
    "elr_plus": [{"refine_labels": True, "lam_ramp": 0.5, "decay_ramp": 0.0, "draws": 40, "top_k": 2}],
    "unicon": [{"units": "nats", "unlabeled_ratio": 1.0, "draws": 40, "guess": "evaluating"}],
    "permll": [
        {"balance": "corrected", "warm_up": 5},
        {"networks": 2, "on": "label", "lr": 0.1, "balance": "given", "warm_up": 0.5},
        {"top_k": 2, "balance": "corrected"},
        {"state": "bfloat16", "lr": 0.1},
        {"state": "disk"},
    ],
    "permll_plus": [{"held_out": 0.5}, {"top_k": 2, "state": "bfloat16"}, {"state": "disk"}],
    "selc": [{"turning_point": 2, "top_k": 2, "state": "disk"}],
    "selc_plus": [{"turning_point": 0.3, "correction": 3}],
}
