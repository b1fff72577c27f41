"""Figures of results, drawn with matplotlib: an optional dependency, so import these modules only to draw."""

from permll.utils.messages import install_hint

try:
    import matplotlib  # noqa: F401
except ImportError as missing:
    raise ImportError(f"figures need matplotlib: {install_hint('plots')}") from missing
