"""Findings as one page: what is wrong, the most suspect samples, which classes are mixed up, how it was found.

The page is a single file. It needs no network and no server: styles, script, pictures and drawings are inside, and it
forbids itself to load or run anything else.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from permll.report.findings.class_table import classes_table, duplicates_list
from permll.report.findings.confusion_html import mixed_up, transition
from permll.report.findings.histogram import histogram
from permll.report.findings.html_text import counted
from permll.report.findings.issue_cards import cards, options, pairs_of, rows_of
from permll.report.findings.preview_html import Look
from permll.report.findings_text import (
    duplicates_sentence,
    findings_facts,
    flagged_sentence,
    network_sentence,
    noise_sentence,
)
from permll.report.page.html import escape

NAME = "report.html"
LOOK_FIRST = "For a flagged label another class is more probable than the given one. It may still be right: look first."
GOOD_NEWS = "That is good news, not proof: an error that fits its class well stays unseen."


def findings_page(
    findings: Any,
    look: Callable[[int], Look],
    *,
    title: str,
    made: Mapping[str, object],
    commands: Sequence[tuple[str, str]],
) -> str:
    """Return the page as HTML: only sections that have something to show.

    Args:
        findings: a ``permll.findings.Findings``.
        look: row -> how its sample looks.
        title: what the labels are of.
        made: how they were found, name and value.
        commands: what to do next, in words and as a command.
    """
    facts = findings_facts(findings)
    sections = {name: content for name, content in _sections(findings, facts, look, made).items() if content[1]}
    content = "\n".join(
        f'<section class="of-{name}" aria-labelledby="{name}">\n<h2 id="{name}">{escape(head)}</h2>\n{body}\n</section>'
        for name, (head, body) in sections.items()
    )
    navigation = "".join(f'<li><a href="#{name}">{escape(head)}</a></li>' for name, (head, _) in sections.items())
    script = _text("page", "base.js") + _text("findings", "script.js")
    return Template(_text("findings", "page.html")).substitute(
        title=escape(title),
        headline=escape(_headline(facts)),
        lead=escape(_lead(facts)),
        figures=_figures(findings, facts),
        commands=_commands(commands),
        histogram=histogram(findings),
        navigation=navigation,
        content=content,
        style=_text("page", "base.css") + _text("findings", "style.css"),
        script=script,
        allowed=f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'",
    )


def _sections(
    findings: Any, facts: Mapping[str, Any], look: Callable[[int], Look], made: Mapping[str, object]
) -> dict[str, tuple[str, str]]:
    """Return the heads and bodies of the sections by their names; a body without anything to show is empty."""
    shown = len(rows_of(findings))
    mixed = ""
    if facts["flagged"]:
        pairs = mixed_up(facts, findings.classes, pairs_of(findings))
        mixed = f'<div class="beside">{pairs}\n{classes_table(facts)}</div>'
    mixed += transition(findings.metadata.get("transition"), findings.classes)
    head = "The most suspect" if facts["flagged"] else "Trusted least, though none of them is flagged"
    first = f"The first {shown:,} of {facts['flagged']:,} flagged labels. " if shown < facts["flagged"] else ""
    proposal = " → the proposal" if facts["flagged"] else ""
    said = f"{first}Under each sample stands its given label{proposal}, with the probability that it is right."
    said = f'<p>{said} <a href="findings.csv">findings.csv</a> has every label.</p>'
    chosen = Template(_text("findings", "filter.html")).substitute(options=options(findings))
    return {
        "mixed": ("Which classes are mixed up", mixed),
        "suspects": (head, f"{said}\n{chosen if facts['flagged'] else ''}{cards(findings, look)}"),
        "duplicates": (
            "Equal samples, different labels",
            f"<p>{escape(duplicates_sentence(facts))} Of the classes in a group at most one is right.</p>"
            f"{duplicates_list(findings, look)}"
            if findings.duplicates
            else "",
        ),
        "made": ("How it was found", _made(made)),
    }


def _headline(facts: Mapping[str, Any]) -> str:
    if not facts["flagged"]:
        return "No label is flagged"
    return flagged_sentence(facts).split(":")[0]


def _lead(facts: Mapping[str, Any]) -> str:
    if facts["flagged"]:
        words = LOOK_FIRST
    elif facts["contradictory_duplicates"]:
        words = f"{flagged_sentence(facts)} Yet {duplicates_sentence(facts)}"
    else:
        words = f"{flagged_sentence(facts)} {GOOD_NEWS}"
    return " ".join(filter(None, (noise_sentence(facts), network_sentence(facts), words)))


def _figures(findings: Any, facts: Mapping[str, Any]) -> str:
    """Return the numbers to remember."""
    share = 100 * facts["flagged"] / max(facts["labels"], 1)
    found = [(f"{facts['flagged']:,}", "flagged", f"{share:.1f} % of {counted(facts['labels'], 'label')}")]
    noise = facts["noise"]
    if noise:
        low, high = 100 * noise["low"], 100 * noise["high"]
        found.append((f"{100 * noise['rate']:.1f} %", "wrong by estimate", f"{low:.1f} to {high:.1f} %"))
    hit = len(facts["classes"])
    if hit:
        found.append((f"{hit:,}", "classes hit" if hit > 1 else "class hit", f"of {len(findings.classes):,}"))
    groups = len(facts["contradictory_duplicates"])
    if groups:
        found.append((f"{groups:,}", "contradictions", "between equal samples"))
    return "".join(
        f"<div><dt>{what}</dt><dd><b>{number}</b><span>{more}</span></dd></div>" for number, what, more in found
    )


def _commands(commands: Sequence[tuple[str, str]]) -> str:
    button = '<button type="button" class="copy" hidden>Copy</button>'
    return "".join(
        f'<li>{escape(words)} <span class="command"><code>{escape(command)}</code>{button}</span></li>'
        for words, command in commands
    )


def _made(made: Mapping[str, object]) -> str:
    lines = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in made.items())
    return f'<dl class="made">{lines}</dl>'


def _text(room: str, name: str) -> str:
    return (files(f"permll.report.{room}") / name).read_text(encoding="utf-8")
