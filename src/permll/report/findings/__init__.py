"""The parts of the page of findings: each a pure function from findings to HTML."""
