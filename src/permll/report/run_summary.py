"""What runs came to: one in words, several as means over their seeds; first as data, then as text."""

import json
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from permll.report.text import printable, shorten

WORST = 3  # so many classes are named
MISTAKES = 3  # so many pairs of classes
Facts = dict[str, Any]

_CHOICES = {
    "last": "last epoch",
    "best_by_noisy_validation": "best by noisy validation",
    "best_by_clean_validation": "best by clean validation",
    "best_test": "best epoch",
    "memorisation": "points lost since the best epoch",
}
_SECTIONS = {
    "Noisy validation": {"noisy_validation_accuracy": "accuracy, last epoch"},
    "Training labels": {
        "turned": "turned",
        "correction_accuracy_before": "right before, by the clean labels",
        "correction_accuracy_after": "right after, by the clean labels",
        "correction_true_positives": "wrong, now right (true positives)",
        "correction_miscorrected": "wrong, now wrong otherwise (mis-corrected)",
        "correction_missed": "wrong, left alone (missed)",
        "correction_false_positives": "right, now wrong (false positives)",
        "correction_precision": "precision of the changes",
        "correction_recall": "recall of the wrong labels",
    },
    "Wrong labels found by the quality score": {
        "detection_auroc": "AUROC",
        "detection_average_precision": "average precision",
        "detection_precision_at_k": "precision at k, as many as are wrong",
    },
    "Calibration on the test data": {
        "test_ece": "expected calibration error",
        "test_nll": "negative log-likelihood",
        "test_brier": "Brier score",
    },
}
_COLUMNS = {  # of a comparison, with two lines of head
    "last": ("last", "epoch"),
    "best_by_noisy_validation": ("by noisy", "validation"),
    "best_test": ("best", "epoch *"),
    "noisy_validation_accuracy": ("noisy val.,", "last epoch"),
    "turned": ("labels", "turned"),
    "correction_accuracy_after": ("right", "labels"),
    "detection_auroc": ("AUROC of", "quality"),
}
_INCIDENTAL = {"title", "data.root", "training.seed", "training.threads", "training.workers", "training.devices"}


def run_facts(run: Any, protocol: Any = None) -> Facts:
    """Return all there is to say about a run, as JSON holds it.

    Args:
        run: a ``permll.training.Run``, finished or not.
        protocol: the epochs that may be reported, as ``permll.evaluation.protocol.choose_from_rows`` finds them;
            without it the numbers of a finished run, but not their epochs.
    """
    recipe, metrics, result = run.recipe, run.metrics, run.result if run.finished else {}
    numbers = result if protocol is None else protocol.numbers()
    oracle = result.get("oracle", ()) if protocol is None else protocol.oracle
    unseeded = recipe.model_copy(update={"training": recipe.training.model_copy(update={"seed": 0})})
    last = _last_evaluated(metrics)
    return {
        "folder": str(run.folder),
        "finished": run.finished,
        "epochs": recipe.training.epochs,
        "epochs_done": metrics[-1]["epoch"] if metrics else 0,
        "recipe": recipe.model_dump(mode="json", exclude_none=True),
        "recipe_hash": recipe.hash,
        "group": unseeded.hash,
        "chosen_settings": result.get("settings", {}),
        "noise": _noise(run),
        "numbers": {
            name: {
                "value": numbers[name],
                "epoch": getattr(getattr(protocol, name, None), "epoch", None),
                "oracle": name in oracle,
            }
            for name in _CHOICES
            if isinstance(numbers.get(name), float)
        },
        "last": last,
        "worst_classes": _worst_classes(run, last),
        "noise_estimate": _noise_estimate(run),
    }


def run_summary(run: Any, protocol: Any = None, width: int = 80) -> str:
    """Return a run in words, no wider than ``width`` (60 or more); what only an oracle could choose is marked."""
    facts = run_facts(run, protocol)
    recipe, last, edge = facts["recipe"], facts["last"], min(width, 66)
    chosen = {name: value for name, value in facts["chosen_settings"].items() if name not in recipe["method"]}
    settings = recipe["method"] | {f"{name} (chosen)": value for name, value in chosen.items()}
    goes_on = "" if facts["finished"] else f"; permll train {facts['folder']} goes on"
    about = {
        "Run": f"{facts['folder']}, {facts['epochs_done']} of {facts['epochs']} epochs{goes_on}",
        "Recipe": f"{recipe['title']}; seed {recipe['training']['seed']}, hash {facts['recipe_hash']}".lstrip("; "),
        "Method": _named(settings),
        "Network": _named(recipe["network"]),
        "Noise": _noise_text(facts["noise"]),
    }
    lines = [line for name, text in about.items() for line in _wrapped(f"  {name:<9}", printable(text), width)]
    numbers = facts["numbers"].items()
    choices = [(_CHOICES[name] + _remark(entry), _value(name, entry["value"])) for name, entry in numbers]
    lines += _section("Test accuracy", choices, edge)
    for title, names in _SECTIONS.items():
        rows = [(text, _value(name, last[name])) for name, text in names.items() if last.get(name) is not None]
        lines += _section(title, rows, edge)
    lines += _section("Noise as estimated, without clean labels", _estimate_rows(facts["noise_estimate"]), edge)
    worst = [
        (shorten(entry["class"]), f"{entry['right_before']} → {entry['right_after']} of {entry['samples']}")
        for entry in facts["worst_classes"]
    ]
    lines += _section("Worst classes: right labels, before → after", worst, edge)
    return "\n".join([_label(facts), *lines])


def compare(runs: Iterable[Facts]) -> list[Facts]:
    """Return runs by recipe without its seed: each group with the mean and standard deviation over its finished runs.

    A seed that is there twice counts once: the same training again says nothing about the spread.
    """
    groups: dict[str, dict[str, Facts]] = {}
    for facts in sorted(runs, key=lambda facts: not facts["finished"]):
        groups.setdefault(facts["group"], {}).setdefault(facts["recipe_hash"], facts)
    found = [list(group.values()) for group in groups.values()]
    return [
        {
            "label": _label(group[0]) + _difference(group[0], [other[0] for other in found]),
            "folders": [facts["folder"] for facts in group],
            "seeds": sorted(facts["recipe"]["training"]["seed"] for facts in group if facts["finished"]),
            "numbers": _spreads([facts for facts in group if facts["finished"]]),
        }
        for group in found
    ]


def comparison_text(groups: Sequence[Facts], width: int = 80) -> str:
    """Return groups as a table: a line with the name of each, and one with its numbers."""
    names = [name for name in _COLUMNS if any(name in group["numbers"] for group in groups)]
    if "last" in names:  # test data tell more
        names = [name for name in names if name not in ("noisy_validation_accuracy", "turned")]
    room = min((width - 2) // max(len(names), 1), 16)
    lines = ["Mean ± standard deviation over seeds, %"]
    lines += ["  " + "".join(f"{_COLUMNS[name][row]:>{room}}" for name in names) for row in (0, 1)]
    for group in groups:
        seeds = f"; seed {', '.join(map(str, group['seeds']))}" if group["seeds"] else "; not finished"
        lines += _wrapped("", group["label"] + seeds, width)
        cells = (_cell(group["numbers"].get(name), 2 if room >= 14 else 1) for name in names)
        lines.append("  " + "".join(f"{cell:>{room}}" for cell in cells))
    return "\n".join(lines + ["* an oracle's choice: it looks at the test labels."] * ("best_test" in names))


def _last_evaluated(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    judged = {"test_accuracy", "noisy_validation_accuracy", "correction_samples"}
    rows = [row for row in metrics if judged & row.keys()] or metrics
    return dict(rows[-1]) if rows else {}


def _noise(run: Any) -> dict[str, Any] | None:
    name, path = run.recipe.data.noise, run.folder / "noise.npz"
    if not name or not path.is_file():
        return {"name": name} if name else None
    from permll.noise.corruption import Corruption

    record = Corruption.load(path)
    about = {"seed": record.seed, "samples": len(record.clean), "wrong": int(record.changed.sum())}
    return {"name": name, **about, "rate": record.rate, "hash": record.hash}


def _noise_text(noise: Mapping[str, Any] | None) -> str:
    if noise is None or "hash" not in noise:
        return "none added: labels as they are" if noise is None else str(noise["name"])
    share = f"{100 * noise['rate']:.2f} % of {noise['samples']:,} labels wrong"
    return f"{noise['name']}, {share}, seed {noise['seed']}, hash {noise['hash']}"


def _worst_classes(run: Any, last: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the classes with the smallest share of right labels in the end."""
    if "correction_samples_by_class" not in last:
        return []
    import numpy as np

    with np.load(run.folder / "labels.npz", allow_pickle=False) as saved:
        classes = saved["classes"].tolist()
    keys = ("samples", "right_before", "right_after")
    counts = zip(classes, *(last[f"correction_{key}_by_class"] for key in keys), strict=True)
    rows = [dict(zip(("class", *keys), row, strict=True)) for row in counts]
    return sorted((row for row in rows if row["samples"]), key=lambda row: row["right_after"] / row["samples"])[:WORST]


def _noise_estimate(run: Any) -> dict[str, Any] | None:
    """Return the first estimate of the run, which is the default: its rate, and the most frequent mistakes."""
    path = run.folder / "noise_estimate.json"
    if not path.is_file():
        return None
    estimate = next(iter(json.loads(path.read_text()).values()))
    classes, joint = estimate["classes"], estimate["joint"] or []
    mistakes = [
        {"class": classes[true], "given": classes[given], "share": share}
        for true, row in enumerate(joint)
        for given, share in enumerate(row)
        if true != given
    ]
    mistakes.sort(key=lambda mistake: -mistake["share"])
    return {name: estimate[name] for name in ("by", "rate", "interval", "rows")} | {"mistakes": mistakes[:MISTAKES]}


def _estimate_rows(estimate: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if estimate is None:
        return []
    low, high = (100 * end for end in estimate["interval"])
    rows = [("labels that are wrong", f"({low:.1f} to {high:.1f}) {100 * estimate['rate']:.2f} %")]
    for mistake in estimate["mistakes"]:
        text = f"{shorten(mistake['class'])} given as {shorten(mistake['given'])}, of all labels"
        rows.append((text, f"{100 * mistake['share']:.2f} %"))
    return rows


def _section(title: str, rows: Sequence[tuple[str, str]], edge: int) -> list[str]:
    lines = (f"  {name:<{max(edge - 2 - len(value), 0)}}{value}".rstrip() for name, value in rows)
    return [title, *lines] if rows else []


def _remark(entry: Mapping[str, Any]) -> str:
    return (f", epoch {entry['epoch']}" if entry["epoch"] is not None else "") + " (oracle)" * entry["oracle"]


def _value(name: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}  "  # ends where the numbers in per cent end
    if name == "memorisation":
        return f"{100 * value:.2f}  "  # points, not per cent of anything
    return f"{value:.3f}  " if name in ("test_nll", "test_brier") else f"{100 * value:.2f} %"


def _named(content: Mapping[str, Any]) -> str:
    """Return a name and its settings."""
    shorten = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in content.items()}
    return ", ".join(value if name == "name" else f"{name} {value}" for name, value in shorten.items())


def _label(facts: Facts) -> str:
    data = facts["recipe"]["data"]
    noise = data["noise"] or "labels as they are"
    return printable(f"{facts['recipe']['method']['name']} on {data['source'] or 'own data'}, {noise}")


def _difference(facts: Facts, all_: Sequence[Facts]) -> str:
    """Say where a recipe differs from others of the same label."""
    mine, *others = (_flat(one["recipe"]) for one in (facts, *all_) if _label(one) == _label(facts))
    keys = {key for other in others for key in mine | other if mine.get(key) != other.get(key)}
    return "".join(f", {key} {mine.get(key)}" for key in sorted(keys - _INCIDENTAL))


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _spreads(group: Sequence[Facts]) -> dict[str, dict[str, float | None]]:
    rows = [facts["last"] | {name: entry["value"] for name, entry in facts["numbers"].items()} for facts in group]
    found = {name: [row[name] for row in rows if row.get(name) is not None] for name in _COLUMNS}
    return {
        name: {"mean": statistics.mean(values), "sd": statistics.stdev(values) if len(values) > 1 else None}
        for name, values in found.items()
        if values and len(values) == len(rows)
    }


def _cell(number: Mapping[str, float] | None, digits: int) -> str:
    shares = [] if number is None else [value for value in (number["mean"], number["sd"]) if value is not None]
    return " ± ".join(f"{100 * share:.{digits}f}" for share in shares) or "-"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * (len(head) or 2))
