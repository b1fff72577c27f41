"""``permll review``: the server as a process, the rest in this process."""

import csv
import io
import json
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

from permll.cleaning.review_decisions import Decisions
from tests.helpers.command_line import error_message, run_cli, run_process
from tests.helpers.review_process import Server
from tests.helpers.review_runs import make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run("vectors", tmp_path_factory.mktemp("vectors")).folder


def open_address(url: str, **headers: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    return opener.open(urllib.request.Request(url, headers=headers), timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_review_serves_until_it_is_stopped(folder: Path, number: int) -> None:
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
    assert printed.splitlines()[-1] == f"0 decisions in {folder}"


@pytest.mark.slow
def test_review_listens_on_localhost_only(folder: Path) -> None:
    with Server(folder) as server:
        port = int(re.findall(r":(\d+)/", server.url)[0])
        with socket.socket() as other:
            other.bind(("127.0.0.2", port))  # free, since the server listens on 127.0.0.1 only
        taken = run_process("review", folder, "--port", str(port))
    assert f"port {port}" in error_message(taken)


@pytest.mark.slow
def test_review_warns_about_public_host(folder: Path) -> None:
    with Server(folder, "--host", "0.0.0.0") as server, Server(folder) as other:
        assert server.url.split("token=")[1] != other.url.split("token=")[1]
        with open_address(server.url) as page:
            assert page.status == 200
        code, _, complaints = server.end(signal.SIGTERM)
    assert code == 0
    (line,) = complaints.splitlines()
    assert "0.0.0.0 can be reached from other machines" in line


class Client:
    """Sends the requests of the review page."""

    def __init__(self, url: str) -> None:
        self.root, _, token = url.partition("/?token=")
        cookie = f"permll-review-{self.root.rpartition(':')[2]}={token}"
        self.headers = {"Cookie": cookie, "Origin": self.root, "Content-Type": "application/json"}

    def keep(self, row: int, reviewer: str) -> tuple[int, dict[str, Any]]:
        """Keep a label that is undecided as far as this client knows."""
        body = json.dumps(
            {"samples": [{"row": row, "last_entry": 0}], "verdict": "keep", "reviewer": reviewer}
        ).encode()
        request = urllib.request.Request(f"{self.root}/api/decide", body, self.headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


@pytest.mark.slow
def test_two_killed_servers_of_one_run_keep_all_decisions(tmp_path: Path) -> None:
    folder = make_run("vectors", tmp_path).folder
    source = (tmp_path / "vectors.npz").read_bytes()
    with Server(folder, "--no-open") as server, Server(folder, "--no-open") as other:
        ada, bob = Client(server.url), Client(other.url)
        assert ada.keep(0, "Ada")[0] == 200
        code, answer = bob.keep(0, "Bob")
        assert (code, answer["items"][0]["decision"]["reviewer"]) == (409, "Ada")
        assert answer["conflicts"][0].startswith("Ada ")
        assert bob.keep(1, "Bob")[0] == 200
        server.process.kill()
        other.process.kill()
    assert [(entry.id, entry.reviewer) for entry in Decisions(folder).log()] == [("0", "Ada"), ("1", "Bob")]
    assert (tmp_path / "vectors.npz").read_bytes() == source


def test_review_log_is_printed_as_csv(tmp_path: Path) -> None:
    folder = make_run("table", tmp_path).folder
    assert run_cli("review", folder, "--log").stdout == "number,id,verdict,label,reviewer,at,takes_back\n"
    assert not (folder / "decisions.sqlite").exists()
    decisions = Decisions(folder)
    decisions.add("3", "choose", 'a "label", with commas', "Ada", expected=None)
    decisions.undo("Ada")
    printed = run_cli("review", folder, "--log")
    assert printed.returncode == 0
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert [row["verdict"] for row in rows] == ["choose", "undo"]
    assert [row["label"] for row in rows] == ['a "label", with commas'] * 2
    assert [row["takes_back"] for row in rows] == ["", "1"]


def test_review_reports_missing_files_in_one_line(tmp_path: Path, folder: Path) -> None:
    assert "nowhere does not exist" in error_message(run_cli("review", tmp_path / "nowhere"))
    assert str(tmp_path) in error_message(run_cli("review", tmp_path))
    (tmp_path / "recipe.toml").write_text((folder / "recipe.toml").read_text())
    assert "permll clean" in error_message(run_cli("review", tmp_path))
    source = tmp_path / "elsewhere" / "vectors.npz"
    source.parent.mkdir()
    run = make_run("vectors", source.parent).folder
    source.rename(tmp_path / "vectors.npz")
    assert str(source) in error_message(run_cli("review", run))


def test_review_without_uvicorn_prints_install_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)  # as if it were not installed
    hint = "pip install 'permll[review]', or in a clone: pip install '.[review]'"
    assert error_message(run_cli("review", folder)).endswith(hint)
    assert run_cli("review", folder, "--log").returncode == 0


def test_cli_does_not_import_the_server() -> None:
    code = "import sys, permll.cli.main; print({'starlette', 'uvicorn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"
