from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="no Starlette here: pip install 'permll[review]'")

from permll.review.app import make_app
from permll.review.session import ReviewSession
from permll.training.run import Run
from tests.helpers.review_client import TOKEN, open_client
from tests.helpers.review_runs import make_run, make_session


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a function from a kind of data to a run, which is created once."""
    runs: dict[str, Run] = {}

    def find(kind: str) -> Run:
        if kind not in runs:
            runs[kind] = make_run(kind, tmp_path_factory.mktemp(kind))
        return runs[kind]

    return find


@pytest.fixture
def session(run_of: Callable[[str], Run], tmp_path: Path) -> ReviewSession:
    """Return a review of texts without decisions."""
    return make_session(run_of("texts"), tmp_path)


@pytest.fixture
def app(session: ReviewSession) -> Any:
    return make_app(session, token=TOKEN, port=8000, title="<b>run</b>")


@pytest.fixture
def client(app: Any) -> Iterator[Any]:
    with open_client(app) as client:
        yield client
