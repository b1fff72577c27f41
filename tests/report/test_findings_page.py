"""The page of findings as a file: whole, by itself, of bounded size, and true to what the findings say."""

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.findings import Findings
from permll.report.findings.confusion_html import MOST, transition
from permll.report.findings.histogram import BINS, histogram, ticks
from permll.report.findings.issue_cards import CARDS, FEW
from permll.report.findings.preview_html import CELLS, TEXT, VALUES, draw_look
from permll.report.findings_page import findings_page
from permll.report.findings_text import findings_facts, findings_summary
from tests.report.test_bench_page import Tags, parsed

BAD = '<script>alert("x")</script>$title ${made} $$ &amp; \'"><img src=x>'
NOISE = {"rate": 0.2, "low": 0.15, "high": 0.25, "rows": 50}


def some(rows: int = 60, classes: tuple[str, ...] = ("ant", "bee", "cat"), wrong: int = 20, **more: Any) -> Findings:
    """Return findings whose first ``wrong`` labels are flagged, the more surely the earlier."""
    rng = np.random.default_rng(0)
    c = len(classes)
    given = rng.integers(0, c, rows)
    posterior = np.full((rows, c), 0.02 / c) + 0.98 * np.eye(c)[given]
    conservative_model = np.arange(min(wrong, rows))
    sure = np.linspace(0.99, 0.6, len(conservative_model))[:, None]
    other = (given[conservative_model] + 1 + rng.integers(0, c - 1, len(conservative_model))) % c
    posterior[conservative_model] = sure * np.eye(c)[other] + (1 - sure) * np.eye(c)[given[conservative_model]]
    return Findings.from_posterior(
        more.pop("ids", [f"row-{row}" for row in range(rows)]),
        classes,
        given,
        posterior,
        reasons=np.where(np.arange(rows) < wrong, 3, 0),
        metadata={"noise": NOISE} | more.pop("metadata", {}),
        **more,
    )


def text_of(row: int) -> dict[str, Any]:
    return {"kind": "text", "text": f"sample {row}", "more": 0}


def written(folder: Path, findings: Findings, look: Any = text_of, **more: Any) -> tuple[Tags, str]:
    options: dict[str, Any] = {"title": "insects", "made": {"Seed": 0}, "commands": [("Next:", "permll review run")]}
    path = folder / "report.html"
    path.write_text(findings_page(findings, look, **options | more), encoding="utf-8")
    return parsed(path), path.read_text(encoding="utf-8")


def cards(page: Tags) -> list[dict[str, str | None]]:
    return [attributes for tag, attributes in page.tags if tag == "li" and attributes.get("class") == "card"]


def test_everything_is_inside_and_nothing_else_may_run(tmp_path: Path) -> None:
    transition = {"transition": np.eye(3).tolist()}
    page, text = written(tmp_path, some(duplicates=((0, 1),), metadata=transition))
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "base")
        assert "src" not in attributes
        assert attributes.get("href", "#") == "findings.csv" or str(attributes.get("href", "#")).startswith("#")
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    asked = [attributes[key] for _, attributes in page.tags for key in ("aria-labelledby", "for") if key in attributes]
    asked += [str(attributes["href"])[1:] for _, attributes in page.tags if str(attributes.get("href")).startswith("#")]
    assert {name for one in asked for name in str(one).split()} <= set(names)
    heads = [tag for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert heads == ["h1", *["h2"] * 4]
    (policy,) = (attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    (script,) = re.findall(r"<script>(.*)</script>", text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{allowed}';" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_it_says_what_the_text_says(tmp_path: Path) -> None:
    findings = some(duplicates=((0, 1), (2, 3)))
    facts, page = findings_facts(findings), written(tmp_path, findings)[0]
    rate, flagged, *_, last = findings_summary(findings).splitlines()
    assert flagged.split(":")[0] == "20 of 60 labels are flagged"
    for said in (rate, "20 of 60 labels are flagged", last, "permll review run"):
        assert said in page.text
    for one in facts["classes"]:
        assert f"{one['class']}{one['labels']}{one['flagged']}{100 * one['share']:.0f} %" in page.text
    cells = [attributes["title"] for tag, attributes in page.tags if tag == "td" and "title" in attributes]
    assert Counter(str(cell).split(" label")[0] for cell in cells) == Counter(
        f"{pair['given']} → {pair['proposed']}: {pair['count']}" for pair in facts["pairs"]
    )


def test_cards_come_by_rank_with_what_to_decide_by(tmp_path: Path) -> None:
    findings = some(ids=[f"{row:03}/Photo" for row in range(60)])
    page, text = written(tmp_path, findings)
    first = findings.head(20)
    assert [str(card["data-words"]).split()[0] for card in cards(page)] == [one.id.lower() for one in first]
    assert len(cards(page)) == 20
    one = text.split('<li class="card"')[1].split("</li>")[0]
    assert f'<bdi class="was">{first[0].given}</bdi> <small>1&nbsp;%</small>' in one
    assert f'<bdi class="now">{first[0].proposed}</bdi> <small>99&nbsp;%</small>' in one
    assert "the training corrected it; the network sees another class" in one
    assert "<span>1</span> <code>000/Photo</code>" in one
    assert f"sample {findings.order[0]}<" in one


def test_nothing_wrong_is_said_kindly_and_no_more_than_is_known(tmp_path: Path) -> None:
    page, _ = written(tmp_path, some(wrong=0))
    assert "No label is flagged" in page.text
    assert "No label of 60 is more likely wrong than right. That is good news, not proof" in page.text
    assert "Trusted least, though none of them is flagged" in page.text
    assert len(cards(page)) == FEW
    assert not any(tag == "form" for tag, _ in page.tags)  # there is nothing to choose from
    assert "mixed up" not in page.text
    doubtful, _ = written(tmp_path, some(wrong=0, duplicates=((0, 1),)))
    assert "Yet 1 group of equal samples does not have one label." in doubtful.text
    assert "good news" not in doubtful.text
    assert "1 group of equal samples" in findings_summary(some(wrong=0, duplicates=((0, 1),)))


def test_no_name_is_taken_for_markup(tmp_path: Path) -> None:
    findings = some(
        classes=(BAD, f"{BAD} 2", "c"), ids=[f"{BAD}{row}" for row in range(60)], duplicates=((0, 1),), wrong=6
    )
    looks: list[dict[str, Any]] = [
        {"kind": "text", "text": f"{BAD}\n{BAD}\x00\ud800", "more": 0},
        {"kind": "cells", "cells": [[BAD, BAD], ["b", ""]], "more": 0},
        {"kind": "image", "address": BAD, "small": True},
    ]
    page, text = written(
        tmp_path, findings, lambda row: looks[row % 3], title=BAD, made={BAD: BAD}, commands=[(BAD, f"permll {BAD}")]
    )
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert sum(tag == "img" for tag in tags) == sum(row % 3 == 2 for row in findings.order[:6].tolist())
    assert page.text.count(BAD) > 20
    assert cards(page)[0]["data-words"] == " ".join((findings.head(1)[0].id, *findings.head(1)[0][1:3])).lower()
    assert f"{BAD}\n{BAD}</" not in text
    assert "\x00" not in text


def test_a_hundred_thousand_findings_make_a_page_under_ten_megabytes(tmp_path: Path) -> None:
    rows, classes = 100_000, 300
    rng = np.random.default_rng(0)
    given, other = rng.integers(0, classes, rows), rng.zipf(1.3, rows) % classes
    sure = rng.random(rows).astype(np.float32)
    two = np.where((sure > 0.5)[:, None], np.stack([other, given], 1), np.stack([given, other], 1)).astype(np.int32)
    sure = np.maximum(sure, 1 - sure)
    findings = Findings(
        ids=tuple(f"{row}.jpg" for row in range(rows)),
        classes=tuple(f"class {k}" for k in range(classes)),
        given=given,
        candidates=two,
        probabilities=np.stack([sure, 1 - sure], 1),
        quality=np.where(two[:, 0] == given, sure, 1 - sure),
        conservative_confidence=sure,
        reasons=np.zeros(rows, np.uint8),
        neighbors=np.zeros((rows, 0), np.int32),
        duplicates=(tuple(range(2000, 4000)), *((row, row + 1) for row in range(0, 2000, 2))),
    )
    heavy = {"kind": "image", "address": "data:image/png;base64," + "A" * 2**16, "small": False}  # as large as any
    page, text = written(tmp_path, findings, lambda _: heavy)
    assert len(text.encode()) < 10_000_000
    assert len(cards(page)) == CARDS
    assert f"The first {CARDS} of {int(findings.is_issue.sum()):,} flagged labels." in page.text
    assert f"These are the {MOST} of {classes} classes with most flagged labels" in page.text
    matrix = text.split('aria-labelledby="mixed-up-said">')[-1].split("</table>")[0]
    assert matrix.count("<tr>") == MOST
    assert "and 280 more classes with flagged labels" in page.text
    assert "and 971 more groups: findings.json has all" in page.text
    numbers = [int(number.replace(",", "")) for number in re.findall(r">([\d,]+)</td>", matrix)]
    assert f"; {sum(numbers):,} of " in page.text


def test_only_pairs_that_have_cards_can_be_asked_for(tmp_path: Path) -> None:
    findings = some(400, wrong=140)
    page, _ = written(tmp_path, findings)
    of_cards = Counter(str(card["data-pair"]) for card in cards(page))
    cells = {str(one["data-pair"]) for tag, one in page.tags if tag == "td" and "data-pair" in one}
    chosen = {str(one["value"]): str(one["data-all"]) for tag, one in page.tags if tag == "option" and one["value"]}
    assert set(of_cards) == cells == set(chosen)
    every = Counter(zip(findings.given_labels[:140].tolist(), findings.proposed_labels[:140].tolist(), strict=True))
    assert chosen == {f"{given}-{other}": str(count) for (given, other), count in every.items()}


def test_how_labels_go_wrong_is_shown_where_it_can_be_read() -> None:
    matrix = [[0.9, 0.1], [0.004, 0.996]]
    cells = re.findall(r"<td[^>]*>(\d*)</td>", transition(matrix, ("ant", "bee")).split("<tbody>")[1])
    assert cells == ["90", "10", "", "100"]
    assert transition(np.eye(MOST + 1).tolist(), [str(k) for k in range(MOST + 1)]) == ""
    assert transition(None, ("ant", "bee")) == ""


@pytest.mark.parametrize("rows", [1, 21, 3000])
def test_the_histogram_counts_every_label(rows: int) -> None:
    findings = some(rows, wrong=rows // 3)
    drawn = histogram(findings)
    found = re.findall(r"<title>([\d.]+) to ([\d.]+): ([\d,]+) labels?, ([\d,]+) flagged</title>", drawn)
    every, flagged = (sum(int(one[place].replace(",", "")) for one in found) for place in (2, 3))
    assert (every, flagged) == (rows, rows // 3)
    assert len(found) <= BINS
    assert ("logarithmic" in drawn) == (rows == 3000)
    heights = [float(height) for height in re.findall(r'height="([\d.]+)"', drawn)]
    assert all(0 < height <= 142 for height in heights)


@pytest.mark.parametrize("most", [1, 2, 3, 9, 10, 11, 57, 999, 1_000_000])
def test_a_scale_has_few_lines_and_none_beyond(most: int) -> None:
    for logs in (True, False):
        found = ticks(most, logs=logs)
        assert 1 <= len(found) <= 7
        assert found == sorted(set(found))
        assert 0 < found[0] <= found[-1] <= most


def test_every_kind_of_sample_is_cut_and_says_so() -> None:
    text = draw_look({"kind": "text", "text": "é" * (TEXT + 1), "more": 0}, "a")
    assert text.count("é") == TEXT
    assert "é …</p>" in text
    cells = [[f"c{number}", "v"] for number in range(CELLS + 2)]
    assert "and 7 more columns" in draw_look({"kind": "cells", "cells": cells, "more": 5}, "a")
    assert "<i>empty</i>" in draw_look({"kind": "cells", "cells": [["a", ""]], "more": 0}, "a")
    bars = draw_look({"kind": "vector", "values": [1.0, -2.0] * VALUES, "more": 1}, "a")
    assert bars.count("<rect") == VALUES
    assert f"and {VALUES + 1} more numbers" in bars
    numbers = draw_look({"kind": "vector", "values": [0.25, -1e-9], "more": 0}, "a")
    assert re.findall(r"<td>(.*?)</td>", numbers) == ["0.25", "-1e-09"]
    assert "It cannot be shown." in draw_look({"kind": "none"}, "a")
