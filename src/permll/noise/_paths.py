"""Files that a user names: there, or a sentence that says what is there instead."""

from pathlib import Path

from permll.utils.messages import did_you_mean


def existing(path: Path | str, what: str) -> Path:
    """Return the path of a file that is there; ``what`` says what it should be.

    Examples:
        >>> existing("somewhere/labels.txt", "label file")
        Traceback (most recent call last):
        FileNotFoundError: there is no label file somewhere/labels.txt: look for it in another folder.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name the {what} in it.")
    if not path.exists():
        there = [below.name for below in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, there) or ": look for it in another folder."
        raise FileNotFoundError(f"there is no {what} {path}{hint}")
    return path
