"""The parts of a benchmark's page: each a pure function from rows to HTML."""
