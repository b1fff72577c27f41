"""``python -m permll``: the command line, where ``permll`` itself is not on the path."""

from permll.cli.main import main

main()
