"""The report of findings as a file: self-contained, bounded in size, escaped, and consistent with the findings."""

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.cleaning.html_report import MAX_THUMBNAIL_BYTES
from permll.findings import Findings
from permll.report.findings_page import MAX_CARDS, MAX_CLASSES, MAX_MORE_CARDS, MAX_UNFLAGGED_CARDS
from permll.report.findings_text import findings_facts, findings_summary
from permll.report.quality_histogram import BINS, quality_histogram, ticks
from permll.report.sample_preview import MAX_BARS, MAX_CELLS, MAX_TEXT_LENGTH
from tests.helpers.findings_data import make_findings, write_findings_page
from tests.helpers.html_pages import PageParser

BAD = '<script>alert("x")</script>$title ${details} $$ &amp; \'"><img src=x>'


def cards(page: PageParser) -> list[dict[str, str | None]]:
    return [attributes for tag, attributes in page.tags if tag == "li" and attributes.get("class") == "card"]


def test_report_is_self_contained(tmp_path: Path) -> None:
    transition = {"transition": np.eye(3).tolist()}
    page, text = write_findings_page(tmp_path, make_findings(duplicates=((0, 1),), metadata=transition))
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "base")
        assert "src" not in attributes
        assert attributes.get("href", "#") == "findings.csv" or str(attributes.get("href", "#")).startswith("#")
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    references = [
        attributes[key] for _, attributes in page.tags for key in ("aria-labelledby", "for") if key in attributes
    ]
    references += [
        str(attributes["href"])[1:] for _, attributes in page.tags if str(attributes.get("href")).startswith("#")
    ]
    assert {name for card in references for name in str(card).split()} <= set(names)
    headings = [tag for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert headings == ["h1", *["h2"] * 4]
    (policy,) = (attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    (script,) = re.findall(r"<script>(.*)</script>", text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{allowed}';" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_report_agrees_with_text_summary(tmp_path: Path) -> None:
    findings = make_findings(duplicates=((0, 1), (2, 3)))
    facts, page = findings_facts(findings), write_findings_page(tmp_path, findings)[0]
    rate, flagged, *lines = findings_summary(findings).splitlines()
    identical = next(line for line in lines if "identical samples" in line)
    assert flagged == "20 of 60 labels are flagged; another label is proposed for 20."
    for sentence in (rate, "20 of 60 labels are flagged", identical, "permll review run"):
        assert sentence in page.text
    text = "".join(page.text.split())
    for line in facts["classes"]:
        assert f"{line['class']}{line['labels']}{line['flagged']}{100 * line['share']:.0f}%" in text
    cells = [attributes["title"] for tag, attributes in page.tags if tag == "td" and "title" in attributes]
    assert Counter(str(cell).split(" label")[0] for cell in cells) == Counter(
        f"{pair['given']} → {pair['proposed']}: {pair['count']}" for pair in facts["pairs"]
    )


def test_report_orders_cards_by_rank(tmp_path: Path) -> None:
    findings = make_findings(ids=[f"{row:03}/Photo" for row in range(60)])
    page, text = write_findings_page(tmp_path, findings)
    first = findings.head(20)
    assert [str(card["data-words"]).split()[0] for card in cards(page)] == [card.id.lower() for card in first]
    assert len(cards(page)) == 20
    card = text.split('<li class="card"')[1].split("</li>")[0]
    assert f'<bdi class="given">{first[0].given_label}</bdi> <small>1&nbsp;%</small>' in card
    assert f'<bdi class="proposed">{first[0].proposed_label}</bdi> <small>99&nbsp;%</small>' in card
    assert "the training corrected it; the classifier predicts another class" in card
    assert "<span>1</span> <code>000/<wbr>Photo</code>" in card
    assert f"sample {findings.order[0]}<" in card


def test_report_without_flagged_labels(tmp_path: Path) -> None:
    page, _ = write_findings_page(tmp_path, make_findings(wrong=0))
    assert "No label is flagged" in page.text
    assert (
        "None of 60 labels is more likely wrong than right. This does not prove that all labels are right" in page.text
    )
    assert "Least trusted labels (none is flagged)" in page.text
    assert len(cards(page)) == MAX_UNFLAGGED_CARDS
    assert not any(tag == "form" for tag, _ in page.tags)
    assert "Confused classes" not in page.text
    doubtful, _ = write_findings_page(tmp_path, make_findings(wrong=0, duplicates=((0, 1),)))
    assert "However, 1 group of identical samples has different labels." in doubtful.text
    assert "prove" not in doubtful.text
    assert "1 group of identical samples" in findings_summary(make_findings(wrong=0, duplicates=((0, 1),)))


def test_report_escapes_names(tmp_path: Path) -> None:
    findings = make_findings(
        classes=(BAD, f"{BAD} 2", "c"), ids=[f"{BAD}{row}" for row in range(60)], duplicates=((0, 1),), wrong=6
    )
    previews: list[dict[str, Any]] = [
        {"kind": "text", "text": f"{BAD}\n{BAD}\x00\ud800", "more": 0},
        {"kind": "cells", "cells": [[BAD, BAD], ["b", ""]], "more": 0},
        {"kind": "image", "address": BAD, "small": True},
    ]
    page, text = write_findings_page(
        tmp_path,
        findings,
        lambda row: previews[row % 3],
        title=BAD,
        details={BAD: BAD},
        commands=[(BAD, f"permll {BAD}")],
    )
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert sum(tag == "img" for tag in tags) == sum(row % 3 == 2 for row in findings.order[:6].tolist())
    assert page.text.count(BAD) > 20
    assert cards(page)[0]["data-words"] == " ".join((findings.head(1)[0].id, *findings.head(1)[0][1:3])).lower()
    assert f"{BAD}\n{BAD}</" not in text
    assert "\x00" not in text


def test_report_size_is_bounded(tmp_path: Path) -> None:
    rows, classes = 100_000, 300
    rng = np.random.default_rng(0)
    given, other = rng.integers(0, classes, rows), rng.zipf(1.3, rows) % classes
    sure = rng.random(rows).astype(np.float32)
    two = np.where((sure > 0.5)[:, None], np.stack([other, given], 1), np.stack([given, other], 1)).astype(np.int32)
    sure = np.maximum(sure, 1 - sure)
    findings = Findings(
        ids=tuple(f"{row}.jpg" for row in range(rows)),
        classes=tuple(f"class {k}" for k in range(classes)),
        given_labels=given,
        top_classes=two,
        top_probs=np.stack([sure, 1 - sure], 1),
        label_quality=np.where(two[:, 0] == given, sure, 1 - sure),
        conservative_confidence=sure,
        reasons=np.zeros(rows, np.uint8),
        neighbors=np.zeros((rows, 0), np.int32),
        duplicates=(tuple(range(2000, 4000)), *((row, row + 1) for row in range(0, 2000, 2))),
    )
    heavy = {
        "kind": "image",
        "address": "data:image/png;base64," + "A" * (MAX_THUMBNAIL_BYTES * 4 // 3),
        "small": False,
    }  # as large as any
    page, text = write_findings_page(tmp_path, findings, lambda _: heavy)
    assert len(text.encode()) < 10_000_000
    assert len(cards(page)) == MAX_CARDS + MAX_MORE_CARDS
    assert sum("hidden" in card for card in cards(page)) == MAX_MORE_CARDS
    assert f"The first {MAX_CARDS} of {int(findings.is_issue.sum()):,} flagged labels." in page.text
    assert f"The {MAX_CLASSES} of {classes} classes with the most flagged labels" in page.text
    matrix = text.split('aria-labelledby="confusion-matrix-caption">')[-1].split("</table>")[0]
    assert matrix.count("<tr>") == MAX_CLASSES
    assert "and 280 more classes with flagged labels" in page.text
    assert "and 971 more groups: see findings.json" in page.text
    numbers = [int(number.replace(",", "")) for number in re.findall(r">([\d,]+)</td>", matrix)]
    assert f"; {sum(numbers):,} of " in page.text


def test_report_offers_pairs_with_cards(tmp_path: Path) -> None:
    findings = make_findings(400, wrong=140)
    page, _ = write_findings_page(tmp_path, findings)
    of_cards = Counter(str(card["data-pair"]) for card in cards(page))
    cells = {str(card["data-pair"]) for tag, card in page.tags if tag == "td" and "data-pair" in card}
    options = {
        str(card["value"]): str(card["data-flagged"]) for tag, card in page.tags if tag == "option" and card["value"]
    }
    assert set(of_cards) == cells == set(options)
    counts = Counter(zip(findings.given_labels[:140].tolist(), findings.proposed_labels[:140].tolist(), strict=True))
    assert options == {f"{given}-{other}": str(count) for (given, other), count in counts.items()}


def test_report_shows_transition_of_few_classes(tmp_path: Path) -> None:
    def cells(matrix: Any, classes: int) -> list[str]:
        findings = make_findings(classes=tuple(f"k{k}" for k in range(classes)), metadata={"transition": matrix})
        parts = write_findings_page(tmp_path, findings)[1].split('aria-labelledby="transition-caption">')
        return re.findall(r"<td[^>]*>(\d*)</td>", parts[-1].split("<tbody>")[1]) if len(parts) > 1 else []

    assert cells([[0.9, 0.1], [0.004, 0.996]], 2) == ["90", "10", "", "100"]
    assert cells(np.eye(MAX_CLASSES + 1).tolist(), MAX_CLASSES + 1) == []
    assert cells(None, 2) == []


@pytest.mark.parametrize("rows", [1, 21, 3000])
def test_histogram_counts_all_labels(rows: int) -> None:
    findings = make_findings(rows, wrong=rows // 3)
    drawn = quality_histogram(findings)
    bars = re.findall(r"<title>([\d.]+) to ([\d.]+): ([\d,]+) labels?, ([\d,]+) flagged</title>", drawn)
    counts, flagged = (sum(int(card[group].replace(",", "")) for card in bars) for group in (2, 3))
    assert (counts, flagged) == (rows, rows // 3)
    assert len(bars) <= BINS
    assert ("logarithmic" in drawn) == (rows == 3000)
    heights = [float(height) for height in re.findall(r'height="([\d.]+)"', drawn)]
    assert all(0 < height <= 142 for height in heights)


@pytest.mark.parametrize("highest", [1, 2, 3, 9, 10, 11, 57, 999, 1_000_000])
def test_histogram_ticks(highest: int) -> None:
    for log in (True, False):
        bars = ticks(highest, log=log)
        assert 1 <= len(bars) <= 7
        assert bars == sorted(set(bars))
        assert 0 < bars[0] <= bars[-1] <= highest


def test_report_cuts_previews(tmp_path: Path) -> None:
    def card(**preview: Any) -> str:
        text = write_findings_page(tmp_path, make_findings(wrong=1), lambda _: preview)[1]
        return text.split('<li class="card"')[1].split("</li>")[0]

    text = card(kind="text", text="é" * (MAX_TEXT_LENGTH + 1), more=0)
    assert text.count("é") == MAX_TEXT_LENGTH
    assert "é …</p>" in text
    assert "and 7 more columns" in card(kind="cells", cells=[[f"c{k}", "v"] for k in range(MAX_CELLS + 2)], more=5)
    assert "<i>empty</i>" in card(kind="cells", cells=[["a", ""]], more=0)
    bars = card(kind="vector", values=[1.0, -2.0] * MAX_BARS, more=1)
    assert bars.count("<rect") == MAX_BARS
    assert f"and {MAX_BARS + 1} more numbers" in bars
    numbers = card(kind="vector", values=[0.25, -1e-9], more=0)
    assert re.findall(r"<td>(.*?)</td>", numbers) == ["0.25", "-1e-09"]
    assert "No preview." in card(kind="none")
