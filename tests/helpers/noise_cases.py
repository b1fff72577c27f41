"""Real data beside the project, where there are some."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_data(name: str) -> dict[str, Any]:
    """Return the arrays of a file of real data; skip the test where it is not there."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"the real data {name}.npz are not beside the project")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files if not key.startswith(("x_", "q_", "text_"))}
