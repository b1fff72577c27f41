"""The version, alone, so that building the package imports nothing."""

__version__ = "0.1.0.dev0"
