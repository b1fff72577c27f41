"""Figures, one per module: a pure function computes the data, another draws it."""
