"""The command line. Every command is a thin shell over a function that can be called from Python."""
