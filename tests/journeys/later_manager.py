"""`espalier` as a later build: with layers that this one doesn't have. For journeys in which managers are processes.

python -m tests.journeys.later_manager manager --kubeconfig ...
"""

from __future__ import annotations

import sys
from functools import partial

from espalier.cli.main import run
from espalier.cli.programs import components
from tests.support.histories.isolation_stories import NEXT

if __name__ == "__main__":
    components.of_manager = partial(components.of_manager, layers=NEXT)
    sys.exit(run(sys.argv[1:]))
