"""Digits with 40 % wrong labels, a network and a layer, for trainings in other frameworks."""

from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import permll
from permll.layer.base import CorrectionLayer
from tests.helpers.docs_pages import read_examples, read_page

N, C = 1400, 10  # training samples


@cache
def digits() -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs of all samples, their classes, and labels of the first N with 40 % noise."""
    x, y = load_digits(return_X_y=True)
    labels = permll.corrupt(y[:N], "sym:0.4", seed=0).noisy
    return torch.as_tensor(x) / 16, torch.as_tensor(y), torch.as_tensor(labels)


def build_net() -> nn.Module:
    """Return a network in double precision, the same at every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, C)).double()


def build_layer(**settings: Any) -> CorrectionLayer:
    """Return a layer whose samples have states of double precision."""
    return permll.PermutationLayer(digits()[2], C, dtype=torch.float64, **settings)


def run_page_example(section: str) -> dict[str, Any]:
    """Run the code of a section of docs/integrations.md in the current folder; return its variables."""
    names: dict[str, Any] = {"__name__": "example"}
    for part in ("Data", section):
        (example,) = read_examples(read_page("docs/integrations.md", part))
        exec(compile(example.code, "docs/integrations.md", "exec"), names)
    return names


def share_right(labels: Tensor) -> float:
    """Return the fraction of the N labels that are correct."""
    return float((labels == digits()[1][:N]).double().mean())


def result(net: nn.Module, layer: CorrectionLayer) -> dict[str, Tensor]:
    """Return weights, labels and the state of the layer."""
    state = {f"layer.{name}": value for name, value in layer.state_dict().items() if value.is_floating_point()}
    weights = {f"net.{name}": value for name, value in net.state_dict().items()}
    copied = {name: value.detach().clone().contiguous() for name, value in (state | weights).items()}
    return copied | {"corrected": layer.corrected_labels()}


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor], atol: float = 0.0) -> None:
    """Raise if two results differ by more than ``atol``."""
    assert actual.keys() == expected.keys()
    for key, value in actual.items():
        torch.testing.assert_close(value, expected[key], rtol=0, atol=atol, equal_nan=True, msg=key)
