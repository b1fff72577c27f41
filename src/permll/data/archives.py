"""Unpacking an archive: whole or not at all, and nowhere but where it should go."""

import tarfile
import tempfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the one folder that a tar file holds, and put it in the place of ``folder``.

    Members that point outside, devices and the like are refused. Everything is written beside ``folder`` first, so a
    process that is killed leaves no half of it behind under its name.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ImportError("unpacking safely needs Python 3.11.4 or newer: update Python, or unpack by hand.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")
        except (tarfile.TarError, EOFError) as problem:
            raise ValueError(f"{archive} was not unpacked: {problem}; remove it and get it again.") from None
        if not (Path(place) / folder.name).is_dir():
            raise ValueError(f"{archive} was not unpacked: there is no folder {folder.name} in it; get it again.")
        if folder.exists():
            folder.replace(Path(place) / "before")  # goes with the temporary folder
        (Path(place) / folder.name).replace(folder)
    return folder
