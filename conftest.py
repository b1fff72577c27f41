"""Collection of doctests in modules that need an extra."""

from importlib.util import find_spec
from pathlib import Path

from tests.helpers.tiny_encoders import import_torchvision


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the integration with transformers if it is not installed; it imports torchvision."""
    if collection_path.parts[-2:] != ("integrations", "huggingface.py"):
        return None
    if find_spec("torchvision") is not None:
        import_torchvision()
    return True if find_spec("transformers") is None or find_spec("accelerate") is None else None
