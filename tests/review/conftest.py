from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="no Starlette here: pip install 'permll[review]'")

from permll.review.app import make_app
from permll.review.session import ReviewSession
from permll.training.run import Run
from tests.helpers.review_runs import make_desk, make_run

TOKEN = "a-token-for-tests"
HOME = "http://127.0.0.1:8000"


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a function from a kind of data to a run, trained when it is asked for first."""
    made: dict[str, Run] = {}

    def find(kind: str) -> Run:
        if kind not in made:
            made[kind] = make_run(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return find


@pytest.fixture
def session(run_of: Callable[[str], Run], tmp_path: Path) -> ReviewSession:
    """Return the desk of texts, without decisions."""
    return make_desk(run_of("texts"), tmp_path)


@pytest.fixture
def app(session: ReviewSession) -> Any:
    return make_app(session, token=TOKEN, port=8000, title="<b>run</b>")


@pytest.fixture
def client(app: Any) -> Iterator[Any]:
    with open_client(app) as opened:
        yield opened


def open_client(app: Any) -> Any:
    """Return somebody who opened the address with its token, and sends what a browser would send."""
    from starlette.testclient import TestClient

    client = TestClient(app, base_url=HOME, headers={"Origin": HOME, "Sec-Fetch-Site": "same-origin"})
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client
