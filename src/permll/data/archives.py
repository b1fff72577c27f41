"""Safe and atomic extraction of archives."""

import tarfile
import tempfile
from pathlib import Path


def extract_archive(archive: Path, folder: Path) -> Path:
    """Extract the one folder of a tar file, and replace ``folder`` with it.

    Members that point outside the folder, devices and the like are rejected. Everything is extracted beside ``folder``
    first, so an interrupted process leaves no partial folder under that name.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ImportError("safe extraction needs Python 3.11.4 or newer: update Python, or extract the file by hand.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise ValueError(f"{archive} cannot be extracted: {error}; remove it and download it again.") from None
        extracted = Path(temporary) / folder.name
        if not extracted.is_dir():
            raise ValueError(f"{archive} contains no folder {folder.name}; download it again.")
        if folder.exists():
            folder.replace(Path(temporary) / "previous")  # removed with the temporary folder
        extracted.replace(folder)
    return folder
