"""Helpers without domain knowledge: messages, progress bars, atomic files."""
