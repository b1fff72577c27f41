"""The commands of the README, twice over, in a real browser: people's labels stay, and every round repairs more."""

import re
import shlex
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from permll.review.class_keys import assign_keys
from tests.helpers.browser import Reviewer, current_id, press, wait_for_text, wait_until_idle
from tests.helpers.docs_pages import read_page
from tests.helpers.example_data import class_in, row_of, write_example
from tests.helpers.mislabeled_data import CLASSES, mislabeled
from tests.helpers.review_process import run_here

KNOWN = mislabeled(400, 0.25)
CHANGED, KEPT = 16, 3  # decisions of a round; one more sample is dropped
LABELS = {"reviews.csv": "stars", "table.parquet": "species", "features.npz": "y"}


def readme_commands(data: str) -> list[str]:
    """Return the four commands of the README, for photos/ or one of the data sets that its comment names."""
    lines = re.findall(r"^    permll (.*)$", read_page("README.md", "Clean a data set"), re.MULTILINE)
    commands, (comment, *_) = [line.split("  #")[0].strip() for line in lines], [line.split("# ")[1] for line in lines]
    if data == "photos":
        return commands
    (arguments,) = (words for words in comment.removeprefix("or ").split(", ") if words.startswith(data))
    path = Path(data)
    new = {
        "photos/": arguments,
        "photos-permll-0": f"{path.stem}-permll-0",
        "photos-fixed": f"{path.stem}-fixed{path.suffix}",
    }
    return [re.sub("|".join(new), lambda found: new[found[0]], command) for command in commands]


@dataclass
class Game:
    """What is known about a data set: which row of ``KNOWN`` each row of the file is, and what people decided."""

    data: Path
    rows: list[int] = field(default_factory=lambda: list(range(400)))
    decided: dict[int, str] = field(default_factory=dict)  # row -> label; "" for a dropped sample

    def row(self, name: str) -> int:
        return self.rows[int(name)] if name.isdecimal() else row_of(name)

    def truth(self, row: int) -> str:
        return class_in(Path(self.data.name.replace("-fixed", "")), CLASSES[int(KNOWN.true[row])])

    def labels(self) -> dict[int, str]:
        """Return the labels of the file by row."""
        if self.data.is_dir():
            return {row_of(path.name): path.parent.name for path in self.data.rglob("*.png")}
        column = LABELS[re.sub(r"-fixed(-\d)?", "", self.data.name)]
        if self.data.suffix == ".npz":
            with np.load(self.data) as arrays:
                values = arrays[column].tolist()
        else:
            frame = pl.read_csv(self.data) if self.data.suffix == ".csv" else pl.read_parquet(self.data)
            values = frame[column].to_list()
        return dict(zip(self.rows, map(str, values), strict=True))

    def wrong(self) -> int:
        return sum(label != self.truth(row) for row, label in self.labels().items())

    def review(self, page: Any, folder: Path) -> None:
        """Decide by keys, as a reviewer who knows the labels: change the most suspect, drop one, keep some."""
        found = Findings.load(folder)
        keys = assign_keys(found.classes)
        for number in range(CHANGED + 1):
            finding = found[found.ids.index(current_id(page))]
            row = self.row(finding.id)
            truth = self.truth(row)
            assert row not in self.decided, "a decided label is not shown again"
            self.decided[row] = truth if number else ""
            verdict = keys[truth] if finding.proposed_label != truth else "a"
            press(page, "d" if not number else "k" if truth == finding.given_label else verdict)
        correct = [one for one in found.head(None) if one.given_label == self.truth(self.row(one.id))]
        for finding in [one for one in correct if self.row(one.id) not in self.decided][:KEPT]:
            page.keyboard.press("/")
            page.wait_for_selector("#picker[open]")
            page.fill("#search", finding.id)
            page.keyboard.press("Enter")
            page.wait_for_selector("#picker:not([open])", state="attached")
            wait_for_text(page, ".sample figcaption code", finding.id)
            wait_until_idle(page)
            assert current_id(page) == finding.id
            press(page, "k")
            self.decided[self.row(finding.id)] = finding.given_label

    def apply(self, command: str) -> None:
        """Write the corrected data, and continue with them."""
        run_here(*shlex.split(command)[1:])
        dropped = {row for row, label in self.decided.items() if not label}
        self.data = Path(shlex.split(command)[4])
        self.rows = [row for row in self.rows if row not in dropped]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "from_corrected"),
    [("photos", True), ("reviews.csv", False), ("table.parquet", True), ("features.npz", False)],
)
def test_readme_commands_twice_over(
    data: str, from_corrected: bool, reviewer: Reviewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clean, review, apply, again = readme_commands(data)
    game = Game(Path(data))
    write_example(game.data, KNOWN, seed=0)
    left = [game.wrong()]

    output = run_here(*shlex.split(clean))
    assert f"Review the flagged labels:  permll {review}\n" in output
    assert f"Write the corrected data:  permll {apply}\n" in output
    output = play(game, reviewer, review)
    assert f"Write the corrected data:  permll {apply}\n" in output
    assert f"Or learn from the decisions first, and find more:  permll {again}\n" in output
    first = dict(game.decided)
    source, rows = game.data, game.rows
    game.apply(f"permll {apply}")
    left.append(game.wrong())

    second = f"{clean.split()[0]} {game.data} {' '.join(clean.split()[2:])}" if from_corrected else again
    if not from_corrected:
        game.data, game.rows = source, rows
    output = run_here(*shlex.split(second))
    (review,) = re.findall(r"^Review the flagged labels:  permll (.*)$", output, re.MULTILINE)
    (apply,) = re.findall(r"^Write the corrected data:  (.*)$", output, re.MULTILINE)
    found = Findings.load(review.split()[1])
    reviewed = [game.row(name) for name, mask in zip(found.ids, found.is_reviewed, strict=True) if mask]
    dropped = {row for row, label in first.items() if not label}
    assert set(reviewed) == (set(first) - dropped if from_corrected else set(first))
    assert not (found.is_issue & found.is_reviewed).any()
    if not from_corrected:
        assert f"Since runs/{Path(data).stem}-permll-0: {len(first)} labels reviewed, " in output

    play(game, reviewer, review)
    game.apply(f"{apply} --auto")
    left.append(game.wrong())
    assert left[0] > left[1] > left[2], left
    labels = game.labels()
    assert {row: labels.get(row, "") for row in first} == first, "what people decided in the first round stays"
    assert {row: labels.get(row, "") for row in game.decided} == game.decided


def play(game: Game, reviewer: Reviewer, command: str) -> str:
    """Serve a review, decide in the browser, and stop the server with Ctrl-C; return what it printed at the end."""
    folder = Path(shlex.split(command)[1])
    before = len(Decisions(folder).current())
    with reviewer.serve_process(folder, "--reviewer", "Ada") as server:
        game.review(reviewer.open(server.url), folder)
        reviewer.close_pages()
        code, output, errors = server.end(signal.SIGINT)
    assert (code, errors) == (0, "")
    assert len(Decisions(folder).current()) == before + CHANGED + 1 + KEPT
    return output
