"""``permll review``, run as the process a user would start; what needs no server also in this one."""

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

from permll.cleaning.decisions import Decisions
from tests.cli.conftest import Inside
from tests.helpers.review_process import PERMLL, Server
from tests.helpers.review_runs import make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run("vectors", tmp_path_factory.mktemp("vectors")).folder


def review(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"NO_COLOR": "1"} | environment
    return subprocess.run([PERMLL, "review", *arguments], capture_output=True, text=True, env=env, timeout=120)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def open_address(url: str, **headers: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    return opener.open(urllib.request.Request(url, headers=headers), timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end_and_says_how_many_decisions_there_are(
    tmp_path: Path, folder: Path, number: int
) -> None:
    with Server(folder, "--reviewer", "Ada", "--no-open") as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{40,}", server.url)
        with open_address(server.url) as page:
            assert b'data-reviewer="Ada"' in page.read()
            assert page.headers["server"] is None
        with pytest.raises(urllib.error.HTTPError, match="403"):
            open_address(server.url.split("?")[0])
        with pytest.raises(urllib.error.HTTPError, match="421"):
            open_address(server.url, Host="evil.example")
        code, printed, complaints = server.end(number)
    assert (code, complaints) == (0, "")
    assert (
        printed.splitlines()[-1]
        == f"0 decisions in {folder}: permll apply {folder} --out NEW writes the data set with them."
    )


def test_it_is_reached_from_this_machine_alone(folder: Path) -> None:
    with Server(folder) as server:
        port = int(re.findall(r":(\d+)/", server.url)[0])
        with socket.socket() as other:
            other.bind(("127.0.0.2", port))  # free: only 127.0.0.1 was taken
        taken = review(folder, "--port", str(port))
    assert f"cannot listen on port {port} of 127.0.0.1" in sentence(taken)


def test_another_host_is_warned_of_and_tokens_differ(folder: Path) -> None:
    with Server(folder, "--host", "0.0.0.0") as server, Server(folder) as other:
        assert server.url.split("token=")[1] != other.url.split("token=")[1]
        with open_address(server.url) as page:
            assert page.status == 200
        code, _, complaints = server.end(signal.SIGTERM)
    assert code == 0
    (line,) = complaints.splitlines()
    assert "others can reach 0.0.0.0" in line


class Visitor:
    """Somebody who opened the address of a server, and sends what its page would send."""

    def __init__(self, url: str) -> None:
        self.home, _, token = url.partition("/?token=")
        cookie = f"permll-review-{self.home.rpartition(':')[2]}={token}"
        self.headers = {"Cookie": cookie, "Origin": self.home, "Content-Type": "application/json"}

    def keep(self, row: int, who: str) -> tuple[int, dict[str, Any]]:
        """Decide to keep a label that nobody decided about, as far as this page knows."""
        body = json.dumps({"samples": [{"row": row, "last_entry": 0}], "verdict": "keep", "reviewer": who}).encode()
        asked = urllib.request.Request(f"{self.home}/api/decide", body, self.headers)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)


def test_two_servers_of_one_run_that_are_killed_lose_and_overwrite_nothing(tmp_path: Path) -> None:
    folder = make_run("vectors", tmp_path).folder
    source = (tmp_path / "vectors.npz").read_bytes()
    with Server(folder, "--no-open") as server, Server(folder, "--no-open") as other:
        ada, bob = Visitor(server.url), Visitor(other.url)
        assert ada.keep(0, "Ada")[0] == 200
        code, told = bob.keep(0, "Bob")
        assert (code, [told["conflicts"][0][:8], told["items"][0]["decision"]["reviewer"]]) == (
            409,
            ["Ada kept", "Ada"],
        )
        assert bob.keep(1, "Bob")[0] == 200
        server.process.kill()
        other.process.kill()
    assert [(entry.id, entry.reviewer) for entry in Decisions(folder).log()] == [("0", "Ada"), ("1", "Bob")]
    assert (tmp_path / "vectors.npz").read_bytes() == source


def test_the_log_is_printed_as_csv(tmp_path: Path, inside: Inside) -> None:
    folder = make_run("table", tmp_path).folder
    assert inside("review", folder, "--log").stdout == "number,id,verdict,label,reviewer,at,takes_back\n"
    assert not (folder / "decisions.sqlite").exists()
    decisions = Decisions(folder)
    decisions.add("3", "choose", 'a "label", with commas', "Ada", expected=None)
    decisions.undo("Ada")
    printed = review(folder, "--log")
    assert printed.returncode == 0
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert [row["verdict"] for row in rows] == ["choose", "undo"]
    assert [row["label"] for row in rows] == ['a "label", with commas'] * 2
    assert [row["takes_back"] for row in rows] == ["", "1"]


def test_what_is_missing_is_said_in_a_sentence(tmp_path: Path, folder: Path, inside: Inside) -> None:
    assert "there is no run" in sentence(inside("review", tmp_path / "nowhere"))
    assert "is no run" in sentence(inside("review", tmp_path))
    (tmp_path / "recipe.toml").write_text((folder / "recipe.toml").read_text())
    assert "has no findings: permll clean" in sentence(inside("review", tmp_path))
    source = tmp_path / "elsewhere" / "vectors.npz"
    source.parent.mkdir()
    run = make_run("vectors", source.parent).folder
    source.rename(tmp_path / "vectors.npz")
    assert f"there is no {source}, which {run} was made from: bring it back" in sentence(inside("review", run))


def test_a_missing_extra_is_named_with_its_command(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['uvicorn'] = None\n")  # as if it were not there
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert sentence(review(folder, PYTHONPATH=paths)).endswith("pip install 'permll[review]'")
    assert review(folder, "--log", PYTHONPATH=paths).returncode == 0  # needs none of it


def test_importing_the_commands_imports_no_server() -> None:
    code = "import sys, permll.cli.main; print({'starlette', 'uvicorn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"
