"""``findings_from_cleanlab``: label issues that cleanlab found, as findings for report, review and apply."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from permll.cleaning.given_data import GivenData, read_given
from permll.cleaning.given_findings import Destination, Origin, finish_findings
from permll.cleaning.pred_probs import Columns, check_file, frame_columns, is_frame, read_columns, to_numbers
from permll.cleaning.similar_samples import conflicting_duplicates
from permll.data.readers.options import check_keywords
from permll.findings import REVIEWED, Findings
from permll.utils.messages import format_list

ORIGIN = Origin("cleanlab", "label issues of cleanlab")
FLAG, GIVEN, PREDICTED = "is_label_issue", "given_label", "predicted_label"
SCORES = ("label_quality", "label_score")  # of CleanLearning, of Datalab
SUFFIXES = (".csv", ".tsv", ".parquet")
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


class LabelIssues(NamedTuple):
    """Label issues of n samples, as cleanlab writes them."""

    flagged: NDArray[np.bool_]
    quality: NDArray[np.float32]
    predicted: list[str]  # names or numbers of classes
    given: list[str] | None


def findings_from_cleanlab(
    issues: Any,
    data: Any,
    *,
    labels: Any = None,
    out: Path | str | None = None,
    images: Path | str | None = None,
    overwrite: bool = False,
    root: str | None = None,
    **reader: Any,
) -> Findings:
    """Return label issues of cleanlab as findings; with ``out``, in a folder for review and apply.

    The flags and scores are those of cleanlab. The score of a label is its ``label_quality``, and ``confidence`` is one
    minus it where another class is predicted. Scores are not probabilities, so no label changes without a review.

    Args:
        issues: the frame of ``CleanLearning.get_label_issues()`` or ``Datalab.get_issues("label")``, or a .csv, .tsv or
            .parquet file of it, with is_label_issue, label_quality or label_score, predicted_label and given_label. A
            column ``id`` holds sample ids, an index row numbers; otherwise the rows have the order of the samples.
            Samples that are not listed are not flagged.
        data: whatever ``permll.data.load`` takes: a path, a data frame, arrays.
        labels: one for each sample, if ``data`` has none.
        out: folder of the findings; "auto" is ``runs/NAME-cleanlab``; None keeps nothing on disk.
        images: folder with a picture of each sample for report and review.
        overwrite: replace the findings in ``out``, unless they have review decisions.
        root: folder of the built-in data sets.
        reader: how to read the data (``label="species"``, ``text=...``), see ``permll.data.readers.read``.

    Examples:
        >>> import pandas as pd
        >>> issues = pd.DataFrame({"is_label_issue": [False, True, False, False], "label_quality": [0.9, 0.1, 0.8, 0.9],
        ...                        "given_label": [0, 1, 1, 0], "predicted_label": [0, 0, 1, 0]})
        >>> data = {"x": [[1.0], [2.0], [9.0], [1.5]], "y": ["cat", "dog", "dog", "cat"]}
        >>> findings_from_cleanlab(issues, data).head(1)[0][:4]
        ('1', 'dog', 'cat', 0.9)
    """
    name = str(issues) if isinstance(issues, str | Path) else "issues"
    columns = _columns(issues)
    found = _label_issues(columns, name)
    options: Any = reader
    given = read_given(data, labels, check_keywords(options, "findings_from_cleanlab"), root)
    rows = given.match(len(found.flagged), name, columns.ids, columns.row_index, prefer_rows=True)
    findings = _findings(found, given, rows.numpy(), name)
    return finish_findings(findings, None, given, ORIGIN, Destination(out, overwrite, images))


def _columns(issues: Any) -> Columns:
    if is_frame(issues):
        return frame_columns(issues)
    if not isinstance(issues, str | Path):
        raise TypeError(f"issues must be a data frame or a file of one, got {type(issues).__name__}.")
    path = Path(issues).expanduser()
    check_file(path, SUFFIXES)
    return read_columns(path)


def _label_issues(columns: Columns, name: str) -> LabelIssues:
    """Return the label issues in the columns of a frame of cleanlab."""
    values = columns.values
    score = next((key for key in SCORES if key in values), None)
    missing = [key for key in (FLAG, PREDICTED) if key not in values] + ([] if score else [" or ".join(SCORES)])
    if score is None or missing:
        raise ValueError(
            f"{name} has no column {' and no column '.join(missing)}: save CleanLearning.get_label_issues() or "
            'Datalab.get_issues("label").'
        )
    quality = to_numbers(values[score])
    if quality is None or not ((quality >= 0) & (quality <= 1)).all():
        raise ValueError(f"{score} of {name} must hold numbers from 0 to 1.")
    flags = [_TRUTH.get(str(value).lower()) for value in values[FLAG]]
    if None in flags:
        raise ValueError(f"{FLAG} of {name} must hold true or false, got {values[FLAG][flags.index(None)]}.")
    given = [_class_name(value) for value in values[GIVEN]] if GIVEN in values else None
    predicted = [_class_name(value) for value in values[PREDICTED]]
    return LabelIssues(np.array(flags, bool), quality.astype(np.float32), predicted, given)


def _class_name(value: Any) -> str:
    """Return the name or number of a class; 1.0 is the number 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _findings(found: LabelIssues, given: GivenData, rows: NDArray[np.int64], name: str) -> Findings:
    """Return the findings of the samples, given the position of each among the issues, or -1."""
    data = given.samples
    labels, is_listed = data.labels.numpy(), rows >= 0
    predicted = labels.copy()
    predicted[is_listed] = _predicted_classes(found, given, rows, name)
    quality = np.where(is_listed, found.quality[rows], np.float32(1))
    trusted = np.zeros(len(data), bool) if data.trusted is None else data.trusted.numpy()
    duplicates = conflicting_duplicates(data.inputs, data.labels)
    differs = predicted != labels
    flagged = is_listed & found.flagged[rows]
    reasons = (2 * differs + 64 * flagged).astype(np.uint8)
    for group in duplicates:
        reasons[list(group)] |= 8
    reasons[trusted] = REVIEWED
    return Findings(
        data.ids,
        data.classes,
        labels,
        np.stack([predicted, labels], 1).astype(np.int32),
        np.stack([np.where(differs, 1 - quality, quality), quality], 1).astype(np.float32),
        np.where(trusted, np.float32(1), quality),
        np.zeros(len(data), np.float32),
        reasons,
        np.zeros((len(data), 0), np.int32),
        issues_have_proposals=False,
        duplicates=duplicates,
        flagged=flagged,
    )


def _predicted_classes(found: LabelIssues, given: GivenData, rows: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return the predicted classes of the listed samples; cleanlab writes names or numbers of classes."""
    data, is_listed = given.samples, rows >= 0
    listed = rows[is_listed].tolist()
    words = {word for words in (found.predicted, found.given or ()) for word in words}
    names: Mapping[str, int] = {name: k for k, name in enumerate(data.classes)}
    numbers = {str(k): k for k in range(data.num_classes)}
    encodings = [encoding for encoding in (names, numbers) if words <= set(encoding)]
    if not encodings:
        unknown = format_list(sorted(words - set(names)), "class")
        raise ValueError(f"{name} has labels that are not classes of {given.where}: {unknown}.")
    different: Sequence[int] = ()
    for encoding in encodings:
        if found.given is None:
            break
        labels = torch.tensor([encoding[found.given[row]] for row in listed])
        different = (labels != data.labels[torch.from_numpy(is_listed)]).nonzero()[:, 0].tolist()
        if not different:
            break
    if different:
        ids = [data.ids[row] for row in np.flatnonzero(is_listed)[different].tolist()]
        raise ValueError(
            f"{GIVEN} of {name} differs from the labels of {given.where} for {format_list(ids, 'sample')}: pass the "
            "data that cleanlab has seen."
        )
    return np.array([encoding[found.predicted[row]] for row in listed], np.int64)
