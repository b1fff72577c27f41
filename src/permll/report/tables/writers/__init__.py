"""Tables as text, one file for each format."""
