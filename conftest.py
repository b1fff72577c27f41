"""Collection of doctests in modules that need an extra."""

from importlib.util import find_spec
from pathlib import Path

NEEDED = {"huggingface.py": ("transformers", "accelerate"), "lightning.py": ("lightning",), "skorch.py": ("skorch",)}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the integrations whose framework is not installed; two of them import torchvision."""
    if collection_path.parts[-3:-1] != ("permll", "integrations") or collection_path.name not in NEEDED:
        return None
    if any(find_spec(name) is None for name in NEEDED[collection_path.name]):
        return True
    if find_spec("torchvision") is not None:
        from tests.helpers.tiny_encoders import import_torchvision

        import_torchvision()
    return None
