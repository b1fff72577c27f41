"""The figures, one per file: a pure function makes the data, another draws them in the look of ``style``."""
