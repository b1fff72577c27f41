"""The whole way of a new user, on four kinds of data: clean, review in a real browser, apply, train, and be better off."""

import csv
import json
import shlex
import signal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from PIL import Image

from permll.cleaning.decisions import Decisions
from permll.cleaning.findings import Finding, Findings
from tests.browser import test_review
from tests.browser.test_review import Visitor, name_in, press, says, settled, shown
from tests.cleaning.mislabelled import CLASSES, Mislabelled, mislabelled
from tests.cli import conftest
from tests.cli.conftest import Here
from tests.cli.test_clean import WORDS, save_csv
from tests.cli.test_commands import run
from tests.review.process import Server

visit, here = test_review.visit, conftest.here  # fixtures
ROWS, WRONG, TEST_ROWS = 400, 100, 300
PAGE = 24  # samples of the grid


class Kind(NamedTuple):
    """Names of a data set, of clean rows to test on and of the corrected one, and how to read and train on them."""

    data: str
    test: str
    new: str
    reading: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    epochs: int = 20


# Wrong labels harm plain cross-entropy where it has learned them by heart. For a perceptron on so few rows twenty epochs
# are enough for that; a CNN needs ten, of images that look the same each time.
KINDS = {
    "images": Kind("images", "test", "fixed", training=("--set", "views.weak=[]"), epochs=10),
    "texts": Kind("texts.csv", "test.csv", "fixed.csv", ("--text", "words", "--label", "kind")),
    "table": Kind("table.parquet", "test.parquet", "fixed.parquet", ("--label", "species")),
    "vectors": Kind("features.npz", "test.npz", "fixed.npz"),
}


def write(kind: str, path: Path, known: Mislabelled, seed: int) -> None:
    """Write samples that tell their true class well, but not with every pixel, word or number."""
    rng = np.random.default_rng(seed)
    true = known.true.tolist()
    if kind == "images":
        for row, label in enumerate(known.labels):
            pixels = rng.integers(0, 100, (8, 8, 3)) + 20 * np.eye(3, dtype=int)[true[row]]
            (path / label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path / label / f"{row}.png")
    elif kind == "texts":
        any_word = [word for words in WORDS for word in words]
        texts = [" ".join([*rng.choice(WORDS[k], 5), *rng.choice(any_word, 4)]) for k in true]
        save_csv(path, ["words", "kind"], [list(pair) for pair in zip(texts, known.labels, strict=True)])
    elif kind == "table":
        colours = [("red", "green", "blue")[k if rng.random() < 0.6 else rng.integers(3)] for k in true]
        columns: dict[str, Any] = {f"size {place}": known.values[:, place].tolist() for place in range(8)}
        columns |= {"colour": colours, "species": known.labels}
        for row, name in enumerate(rng.choice(list(columns)[:-1], len(true)).tolist()):
            if rng.random() < 0.3:
                columns[name][row] = None
        pl.DataFrame(columns).write_parquet(path)
    else:
        np.savez(path, X=known.values, y=np.array(known.labels))


def permll(*words: str) -> str:
    """Return what a command prints."""
    done = run(*words, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return done.stdout


def content(path: Path) -> dict[str, bytes]:
    """Return every file of a data set, byte for byte."""
    files = sorted(path.rglob("*.*")) if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def review(visit: Visitor, folder: Path) -> list[tuple[Finding, str, str]]:
    """Review as people do; return what was found with the verdict and the label that should come of it, in order."""
    found, decisions = Findings.load(folder), Decisions(folder)
    ranked = [found[row] for row in found.order.tolist()]
    ids = [one.id for one in ranked]
    (rest,) = set(CLASSES) - {ranked[2].given, ranked[2].proposed}
    with Server(folder, "--no-open") as server:
        page = visit(server.url)
        assert shown(page) == ids[0]
        page.get_by_role("button", name="Accept").click()
        name_in(page, "Ada")
        says(page, "#progress", "1 of")
        settled(page)
        press(page, "k", "c")
        page.keyboard.type(rest)
        page.wait_for_selector("#found li:only-child")
        page.keyboard.press("Enter")
        says(page, "#progress", "3 of")
        settled(page)
        press(page, "k", "u")
        page.reload()
        settled(page)
        assert shown(page) == ids[3]
        assert page.locator("#progress").inner_text().startswith("3 of")

        other = visit.tab(page.context, server.url)
        assert shown(other) == ids[3]
        press(other, "a")
        press(page, "k")  # has not seen that
        says(page, "#message", "in the meantime; nothing was overwritten")
        press(other, "a")
        before = decisions.log()
        server.end(signal.SIGKILL)
        press(other, "a")
        says(other, "#message", "does not answer")
    assert decisions.log() == before
    with Server(folder, "--no-open") as server:
        page = visit.tab(page.context, server.url)
        assert page.locator("#progress").inner_text().startswith("5 of")
        assert shown(page) == ids[5]
        press(page, "g")
        for last in (5 + PAGE, 5 + 2 * PAGE):
            press(page, "*", "a")
            says(page, "#progress", f"{last} of")
            press(page, "]")
        code, printed, _ = server.end(signal.SIGINT)
    assert (code, printed.splitlines()[-1].split(":")[0]) == (0, f"{last} decisions in {folder}")
    first = ["accept", "keep", "choose", "accept", "accept"]
    labels = [ranked[0].proposed, ranked[1].given, rest]
    verdicts = first + ["accept"] * 2 * PAGE
    expected = [
        (one, verdict, label)
        for one, verdict, label in zip(
            ranked, verdicts, labels + [one.proposed for one in ranked[3:last]], strict=False
        )
    ]
    # None lost, none twice, and what was taken back is still told.
    assert [entry.verdict for entry in decisions.log()] == [*first[:3], "keep", "undo", *verdicts[3:]]
    assert {one.id: (verdict, label) for one, verdict, label in expected} == {
        name: (entry.verdict, entry.label) for name, entry in decisions.current().items()
    }
    return expected


def accuracy(here: Here, kind: Kind, command: list[str], out: str) -> float:
    """Train with cross-entropy as a command says; return the accuracy on clean rows."""
    more = ["--method", "ce", "--epochs", str(kind.epochs), "--set", f"data.test={kind.test}", *kind.training]
    code, printed, complaints = here(*command, *more, "--out", out, "--json")
    assert code == 0, complaints
    return float(json.loads(printed.splitlines()[-1])["last"])


@pytest.mark.parametrize("name", KINDS)
def test_who_cleans_and_reviews_trains_better(
    name: str, visit: Visitor, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = KINDS[name]
    write(name, Path(kind.data), mislabelled(ROWS, WRONG / ROWS), seed=0)
    write(name, Path(kind.test), mislabelled(TEST_ROWS, 0, seed=1), seed=1)
    before = content(Path(kind.data))

    permll("clean", kind.data, *kind.reading, "--epochs", "8", "--out", "run")
    decided = review(visit, Path("run"))
    told = permll("apply", "run", "--auto", "--min-probability", "0.5", "--out", kind.new)
    assert content(Path(kind.data)) == before

    command = shlex.split(told.splitlines()[-1])[1:]
    noisy = accuracy(here, kind, [kind.data if word.endswith(kind.new) else word for word in command], "noisy")
    fixed = accuracy(here, kind, command, "better")
    open("/tmp/circle/log","a").write(f"{name} {told} {noisy} {fixed} {len(decided)}\n")
    assert fixed > noisy + 0.05
