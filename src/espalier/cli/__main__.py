"""`python -m espalier.cli` is `espalier`."""

from espalier.cli.main import main

main()
