"""Summary of one run, and comparison of several as means over seeds; first as data, then as text."""

import json
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from permll.report.audit_section import audit_sentences, saved_audit_facts
from permll.report.findings_text import noise_sentence
from permll.report.text import printable, shorten

MAX_CLASSES = 3
MAX_CONFUSIONS = 3
Facts = dict[str, Any]

_ACCURACIES = {
    "last": "last epoch",
    "best_by_noisy_validation": "best by noisy validation",
    "best_by_clean_validation": "best by clean validation",
    "best_test": "best epoch",
    "memorization": "points lost since the best epoch",
}
_SECTIONS = {
    "Noisy validation": {"noisy_validation_accuracy": "accuracy, last epoch"},
    "Training labels": {
        "corrected": "corrected",
        "correction_accuracy_before": "accuracy before correction",
        "correction_accuracy_after": "accuracy after correction",
        "correction_true_positives": "wrong before, right after (true positives)",
        "correction_miscorrected": "wrong before, still wrong (mis-corrected)",
        "correction_missed": "wrong, not changed (missed)",
        "correction_false_positives": "right before, wrong after (false positives)",
        "correction_precision": "precision of the corrections",
        "correction_recall": "recall of the wrong labels",
    },
    "Detection of wrong labels by the quality score": {
        "detection_auroc": "AUROC",
        "detection_average_precision": "average precision",
        "detection_precision_at_k": "precision at k = number of wrong labels",
    },
    "Calibration on the test data": {
        "test_ece": "expected calibration error",
        "test_nll": "negative log-likelihood",
        "test_brier": "Brier score",
    },
}
_COLUMNS = {  # of a comparison, with two lines of headings
    "last": ("last", "epoch"),
    "best_by_noisy_validation": ("by noisy", "validation"),
    "best_test": ("best", "epoch *"),
    "noisy_validation_accuracy": ("noisy val.,", "last epoch"),
    "corrected": ("labels", "corrected"),
    "correction_accuracy_after": ("labels", "right"),
    "detection_auroc": ("AUROC of", "quality"),
}
_EVALUATED = {"test_accuracy", "noisy_validation_accuracy", "correction_samples"}  # in the metrics of some epochs
_IGNORED = {"title", "data.root", "training.seed", "training.threads", "training.workers", "training.devices"}


def run_facts(run: Any, protocol: Any = None) -> Facts:
    """Return the state and results of a run, JSON-serializable.

    Args:
        run: a ``permll.training.Run``, finished or not.
        protocol: the reportable epochs, as ``permll.evaluation.protocol.select_from_metrics`` returns them; without it,
            the results of a finished run have no epochs.
    """
    recipe, metrics, result = run.recipe, run.metrics, run.result if run.finished else {}
    numbers = result if protocol is None else protocol.to_dict()
    oracle = result.get("oracle", ()) if protocol is None else protocol.oracle
    unseeded = recipe.model_copy(update={"training": recipe.training.model_copy(update={"seed": 0})})
    evaluated = [row for row in metrics if _EVALUATED & row.keys()] or metrics
    last = dict(evaluated[-1]) if evaluated else {}
    earlier = _earlier_round(run)
    return {
        "folder": str(run.folder),
        "finished": run.finished,
        "resume": "" if run.finished else run.resume_command,
        "epochs": 0 if run.task == "given" else recipe.training.epochs,
        "epochs_done": metrics[-1]["epoch"] if metrics else 0,
        "recipe": recipe.model_dump(mode="json", exclude_none=True),
        "recipe_hash": recipe.hash,
        "group": f"{unseeded.hash} {earlier}".rstrip(),
        "earlier": earlier,
        "chosen_settings": result.get("settings", {}),
        "noise": _noise(run),
        "numbers": {
            name: {
                "value": numbers[name],
                "epoch": getattr(getattr(protocol, name, None), "epoch", None),
                "oracle": name in oracle,
            }
            for name in _ACCURACIES
            if isinstance(numbers.get(name), float)
        },
        "last": last,
        "worst_classes": _worst_classes(run, last),
        "noise_estimate": _noise_estimate(run),
        "audit": saved_audit_facts(run.folder),
    }


def run_summary(run: Any, protocol: Any = None, width: int = 80) -> str:
    """Return a text summary of a run at most ``width`` (60 or more) wide; choices that need test labels are marked."""
    facts = run_facts(run, protocol)
    recipe, last, edge = facts["recipe"], facts["last"], min(width, 66)
    chosen = {name: value for name, value in facts["chosen_settings"].items() if name not in recipe["method"]}
    settings = recipe["method"] | {f"{name} (chosen)": value for name, value in chosen.items()}
    resume = "" if facts["finished"] else f"; resume with {facts['resume']}"
    classifier = {"Method": _format_section(settings), "Network": _format_section(recipe["network"])}
    done = f"{facts['epochs_done']} of {facts['epochs']} epochs" if facts["epochs"] else "not trained"
    if "estimator" in recipe:
        classifier = {"Method": _estimator_text(recipe["estimator"])}
        done = "finished" if facts["finished"] else "not finished"
    header = {
        "Run": f"{facts['folder']}, {done}{resume}",
        "Recipe": f"{recipe['title']}; seed {recipe['training']['seed']}, hash {facts['recipe_hash']}".lstrip("; "),
        **classifier,
        "Noise": _noise_text(facts["noise"]),
    }
    lines = [line for name, text in header.items() for line in _wrap(f"  {name:<9}", printable(text), width)]
    accuracies = []
    for name, entry in facts["numbers"].items():
        epoch = "" if entry["epoch"] is None else f", epoch {entry['epoch']}"
        text = f"{_ACCURACIES[name]}{epoch}{' (oracle)' if entry['oracle'] else ''}"
        accuracies.append((text, _format_value(name, entry["value"])))
    lines += _section("Test accuracy", accuracies, edge)
    for title, names in _SECTIONS.items():
        rows = [(text, _format_value(name, last[name])) for name, text in names.items() if last.get(name) is not None]
        lines += _section(title, rows, edge)
    lines += _section("Noise estimate, without clean labels", _estimate_rows(facts["noise_estimate"]), edge)
    worst = [
        (shorten(entry["class"]), f"{entry['right_before']} → {entry['right_after']} of {entry['samples']}")
        for entry in facts["worst_classes"]
    ]
    lines += _section("Worst classes: right labels before → after correction", worst, edge)
    audit = [line for sentence in audit_sentences(facts["audit"]) for line in _wrap("  ", printable(sentence), width)]
    return "\n".join([_label(facts), *lines, *(["Audit", *audit] if audit else [])])


def compare(runs: Iterable[Facts]) -> list[Facts]:
    """Group runs by recipe without its seed; each group has mean and standard deviation over its finished runs.

    Two runs of the same recipe and seed count once.
    """
    by_recipe: dict[str, dict[str, Facts]] = {}
    for facts in sorted(runs, key=lambda facts: not facts["finished"]):
        by_recipe.setdefault(facts["group"], {}).setdefault(facts["recipe_hash"], facts)
    groups = [list(group.values()) for group in by_recipe.values()]
    return [
        {
            "label": _label(group[0]) + _difference(group[0], [other[0] for other in groups]),
            "folders": [facts["folder"] for facts in group],
            "seeds": sorted(facts["recipe"]["training"]["seed"] for facts in group if facts["finished"]),
            "numbers": _means([facts for facts in group if facts["finished"]]),
        }
        for group in groups
    ]


def comparison_text(groups: Sequence[Facts], width: int = 80) -> str:
    """Return groups as a table: for each a line with its name, and one with its numbers."""
    names = [name for name in _COLUMNS if any(name in group["numbers"] for group in groups)]
    if "last" in names:  # test accuracy is preferred
        names = [name for name in names if name not in ("noisy_validation_accuracy", "corrected")]
    column = min((width - 2) // max(len(names), 1), 16)
    lines = ["Mean ± standard deviation over seeds, %"]
    lines += ["  " + "".join(f"{_COLUMNS[name][row]:>{column}}" for name in names) for row in (0, 1)]
    for group in groups:
        seeds = f"; seed {', '.join(map(str, group['seeds']))}" if group["seeds"] else "; not finished"
        lines += _wrap("", group["label"] + seeds, width)
        cells = (_format_mean(group["numbers"].get(name), 2 if column >= 14 else 1) for name in names)
        lines.append("  " + "".join(f"{cell:>{column}}" for cell in cells))
    return "\n".join(lines + ["* oracle: selected by the test labels."] * ("best_test" in names))


def _estimator_text(section: Mapping[str, Any]) -> str:
    return f"{section['given'] or section['name']}, cross-validated in {section['folds']} folds"


def _earlier_round(run: Any) -> str:
    """Return the folder of the reviewed run that ``permll clean --continue`` continued; "" for a first round."""
    path = run.folder / "earlier_round.json"
    return str(json.loads(path.read_text())["folder"]) if path.is_file() else ""


def _noise(run: Any) -> dict[str, Any] | None:
    name, path = run.recipe.data.noise, run.folder / "noise.npz"
    if not name or not path.is_file():
        return {"name": name} if name else None
    from permll.noise.corruption import Corruption

    record = Corruption.load(path)
    counts = {"seed": record.seed, "samples": len(record.clean), "wrong": int(record.changed.sum())}
    return {"name": name, **counts, "rate": record.rate, "hash": record.hash}


def _noise_text(noise: Mapping[str, Any] | None) -> str:
    if noise is None or "hash" not in noise:
        return "none added" if noise is None else str(noise["name"])
    rate = f"{100 * noise['rate']:.2f} % of {noise['samples']:,} labels wrong"
    return f"{noise['name']}, {rate}, seed {noise['seed']}, hash {noise['hash']}"


def _worst_classes(run: Any, last: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the classes with the smallest fraction of right labels after correction."""
    if "correction_samples_by_class" not in last:
        return []
    import numpy as np

    with np.load(run.folder / "labels.npz", allow_pickle=False) as saved:
        classes = saved["classes"].tolist()
    keys = ("samples", "right_before", "right_after")
    counts = zip(classes, *(last[f"correction_{key}_by_class"] for key in keys), strict=True)
    rows = [dict(zip(("class", *keys), row, strict=True)) for row in counts]
    rows = sorted((row for row in rows if row["samples"]), key=lambda row: row["right_after"] / row["samples"])
    return rows[:MAX_CLASSES]


def _noise_estimate(run: Any) -> dict[str, Any] | None:
    """Return the first, default estimate of the run: its rate, and the most frequent confusions."""
    path = run.folder / "noise_estimate.json"
    if not path.is_file():
        return None
    estimate = next(iter(json.loads(path.read_text()).values()))
    classes, joint = estimate["classes"], estimate["joint"] or []
    confusions = [
        {"class": classes[true], "given": classes[given], "share": probability}
        for true, row in enumerate(joint)
        for given, probability in enumerate(row)
        if true != given
    ]
    confusions.sort(key=lambda confusion: -confusion["share"])
    facts = {name: estimate[name] for name in ("by", "rate", "interval", "rows")}
    path = run.folder / "findings.json"
    metadata = json.loads(path.read_text())["metadata"] if path.is_file() else {}
    of_clean = {name: metadata.get(name) for name in ("network", "earlier")}
    return facts | {"mistakes": confusions[:MAX_CONFUSIONS]} | of_clean


def _estimate_rows(estimate: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if estimate is None:
        return []
    low, high = estimate["interval"]
    noise = {"rate": estimate["rate"], "low": low, "high": high}
    sentence = noise_sentence({"noise": noise, "network": estimate["network"], "earlier": estimate["earlier"]})
    if not sentence:
        return []
    rows = [(sentence, "")]
    for confusion in estimate["mistakes"]:
        text = f"{shorten(confusion['class'])} given as {shorten(confusion['given'])}, of all labels"
        rows.append((text, f"{100 * confusion['share']:.2f} %"))
    return rows


def _section(title: str, rows: Sequence[tuple[str, str]], edge: int) -> list[str]:
    lines = (f"  {name:<{max(edge - 2 - len(value), 0)}}{value}".rstrip() for name, value in rows)
    return [title, *lines] if rows else []


def _format_value(name: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}  "  # aligned with the numbers in percent
    if name == "memorization":
        return f"{100 * value:.2f}  "  # percentage points
    return f"{value:.3f}  " if name in ("test_nll", "test_brier") else f"{100 * value:.2f} %"


def _format_section(section: Mapping[str, Any]) -> str:
    """Return the name of a recipe section and its settings."""
    values = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in section.items()}
    return ", ".join(value if name == "name" else f"{name} {value}" for name, value in values.items())


def _label(facts: Facts) -> str:
    recipe, data = facts["recipe"], facts["recipe"]["data"]
    name = recipe.get("estimator", recipe["method"])["name"]
    noise = data["noise"] or "no noise added"
    earlier = f", after the review of {facts['earlier']}" if facts["earlier"] else ""
    return printable(f"{name} on {data['source'] or 'data in memory'}, {noise}{earlier}")


def _difference(facts: Facts, groups: Sequence[Facts]) -> str:
    """Return the recipe entries in which a group differs from others of the same label."""
    recipe, *others = (_flatten(one["recipe"]) for one in (facts, *groups) if _label(one) == _label(facts))
    keys = {key for other in others for key in recipe | other if recipe.get(key) != other.get(key)}
    return "".join(f", {key} {recipe.get(key)}" for key in sorted(keys - _IGNORED))


def _flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _means(group: Sequence[Facts]) -> dict[str, dict[str, float | None]]:
    rows = [facts["last"] | {name: entry["value"] for name, entry in facts["numbers"].items()} for facts in group]
    columns = {name: [row[name] for row in rows if row.get(name) is not None] for name in _COLUMNS}
    return {
        name: {"mean": statistics.mean(values), "sd": statistics.stdev(values) if len(values) > 1 else None}
        for name, values in columns.items()
        if values and len(values) == len(rows)
    }


def _format_mean(number: Mapping[str, float] | None, digits: int) -> str:
    values = [] if number is None else [value for value in (number["mean"], number["sd"]) if value is not None]
    return " ± ".join(f"{100 * value:.{digits}f}" for value in values) or "-"


def _wrap(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * (len(head) or 2))
