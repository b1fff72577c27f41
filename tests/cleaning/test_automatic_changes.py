"""Labels that may change without a review."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from permll import clean
from permll.cleaning.apply.corrections import select_corrections
from permll.cleaning.automatic_changes import MIN_CLASS_SIZE, may_change
from permll.data.labels import similar_names


def test_no_change_into_rare_or_misspelled_classes() -> None:
    classes = ["cat", "dog", "CAT", "emu"]
    counts = [50, 40, 30, MIN_CLASS_SIZE - 1]
    labels = torch.arange(4).repeat_interleave(torch.tensor(counts))
    for k, expected in enumerate([True, True, False, False]):
        assert may_change(torch.full_like(labels, k), labels, classes).tolist() == [expected] * len(labels), classes[k]
    assert similar_names(["a b", "A  B", "ab", " a b"]) == [[0, 1, 3]]


def test_duplicates_with_different_labels_are_for_review(tmp_path: Path) -> None:
    """Automatic changes leave them, and the class of a typo, as they are."""
    generator = np.random.default_rng(0)
    truth = np.arange(1600) % 2
    x = generator.normal(size=(1600, 4)) * 0.5 + 4 * truth[:, None]
    labels = np.where(truth == 0, "cat", "dog").astype(object)
    labels[::10] = np.where(truth[::10] == 0, "dog", "cat")
    labels[1:160:8] = "Dog"  # the same class, written in another way
    x[1::50] = x[0]  # equal samples with different labels
    path = tmp_path / "animals.csv"
    pl.DataFrame({**{f"x{k}": x[:, k] for k in range(4)}, "label": labels.tolist()}).write_csv(path)
    with pytest.warns(UserWarning, match="differ only in case or spaces"):
        found = clean(path, out=tmp_path / "run", callbacks=[], epochs=20)
    changed = select_corrections(found, {}, auto=True)
    assert len(changed) > 5
    assert {one.after for one in changed} <= {"cat", "dog"}
    in_conflict = {found.ids[row] for group in found.duplicates for row in group}
    assert in_conflict
    assert not {one.id for one in changed} & in_conflict
