"""`python -m espalier.upgrades.node STEP`."""

import sys

from espalier.upgrades.node.main import main

sys.exit(main())
