"""Check of file paths given by the user."""

from pathlib import Path

from permll.utils.messages import did_you_mean


def require_file(path: Path | str, description: str) -> Path:
    """Return the path of an existing file; otherwise raise an error that suggests a similar file name.

    Examples:
        >>> require_file("somewhere/labels.txt", "label file")
        Traceback (most recent call last):
        FileNotFoundError: label file somewhere/labels.txt does not exist: check the path.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a {description}.")
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings) or ": check the path."
        raise FileNotFoundError(f"{description} {path} does not exist{hint}")
    return path
