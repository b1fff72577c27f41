"""Loaders of the built-in datasets, in their official file formats."""
