"""A second round of cleaning learns from the decisions of the first; reviewed labels stay as they are."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits

from permll import Findings, Run, clean
from permll.cleaning.apply.api import apply
from permll.cleaning.earlier_round import EarlierRound
from permll.cleaning.review_decisions import Decisions
from permll.cleaning.review_progress import review_progress
from permll.noise import corrupt, named_noise
from permll.report.run_summary import compare, run_facts
from permll.training.callbacks import Callback

ROWS = 600


def write_digits(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write digits with 20 % wrong labels; return the file and the correct labels by id."""
    x, y = load_digits(return_X_y=True)
    x, y = (x[:ROWS] / 16).astype(np.float32), y[:ROWS]
    path = folder / "digits.npz"
    np.savez(path, x=x, y=corrupt(y, named_noise("sym:0.2", 10), 3).noisy)
    return path, {str(row): str(label) for row, label in enumerate(y.tolist())}


def review(run: Path, truth: dict[str, str], count: int) -> None:
    """Let a reviewer who makes no mistakes decide about the most suspect labels."""
    found, decisions = Findings.load(run), Decisions(run)
    known = decisions.current()
    rows = [row for row in found.order.tolist() if found.ids[row] not in known][:count]
    for row in rows:
        name, given = found.ids[row], found.classes[found.given_labels[row]]
        decisions.add(name, "keep" if truth[name] == given else "choose", truth[name], "Ada", expected=None)


def wrong_labels(run: Path, truth: dict[str, str]) -> int:
    """Return how many labels are wrong after the decisions."""
    found, known = Findings.load(run), Decisions(run).current()
    labels = [found.classes[k] for k in found.given_labels.tolist()]
    labels = [known[name].label if name in known else label for name, label in zip(found.ids, labels, strict=True)]
    return sum(label != truth[name] for name, label in zip(found.ids, labels, strict=True))


def test_every_round_leaves_fewer_wrong_labels(tmp_path: Path) -> None:
    path, truth = write_digits(tmp_path)
    clean(path, out=tmp_path / "run", callbacks=[])
    folder, left = tmp_path / "run", []
    for number in (2, 3):
        review(folder, truth, 50)
        left.append(wrong_labels(folder, truth))
        decided = Decisions(folder).current()
        found = clean(previous=folder, callbacks=[])
        folder = tmp_path / f"run-round{number}"
        assert Path(found.metadata["run"]) == folder
        assert Decisions(folder).current() == decided, "apply and review find them in the new run"
        reviewed = np.array([name in decided for name in found.ids])
        assert np.array_equal(found.is_reviewed, reviewed)
        assert not found.is_issue[reviewed].any()
        assert found.metadata["earlier"]["reviewed"] == reviewed.sum() == 50 * (number - 1)
        more, page = found.metadata["earlier"]["more"], (folder / "report.html").read_text()
        assert f"{50 * (number - 1)} labels reviewed, " in page
        assert (f"Reviewing the next {more}, most suspect first, would leave 1 %." in page) == (more > 0)
        labels = Run(folder).labels
        trained = dict(zip(labels.ids, [labels.classes[k] for k in labels.labels.tolist()], strict=True))
        assert all(trained[name] == one.label for name, one in decided.items()), "no reviewed label is held out"
    review(folder, truth, 50)
    left.append(wrong_labels(folder, truth))
    assert left[0] > left[1] > left[2]
    assert left[2] < 0.4 * left[0]
    groups = compare([run_facts(Run(tmp_path / name)) for name in ("run", "run-round2", "run-round3")])
    assert [group["label"].partition(", after the review of ")[2] for group in groups] == [
        "",
        str(tmp_path / "run"),
        str(tmp_path / "run-round2"),
    ]
    result = apply(folder, tmp_path / "fixed.npz")
    assert result.num_changed == sum(one.verdict == "choose" for one in Decisions(folder).current().values())
    with np.load(tmp_path / "fixed.npz") as fixed:
        assert sum(str(label) != truth[str(row)] for row, label in enumerate(fixed["y"].tolist())) == left[2]


def test_corrected_data_keep_the_reviewed_labels(tmp_path: Path) -> None:
    """The file that apply wrote says which labels were reviewed, also if they are cleaned as new data."""
    path, truth = write_digits(tmp_path)
    clean(path, out=tmp_path / "run", callbacks=[])
    review(tmp_path / "run", truth, 60)
    apply(tmp_path / "run", tmp_path / "fixed.npz")
    found = clean(tmp_path / "fixed.npz", out=tmp_path / "again", callbacks=[])
    decided = Decisions(tmp_path / "run").current()
    assert {name for name, mask in zip(found.ids, found.is_reviewed, strict=True) if mask} == set(decided)
    assert not (found.is_issue & found.is_reviewed).any()
    assert (found.label_quality[found.is_reviewed] == 1).all()


def test_estimate_of_wrong_labels_left(tmp_path: Path) -> None:
    path, truth = write_digits(tmp_path)
    found = clean(path, out=tmp_path / "run", callbacks=[])
    assert review_progress(found, {}) is None
    review(tmp_path / "run", truth, 200)
    progress = review_progress(found, Decisions(tmp_path / "run").current())
    assert progress is not None
    left = wrong_labels(tmp_path / "run", truth)
    assert (progress.reviewed, progress.samples) == (200, ROWS)
    assert progress.wrong + left == sum(
        truth[name] != found.classes[k] for name, k in zip(found.ids, found.given_labels.tolist(), strict=True)
    )
    assert progress.remaining.low <= left <= progress.remaining.high
    assert progress.remaining.high < 0.1 * ROWS
    strict = review_progress(found, Decisions(tmp_path / "run").current(), target=1e-4)
    assert strict is not None
    assert strict.more > progress.more
    assert str(progress).startswith(f"200 labels reviewed, {progress.wrong} of them wrong; about ")


class Stop(Callback):
    """Stops a training after its third epoch, as Ctrl-C does."""

    epochs = 0

    def on_epoch_end(self, trainer: object, metrics: object) -> None:  # noqa: ARG002
        self.epochs += 1
        if self.epochs == 3:
            raise KeyboardInterrupt


def test_interrupted_round_resumes_with_the_same_decisions(tmp_path: Path) -> None:
    path, truth = write_digits(tmp_path)
    clean(path, out=tmp_path / "run", callbacks=[])
    review(tmp_path / "run", truth, 50)
    expected = clean(previous=tmp_path / "run", out=tmp_path / "whole", callbacks=[])
    with pytest.raises(KeyboardInterrupt):
        clean(previous=tmp_path / "run", callbacks=[Stop()])
    folder = tmp_path / "run-round2"
    review(tmp_path / "run", truth, 5)  # later decisions do not count in a round that has begun
    resumed = clean(folder, callbacks=[])
    assert np.array_equal(resumed.label_quality, expected.label_quality)
    earlier = EarlierRound.load(Run(folder))
    assert earlier is not None
    assert len(earlier.decided) == 50


def test_invalid_rounds_are_refused(tmp_path: Path) -> None:
    path, truth = write_digits(tmp_path)
    with pytest.raises(ValueError, match="there are no data"):
        clean()
    clean(path, out=tmp_path / "run", callbacks=[], epochs=2)
    with pytest.raises(ValueError, match=r"run has no review decisions to learn from: permll review .*run first\.$"):
        clean(previous=tmp_path / "run")
    review(tmp_path / "run", truth, ROWS)
    with pytest.raises(ValueError, match=r"all labels were reviewed .* permll apply"):
        clean(previous=tmp_path / "run", callbacks=[])
    with pytest.raises(ValueError, match="remove label"):
        clean(previous=tmp_path / "run", label="y")


def test_gold_labels_of_a_table_are_never_issues(tmp_path: Path) -> None:
    path, _ = write_digits(tmp_path)
    with np.load(path) as file:
        x, y = file["x"], file["y"]
    gold = np.arange(ROWS) % 3 == 0
    table = {**{f"pixel {k}": x[:, k] for k in range(x.shape[1])}, "label": [f"digit {k}" for k in y], "checked": gold}
    pl.DataFrame(table).write_parquet(tmp_path / "digits.parquet")
    found = clean(tmp_path / "digits.parquet", out=tmp_path / "run", gold="checked", callbacks=[])
    rows = [int(name) % 3 == 0 for name in found.ids]
    assert found.is_reviewed.tolist() == rows
    assert not found.is_issue[found.is_reviewed].any()
    assert found.is_issue.any()
    arrays = clean(x, y, gold=gold, out=None, callbacks=[])
    assert arrays.is_reviewed.tolist() == [int(name) % 3 == 0 for name in arrays.ids]
