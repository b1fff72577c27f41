"""What came out, for eyes: figures and tables made from results."""
