"""The command with which local environments have stored how upgrader images are made."""

from __future__ import annotations

import sys

from espalier.cli.local.images.upgrader_archives import main

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
