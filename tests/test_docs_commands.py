"""The commands and the Python code of README and docs run as printed, and print what the pages show."""

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import permll
from permll.cleaning.review_decisions import Decisions, to_verdict
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.command_line import run_cli
from tests.helpers.docs_inputs import write_more_inputs
from tests.helpers.docs_pages import Example, prints, read_examples, read_page, split_command
from tests.helpers.example_data import FEATURES, PHOTOS, REVIEWS, TABLE, class_in, row_of, write_example
from tests.helpers.mislabeled_data import CLASSES, mislabeled
from tests.helpers.review_process import Server

KNOWN = mislabeled(400, 0.2)
REVIEWED = 40
PAGES = ("README.md", "docs/clean.md", "docs/review.md", "docs/apply.md")
NOT_RUN = {
    "make demo": "the Makefile sets up an environment over the network",
    "make test": "this is it",
}
# Sections of docs/clean.md with data of their own.
MORE_INPUTS = ("Predictions you have already", "Several annotators", "scikit-learn estimators", "Audit")
SECTIONS = {  # of README.md
    "Clean a data set": "test_cleaning_pages_run_as_printed",
    "Train, compare, predict": "test_readme_training_runs_as_printed",
    "Two commands": "NOT_RUN",
    "Three lines in a PyTorch loop": "tests/test_readme.py",
    "Data and noise": "test_readme_data_code_runs_as_printed",
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the data sets that the pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in (PHOTOS, REVIEWS, TABLE, FEATURES):
        write_example(Path(name), KNOWN, seed=0)
    return tmp_path


@pytest.fixture
def names() -> dict[str, Any]:
    """Return the variables that Python code of the pages uses."""
    probs = np.full((len(KNOWN.true), 3), 0.05)
    probs[np.arange(len(probs)), KNOWN.true] = 0.9
    features = {"features": KNOWN.values, "embeddings": KNOWN.values, "X": KNOWN.values, "X_new": KNOWN.values[:5]}
    return {
        "permll": permll,
        "labels": KNOWN.given,
        "y": KNOWN.given,
        "pred_probs": probs,
        **features,
    }


def test_every_example_of_readme_is_covered() -> None:
    found = [section for section in SECTIONS for _ in read_examples(read_page("README.md", section))]
    assert len(found) == len(read_examples(read_page("README.md")))
    assert set(found) == set(SECTIONS)
    commands = [example.code for page in PAGES for example in read_examples(read_page(page))]
    assert all(any(command.startswith(start) for command in commands) for start in NOT_RUN)


def test_cleaning_pages_run_as_printed(workspace: Path, names: dict[str, Any]) -> None:
    for page in PAGES:
        text = read_page(page, "Clean a data set" if page == "README.md" else None)
        for section in MORE_INPUTS if page == "docs/clean.md" else ():
            text = text.replace(read_page(page, section), "")
        with restored(workspace):
            if page in ("docs/review.md", "docs/apply.md"):  # they continue where docs/clean.md ends
                for example in read_examples(read_page("docs/clean.md"))[:4]:
                    check(example, page, names)
                review(Path("runs/photos-permll-0"))
                review(Path("runs/table-permll-0"), 25)
            for example in read_examples(text):
                check(example, page, names)


@pytest.mark.slow
@pytest.mark.parametrize("section", MORE_INPUTS)
@pytest.mark.filterwarnings("ignore:the images are shown in the sorted order")
def test_other_inputs_run_as_printed(workspace: Path, names: dict[str, Any], section: str) -> None:
    names |= write_more_inputs(workspace, KNOWN, names["pred_probs"])
    for example in read_examples(read_page("docs/clean.md", section)):
        check(example, "docs/clean.md", names)


@pytest.mark.slow
def test_readme_training_runs_as_printed(workspace: Path, names: dict[str, Any]) -> None:
    Path("new_photos").mkdir()
    for row, path in enumerate(sorted(Path(PHOTOS).rglob("*.png"))[:4]):
        Image.open(path).save(Path("new_photos") / f"{row}.png")
    for example in read_examples(read_page("README.md", "Train, compare, predict")):
        check(example, "README.md", names)


def test_readme_data_code_runs_as_printed(workspace: Path, names: dict[str, Any]) -> None:
    for example in read_examples(read_page("README.md", "Data and noise")):
        check(example, "README.md", names)
    batches = list(names["stream"])
    assert sum(len(batch.index) for batch in batches) == len(names["train"])
    assert batches[0].views.keys() == {"plain", "weak", "strong"}
    assert 0.3 < names["record"].rate < 0.7


@contextmanager
def restored(folder: Path) -> Iterator[None]:
    """Remove the outputs of a page at its end; runs stay, so that the next page only reads them."""
    before = set(folder.iterdir())
    yield
    for path in set(folder.iterdir()) - before - {folder / "runs"}:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def check(example: Example, page: str, names: dict[str, Any]) -> None:
    """Run an example in the current folder; it must succeed and print what the page shows."""
    if example.kind == "python":
        exec(compile(example.code, page, "exec"), names)
        return
    if any(example.code.startswith(start) for start in NOT_RUN):
        return
    words, target = split_command(example.code)
    assert words[0] == "permll", example.code
    if words[1] == "review" and "--log" not in words:
        output = serve(words[2:])
    else:
        result = run_cli(*words[1:])
        assert result.returncode == 0, f"{page}: {example.code}\n{result.stderr}"
        output = result.stdout
    if target is not None:
        Path(target).write_text(output)
    assert not example.output or prints(output, example.output), f"{page}: {example.code} prints\n{output}"


def serve(arguments: list[str]) -> str:
    """Start a review, decide, and stop it with Ctrl-C; return what it prints."""
    folder = Path(arguments[0])
    with Server(folder, *arguments[1:]) as server:
        review(folder)
        line = server.process.stdout.readline()  # the next one; the first has the address
        code, output, errors = server.end(signal.SIGINT)
    assert (code, errors) == (0, "")
    return re.sub(r"=\S+", "=...", f"Review {folder} at {server.url}\n") + line + output


def review(folder: Path, count: int = REVIEWED) -> None:
    """Let a reviewer who makes no mistakes decide about the most suspect labels."""
    findings, decisions, source = Findings.load(folder), Decisions(folder), Path(Run(folder).recipe.data.source)
    known = decisions.current()
    for finding in findings.head(count):
        if finding.id not in known:
            label = class_in(source, CLASSES[int(KNOWN.true[row_of(finding.id)])])
            verdict = to_verdict(label, finding.given_label, finding.proposed_label)
            decisions.add(finding.id, verdict, label, "Ada", expected=None)
