"""General helpers: error messages, progress bars, atomic files."""
