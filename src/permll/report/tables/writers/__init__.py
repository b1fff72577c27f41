"""Table writers, one module per format."""
