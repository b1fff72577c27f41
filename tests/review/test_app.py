"""The review application through its API, on four kinds of data."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.cleaning.review_decisions import Decisions
from permll.data.dataset import LabeledData
from permll.data.inputs import Vectors
from permll.findings import Findings
from permll.review.app import ASSETS, make_app
from permll.review.queue import Filter
from permll.review.session import ReviewSession
from permll.training.run import Run
from tests.helpers.review_client import TOKEN, open_client
from tests.helpers.review_runs import KINDS, ROWS, make_session

PREVIEWS = {"images": "image", "texts": "text", "table": "cells", "vectors": "vector"}


def decide(client: Any, samples: list[tuple[int, int]], verdict: str, label: str = "", who: str = "Ada") -> Any:
    rows = [{"row": row, "last_entry": last_entry} for row, last_entry in samples]
    return client.post("/api/decide", json={"samples": rows, "verdict": verdict, "label": label, "reviewer": who})


@pytest.mark.parametrize("kind", KINDS)
def test_app_serves_all_kinds_of_data(kind: str, run_of: Callable[[str], Run], tmp_path: Path) -> None:
    session = make_session(run_of(kind), tmp_path)
    with open_client(make_app(session, token=TOKEN, port=8000, title=kind)) as client:
        page = client.get("/api/samples").json()
        assert page["matching"] == int(session.findings.is_issue.sum()) == len(page["items"])
        first = page["items"][0]
        detail = client.get(f"/api/samples/{first['row']}").json()["item"]
        assert detail["preview"]["kind"] == PREVIEWS[kind]
        assert detail["candidates"][0]["label"] == detail["proposed"]
        assert len(detail["neighbors"]) == 3
        assert detail["reason"] == "the training corrected it; the classifier predicts another class"
        for side in (160, 320, 1200):
            picture = client.get(f"/images/{first['row']}/{side}")
            assert picture.status_code == (200 if kind == "images" else 404)
            if kind == "images":
                assert picture.headers["content-type"] == "image/jpeg"
                assert "max-age" in picture.headers["cache-control"]
        assert decide(client, [(first["row"], 0)], "accept").json()["progress"]["decided"] == 1
    again = make_session(run_of(kind), tmp_path)
    assert again.item(first["row"])["decision"]["label"] == first["proposed"]
    assert first["row"] not in [item["row"] for item in again.page(Filter())["items"]]


def test_app_normalizes_verdicts(client: Any, session: ReviewSession) -> None:
    row = int(session.findings.order[0])
    item = client.get(f"/api/samples/{row}").json()["item"]
    third = next(
        entry["label"] for entry in item["candidates"] if entry["label"] not in (item["given"], item["proposed"])
    )
    cases = [
        ("accept", "", "accept", item["proposed"]),
        ("keep", "", "keep", item["given"]),
        ("choose", third, "choose", third),
        ("choose", item["given"], "keep", item["given"]),
        ("choose", item["proposed"], "accept", item["proposed"]),
        ("unsure", "not a class", "unsure", item["given"]),
    ]
    last_entry = 0
    for verdict, label, meant, holds in cases:
        response = decide(client, [(row, last_entry)], verdict, label)
        assert response.status_code == 200
        fresh = response.json()["items"][0]
        assert (fresh["decision"]["verdict"], fresh["decision"]["label"]) == (meant, holds)
        assert fresh["state"] == ("unsure" if verdict == "unsure" else "decided")
        last_entry = fresh["last_entry"]
    assert decide(client, [(row, last_entry)], "choose", "no such class").status_code == 400
    assert len(session.decisions.log()) == len(cases)
    trusted = int(session.findings.order[-1])  # nothing else is proposed
    assert session.findings[trusted].given_label == session.findings[trusted].proposed_label
    assert decide(client, [(trusted, 0)], "accept").json()["items"][0]["decision"]["verdict"] == "keep"


def test_undo_is_per_reviewer(client: Any, session: ReviewSession) -> None:
    rows = session.findings.order[:3].tolist()
    for row, who in zip(rows, ("Ada", "Bob", "Ada"), strict=True):
        decide(client, [(row, 0)], "accept", who=who)
    undone = [client.post("/api/undo", json={"reviewer": "Ada"}).json() for _ in range(3)]
    assert [entry["item"]["row"] if entry["item"] else None for entry in undone] == [rows[2], rows[0], None]
    assert undone[0]["item"]["state"] == "open"
    assert undone[2]["undone"] is None
    assert list(session.decisions.current()) == [session.findings.ids[rows[1]]]
    history = client.get(f"/api/samples/{rows[0]}").json()["item"]["history"]
    assert [entry["verdict"] for entry in history] == ["accept", "undo"]


def test_stale_verdict_is_a_conflict(client: Any, session: ReviewSession) -> None:
    row = int(session.findings.order[0])
    Decisions(session.decisions.path.parent).add(
        session.findings.ids[row], "keep", session.findings[row].given_label, "Bob", expected=0
    )
    response = decide(client, [(row, 0)], "accept")
    assert response.status_code == 409
    (sentence,) = response.json()["conflicts"]
    assert "Bob kept" in sentence
    fresh = response.json()["items"][0]
    assert (fresh["decision"]["reviewer"], fresh["last_entry"]) == ("Bob", 1)
    assert len(session.decisions.log()) == 1
    assert decide(client, [(row, fresh["last_entry"])], "accept").status_code == 200
    assert decide(client, [(int(session.findings.order[1]), 99)], "keep").status_code == 409


def test_concurrent_verdicts_conflict(session: ReviewSession) -> None:
    row = int(session.findings.order[0])
    samples = [{"row": row, "last_entry": 0}]

    def decide_as(who: str) -> list[str]:
        return session.decide_all(samples, "keep", "", who)[1]

    people = [f"reviewer {number}" for number in range(8)]
    with ThreadPoolExecutor(len(people)) as pool:
        conflicts = dict(zip(people, pool.map(decide_as, people), strict=True))
    (first,) = [who for who, messages in conflicts.items() if not messages]
    (entry,) = session.decisions.log()
    assert entry.reviewer == first
    assert all(messages == [f"{first} kept “{entry.label}” for {entry.id} in the meantime; nothing was overwritten."]
               for who, messages in conflicts.items() if who != first)  # fmt: skip


def test_batch_verdict_reports_conflicts(client: Any, session: ReviewSession) -> None:
    rows = session.findings.order[:4].tolist()
    decide(client, [(rows[1], 0)], "keep", who="Bob")
    response = decide(client, [(row, 0) for row in rows], "accept")
    assert response.status_code == 409
    assert len(response.json()["conflicts"]) == 1
    verdicts = [item["decision"]["verdict"] for item in response.json()["items"]]
    assert verdicts == ["accept", "keep", "accept", "accept"]


def test_app_filters_and_counts(client: Any, session: ReviewSession) -> None:
    rows = session.findings.order[:3].tolist()
    decide(client, [(rows[0], 0)], "accept")
    decide(client, [(rows[1], 0)], "unsure")
    counts = {
        state: client.get("/api/samples", params={"state": state}).json()
        for state in ("open", "decided", "unsure", "any")
    }
    flagged = int(session.findings.is_issue.sum())
    assert {state: entry["matching"] for state, entry in counts.items()} == {
        "open": flagged - 2,
        "decided": 1,
        "unsure": 1,
        "any": flagged,
    }
    assert counts["open"]["progress"] == {"total": flagged, "decided": 1, "unsure": 1, "open": flagged - 2}
    assert client.get("/api/samples", params={"all": "1", "state": "any"}).json()["matching"] == ROWS
    pairs = client.get("/api/pairs", params={"query": "bad"}).json()["pairs"]
    assert {entry["given"] for entry in pairs} | {entry["proposed"] for entry in pairs} >= {"bad"}
    assert all("bad" in (entry["given"], entry["proposed"]) for entry in pairs)
    page = client.get("/api/samples", params={"pair": pairs[0]["pair"]}).json()
    assert len(page["items"]) == pairs[0]["open"]
    assert {(item["given"], item["proposed"]) for item in page["items"]} == {(pairs[0]["given"], pairs[0]["proposed"])}
    beside = client.get(f"/api/samples/{rows[0]}", params={"state": "open"}).json()
    assert beside["position"] is None
    assert client.get(f"/api/samples/{rows[2]}", params={"state": "any"}).json()["position"] == 3


def test_app_searches_classes(client: Any) -> None:
    response = client.get("/api/classes", params={"query": "GOOD"}).json()
    assert response == {"classes": [{"name": "good", "key": "2"}], "similar": [], "new": ""}
    assert [entry["key"] for entry in client.get("/api/classes").json()["classes"]] == ["1", "2", "3"]
    similar = client.get("/api/classes", params={"query": " goood "}).json()
    assert similar == {"classes": [{"name": "good", "key": "2"}], "similar": ["good"], "new": "goood"}
    assert client.get("/api/classes", params={"query": "owl"}).json() == {"classes": [], "similar": [], "new": "owl"}
    assert client.get("/api/classes", params={"query": "o" * 101}).json()["new"] == ""


def test_app_drops_and_undoes(client: Any, session: ReviewSession) -> None:
    row = int(session.findings.order[0])
    item = decide(client, [(row, 0)], "drop", "ignored").json()["items"][0]
    assert (item["decision"]["verdict"], item["decision"]["label"], item["state"]) == ("drop", "", "decided")
    stale = decide(client, [(row, 0)], "keep", who="Bob")
    assert stale.json()["conflicts"] == [f"Ada dropped {item['id']} in the meantime; nothing was overwritten."]
    undone = client.post("/api/undo", json={"reviewer": "Ada"}).json()
    assert (undone["undone"]["verdict"], undone["item"]["state"]) == ("drop", "open")


def test_app_adds_class_until_it_is_undone(client: Any, session: ReviewSession) -> None:
    def choose(row: int, label: str, *, add_class: bool, last_entry: int = 0) -> Any:
        samples = [{"row": row, "last_entry": last_entry}]
        body = {"samples": samples, "verdict": "choose", "label": label, "reviewer": "Ada", "add_class": add_class}
        return client.post("/api/decide", json=body)

    rows = session.findings.order[:3].tolist()
    assert choose(rows[0], "owl", add_class=False).status_code == 400
    assert choose(rows[0], "GOOD", add_class=True).json()["message"] == (
        "the class 'GOOD' differs from 'good' in case or form only: choose 'good'."
    )
    assert session.decisions.log() == []
    added = choose(rows[0], " owl ", add_class=True).json()
    assert added["keys"] == {"1": "bad", "2": "good", "3": "so <i>so</i>", "4": "owl"}
    assert added["items"][0]["candidates"][-1] == {"label": "owl", "probability": None, "key": "4"}
    assert choose(rows[1], "owl", add_class=False).status_code == 200  # it exists now
    assert choose(rows[2], "Owl", add_class=True).status_code == 400
    assert choose(rows[2], "elk", add_class=True).json()["keys"]["5"] == "elk"
    last_entry = client.get(f"/api/samples/{rows[1]}").json()["item"]["last_entry"]
    assert choose(rows[1], "elk", add_class=False, last_entry=last_entry).json()["keys"]["4"] == "owl"
    last_entry = client.get(f"/api/samples/{rows[0]}").json()["item"]["last_entry"]
    without = choose(rows[0], "good", add_class=True, last_entry=last_entry).json()["keys"]
    assert without == {"1": "bad", "2": "good", "3": "so <i>so</i>", "5": "elk"}  # elk keeps its key
    again = client.post("/api/undo", json={"reviewer": "Ada"}).json()["keys"]
    assert again["4"] == "owl"
    reopened = ReviewSession(session.findings, session.samples, session.decisions)
    assert reopened.overview(Filter())["keys"] == again


def test_app_finds_samples_by_id(client: Any, session: ReviewSession) -> None:
    found = client.get("/api/search", params={"query": "R1"}).json()
    assert (found["count"], len(found["samples"])) == (11, 11)  # 1 and 10 to 19
    assert found["samples"][0].keys() == {"row", "id", "given", "proposed", "state"}
    page = client.get("/api/samples", params={"find": "r1", "state": "any", "all": "1", "sort": "confidence"}).json()
    assert {item["row"] for item in page["items"]} == {entry["row"] for entry in found["samples"]}
    assert [item["place"] for item in page["items"]] == sorted(item["place"] for item in page["items"])
    assert client.get("/api/search").json() == {"samples": [], "count": 0}
    assert client.get("/api/search", params={"query": "x" * 201}).status_code == 400


def test_app_serves_matrix_of_every_flagged_label(client: Any) -> None:
    matrix = client.get("/api/matrix", params={"pair": "0-1"}).json()  # the pair is ignored
    assert sum(cell["count"] for cell in matrix["cells"]) == matrix["matching"] == matrix["progress"]["total"]
    assert matrix["classes"] == ["bad", "good", "so <i>so</i>"]


def test_app_estimates_wrong_labels_left(client: Any, session: ReviewSession) -> None:
    assert client.get("/api/progress").json() == {"sentence": ""}  # these findings have no noise rate
    decide(client, [(int(session.findings.order[0]), 0)], "accept")
    sentence = client.get("/api/progress").json()["sentence"]
    assert re.match(r"1 label reviewed, 1 of them wrong; about \d+ wrong labels are left", sentence)
    assert client.get("/api/progress").json()["sentence"] == sentence


@pytest.mark.parametrize(
    "query",
    [
        "state=maybe",
        "after=-1",
        "after=x",
        "limit=1e3",
        "pair=1",
        "pair=a-b",
        "pair=1-2-3",
        "sort=x",
        "find=" + "x" * 201,
        "after=" + "9" * 40,
    ],
)
def test_app_refuses_invalid_query(client: Any, query: str) -> None:
    response = client.get(f"/api/samples?{query}")
    assert response.status_code == 400
    assert re.fullmatch(r"[^\n]+\.", response.json()["message"])


@pytest.mark.parametrize(
    "change",
    [
        {"samples": []},
        {"samples": None},
        {"samples": [{"row": 0, "last_entry": 0}] * 101},
        {"samples": [{"row": "0", "last_entry": 0}]},
        {"samples": [{"row": True, "last_entry": 0}]},
        {"samples": [{"row": 0}]},
        {"samples": [{"row": -1, "last_entry": 0}]},
        {"samples": [{"row": ROWS, "last_entry": 0}]},
        {"verdict": "undo"},
        {"verdict": ["keep"]},
        {"label": 3},
        {"add_class": 1},
        {"verdict": "choose", "label": "", "add_class": True},
        {"verdict": "choose", "label": "a\nb", "add_class": True},
        {"reviewer": ""},
        {"reviewer": " "},
        {"reviewer": "x" * 81},
        {"reviewer": "a\nb"},
        {"reviewer": None},
    ],
)
def test_app_refuses_invalid_verdict(client: Any, session: ReviewSession, change: dict[str, Any]) -> None:
    body = {"samples": [{"row": 0, "last_entry": 0}], "verdict": "keep", "label": "", "reviewer": "Ada"} | change
    assert client.post("/api/decide", json=body).status_code in (400, 404)
    assert session.decisions.log() == []


def test_app_refuses_invalid_body(client: Any, session: ReviewSession) -> None:
    for content, status in [(b"", 400), (b"[1]", 400), (b"{", 400), (b"[" * 9000, 400), (b" " * 70_000, 413)]:
        response = client.post("/api/decide", content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == status
    assert session.decisions.log() == []


def test_page_size_is_independent_of_findings(tmp_path: Path) -> None:
    import torch

    sizes = []
    for rows in (10, 100_000):
        posterior = np.full((rows, 2), 0.5, np.float32) + np.array([[-0.4, 0.4]], np.float32)
        ids = [f"row {number}" for number in range(rows)]
        findings = Findings.from_posterior(ids, ["cat", "dog"], np.zeros(rows, int), posterior)
        data = LabeledData(
            Vectors(torch.zeros(rows, 3)), torch.zeros(rows, dtype=torch.int64), ("cat", "dog"), tuple(ids)
        )
        session = ReviewSession(findings, data, Decisions(tmp_path / str(rows)))
        with open_client(make_app(session, token=TOKEN, port=8000, title="run")) as client:
            sizes.append(len(client.get("/").content))
            page = client.get("/api/samples", params={"limit": "100000", "after": str(rows // 2)})
            assert len(page.json()["items"]) == min(rows // 2, 100)
            assert page.json()["matching"] == rows
            assert len(page.content) < 60_000
    assert sizes[0] == sizes[1]


def test_app_handles_missing_sample_and_damaged_image(run_of: Callable[[str], Run], tmp_path: Path) -> None:
    session = make_session(run_of("images"), tmp_path)
    fewer = ReviewSession(session.findings, session.samples.take(list(range(1, ROWS))), Decisions(tmp_path))
    assert fewer.item(0)["preview"] == {"kind": "none"}
    assert fewer.thumbnail(0, 160) is None
    source = Path(session.samples.inputs.open.root) / session.samples.ids[5]  # type: ignore[attr-defined]
    before = source.read_bytes()
    try:
        source.write_bytes(before[: len(before) // 2])
        with open_client(make_app(session, token=TOKEN, port=8000, title="run")) as client:
            assert client.get("/images/5/160").status_code == 404
            assert client.get("/api/samples/5").status_code == 200
    finally:
        source.write_bytes(before)
    assert session.thumbnail(5, 160) is not None


def test_assets_are_complete_and_share_colors_with_reports(client: Any) -> None:
    from importlib.resources import files

    pages = {name: client.get(f"/assets/{name}") for name in ASSETS}
    assert {page.status_code for page in pages.values()} == {200}
    scripts = "".join(page.text for name, page in pages.items() if name.endswith(".js"))
    imported = set(re.findall(r'from "\./([\w.]+)"', scripts)) | set(
        re.findall(r'"/assets/([\w.]+)"', client.get("/").text)
    )
    assert imported == set(ASSETS)
    report = files("permll.report").joinpath("templates", "base.css").read_text()
    for name in ("ink", "muted", "paper", "raised", "edge", "accent", "link", "best", "good"):
        colors = re.findall(rf"--{name}: (#\w+)", report)[:2]
        assert re.findall(rf"--{name}: (#\w+)", pages["style.css"].text) == colors
    assert {file.name for file in files("permll.review").joinpath("page").iterdir()} == {*ASSETS, "index.html"}
