"""Numbers of Tables 1 and 2 of the paper, from its LaTeX source (permll.tex).

On Robust Learning from Noisy Labels: A Permutation Layer Approach (AAAI 2023).
Test accuracy in percent, mean and standard deviation, exactly as printed. Methods have their names in the registry.
Missing numbers ("-") have no entry, nor has Pencil on CIFAR-100 with 80 % symmetric noise, printed as "fail". The paper
does not say which of the two bootstrapping losses it reports, so both have its numbers. Its numbers of most methods are
cited from other publications; its authors ran only PermLL.
"""

from typing import NamedTuple


class PaperResult(NamedTuple):
    """Mean over seeds and standard deviation in percent; None if not printed."""

    mean: float
    sd: float | None = None


TABLE1_NOISE = ("sym-20", "sym-40", "sym-60", "sym-80", "asym-20", "asym-40")

_Row = tuple[tuple[float, float | None] | None, ...]
_BOOTSTRAP_10: _Row = ((86.23, 0.23), (82.23, 0.37), (75.12, 0.56), (54.12, 1.32), (88.26, 0.24), (81.21, 1.47))
_BOOTSTRAP_100: _Row = ((58.27, 0.21), (47.66, 0.55), (34.68, 1.1), (21.64, 0.97), (62.14, 0.32), (45.12, 0.57))
_TABLE1: dict[str, dict[str, _Row]] = {
    "cifar10": {
        "ce": ((86.98, 0.12), (81.88, 0.29), (74.14, 0.56), (53.82, 1.04), (88.59, 0.34), (80.11, 1.44)),
        "bootstrap_soft": _BOOTSTRAP_10,
        "bootstrap_hard": _BOOTSTRAP_10,
        "forward": ((87.99, 0.36), (83.25, 0.38), (74.96, 0.65), (54.64, 0.44), (89.09, 0.47), (83.55, 0.58)),
        "gce": ((89.83, 0.20), (87.13, 0.22), (82.54, 0.23), (64.07, 1.38), (89.33, 0.17), (76.74, 0.61)),
        "joint": ((92.25, None), (90.79, None), (86.87, None), (69.16, None), None, None),
        "sl": ((89.83, 0.32), (87.13, 0.26), (82.81, 0.61), (68.12, 0.81), (90.44, 0.27), (82.51, 0.45)),
        "elr": ((91.16, 0.08), (89.15, 0.17), (86.12, 0.49), (73.86, 0.61), (93.52, 0.23), (90.12, 0.47)),
        "selc": ((93.09, 0.02), (91.18, 0.06), (87.25, 0.09), (74.13, 0.14), None, (91.05, 0.11)),
        "permll": ((93.17, 0.11), (91.30, 0.23), (87.94, 0.21), (75.83, 0.56), (92.16, 0.15), (86.09, 0.23)),
    },
    "cifar100": {
        "ce": ((58.72, 0.26), (48.20, 0.65), (37.41, 0.94), (18.10, 0.8), (59.20, 0.18), (42.74, 0.61)),
        "bootstrap_soft": _BOOTSTRAP_100,
        "bootstrap_hard": _BOOTSTRAP_100,
        "forward": ((39.19, 2.61), (31.05, 1.44), (19.12, 1.95), (8.99, 0.58), (42.46, 2.16), (34.44, 1.93)),
        "gce": ((66.81, 0.42), (61.77, 0.24), (53.16, 0.78), (29.16, 0.74), (66.59, 0.22), (47.22, 1.15)),
        "joint": ((58.15, None), (54.81, None), (47.94, None), (17.18, None), None, None),
        "pencil": ((73.86, 0.34), (69.12, 0.62), (57.70, 3.86), None, None, (63.61, 0.23)),
        "sl": ((70.38, 0.13), (62.27, 0.22), (54.82, 0.57), (25.91, 0.44), (72.56, 0.22), (69.32, 0.87)),
        "elr": ((74.21, 0.22), (68.28, 0.31), (59.28, 0.67), (29.78, 0.56), (74.03, 0.31), (73.26, 0.64)),
        "selc": ((73.63, 0.07), (68.46, 0.10), (59.41, 0.06), (32.63, 0.06), None, (70.82, 0.09)),
        "permll": ((74.35, 0.34), (71.37, 0.36), (65.58, 0.37), (45.81, 0.49), (72.66, 0.13), (51.60, 0.11)),
    },
}
_TABLE2 = {
    "ce": 69.10,
    "forward": 69.84,
    "pencil": 73.49,
    "jnpl": 74.15,
    "joint": 72.16,
    "elr_plus": 74.81,
    "dividemix": 74.76,
    "unicon": 74.98,
    "mlnt": 73.47,
    "permll": 74.99,
}

PAPER_RESULTS: dict[tuple[str, str, str, str], PaperResult] = {
    ("table1", method, data, noise): PaperResult(*number)
    for data, rows in _TABLE1.items()
    for method, row in rows.items()
    for noise, number in zip(TABLE1_NOISE, row, strict=True)
    if number is not None
} | {("table2", method, "clothing1m", "real"): PaperResult(mean) for method, mean in _TABLE2.items()}
"""By table, method, data set and noise: ``PRINTED["table1", "permll", "cifar10", "sym-60"]``."""
