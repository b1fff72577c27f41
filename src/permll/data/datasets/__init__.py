"""Published data sets, each in its official files."""
