"""Files and variables of the sections of docs/clean.md about predictions, annotators, estimators and the audit."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from permll import PermutationLayer
from tests.helpers.example_data import PHOTOS, STARS, TABLE, row_of
from tests.helpers.mislabeled_data import CLASSES, Mislabeled


def write_more_inputs(folder: Path, data: Mislabeled, probs: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Write the files beside those of the workspace; return the variables of the Python code."""
    table = pl.read_parquet(folder / TABLE)
    table.write_csv(folder / "table.csv")
    pl.DataFrame({STARS[name]: probs[:, k] for k, name in enumerate(CLASSES)}).write_csv(folder / "probabilities.csv")
    own = probs[np.arange(len(probs)), data.given]
    issues = pl.DataFrame(
        {
            "is_label_issue": own < 0.5,
            "label_quality": own,
            "given_label": data.labels,
            "predicted_label": [CLASSES[k] for k in probs.argmax(1)],
        }
    )
    issues.write_csv(folder / "issues.csv")
    paths = sorted(str(path.relative_to(folder / PHOTOS)) for path in (folder / PHOTOS).rglob("*.png"))
    rows = [row_of(path) for path in paths]
    answers = _answers(data)
    named = {f"ann_{number}": [CLASSES[k] for k in answers[:, number]] for number in range(3)}
    pl.DataFrame({f"x{k}": data.values[:, k] for k in range(8)} | named).write_csv(folder / "answers.csv")
    lines = [(path, name, named[name][row]) for path, row in zip(paths, rows, strict=True) for name in named]
    pl.DataFrame(lines, schema=["id", "annotator", "label"], orient="row").write_csv(folder / "photo_answers.csv")
    np.savez(folder / "data.npz", X=data.values, answers=answers)
    patients = {"patient": [f"patient {row // 4}" for row in range(len(probs))], "species": data.labels}
    pl.DataFrame({f"x{k}": data.values[:, k] for k in range(8)} | patients).rename({"species": "label"}).write_csv(
        folder / "scans.csv"
    )
    for part in ("train", "test"):
        shutil.copytree(folder / PHOTOS, folder / "animals" / part, dirs_exist_ok=True)
    return {
        "layer": PermutationLayer(torch.from_numpy(data.given[rows]), len(CLASSES)),
        "logits": torch.from_numpy(np.log(probs[rows])).float(),
        "issues": issues.to_pandas(),
        "frame": table.to_pandas(),
        "answers": answers,
    }


def _answers(data: Mislabeled) -> np.ndarray[Any, Any]:
    """Return the answers (N, 3) of annotators who are wrong about 10, 20 and 30 % of the samples."""
    generator = np.random.default_rng(0)
    columns = [
        np.where(generator.random(len(data.true)) < rate, (data.true + 1) % len(CLASSES), data.true)
        for rate in (0.1, 0.2, 0.3)
    ]
    return np.stack(columns, 1)
