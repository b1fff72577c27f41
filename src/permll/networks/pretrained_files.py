"""Download of the files of a default pretrained network from the Hugging Face hub, once for all runs."""

from collections.abc import Callable, Sequence

from permll.utils.messages import first_line

_failed: set[str] = set()  # repositories; a failure takes seconds, so it is not repeated


def download(repository: str, files: Sequence[str], about: str, notify: Callable[[str], None] | None = None) -> bool:
    """Download files of a repository into the local cache, with a progress bar; return whether they are there.

    Args:
        repository: its name on the hub.
        files: names or patterns.
        about: what is downloaded and its size, for ``notify``.
        notify: called with a sentence before the download.
    """
    from huggingface_hub import constants, snapshot_download  # comes with timm and with sentence-transformers

    if constants.HF_HUB_OFFLINE or repository in _failed:
        return False
    if notify is not None:
        notify(f"downloading {about}")
    try:
        snapshot_download(repository, allow_patterns=list(files), etag_timeout=5)
    except Exception as error:  # of any library underneath: without a network there is a fallback
        _failed.add(repository)
        if notify is not None:
            notify(f"{repository} cannot be downloaded ({first_line(error)})")
        return False
    return True
