"""Figures of results, drawn with matplotlib: an optional dependency, so import these modules only to draw."""

try:
    import matplotlib  # noqa: F401
except ImportError as missing:
    raise ImportError("figures need matplotlib: pip install 'permll[plots]'") from missing
