"""``decisions.csv`` of an image folder: which labels ``permll apply`` changed, and which a person reviewed.

A table has the columns ``label_original`` and ``label_source`` for this. The file is in the folder itself, so that it
stays with the images if the folder is moved.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from permll.data.readers.gold import reviewed_mask
from permll.data.readers.raw_data import APPLY_COLUMNS

HISTORY_FILE = "decisions.csv"
HISTORY_COLUMNS = ("path", "label", *APPLY_COLUMNS)


class History(NamedTuple):
    """What happened to a label: the first label and its source, see ``LABEL_SOURCES``."""

    original: str
    source: str


def read_history(root: Path) -> dict[str, History] | None:
    """Return path -> history of the images in a folder; None without a file that ``permll apply`` wrote.

    An image that was moved to another class since then has another path, and therefore no history.
    """
    try:
        with (root / HISTORY_FILE).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    if not rows or tuple(rows[0]) != HISTORY_COLUMNS or any(len(row) != len(HISTORY_COLUMNS) for row in rows[1:]):
        return None
    return {
        path: History(original, source) for path, label, original, source in rows[1:] if path.split("/")[0] == label
    }


def reviewed_images(names: Sequence[str], history: dict[str, History]) -> list[bool]:
    """Return which images have a label that a person reviewed.

    Examples:
        >>> reviewed_images(["cat/1.png", "dog/2.png"], {"dog/2.png": History("cat", "chosen")})
        [False, True]
    """
    return reviewed_mask([history[name].source if name in history else None for name in names])
