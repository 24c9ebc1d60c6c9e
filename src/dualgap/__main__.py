"""``python -m dualgap``: the command line."""

from dualgap.cli import main

main()
