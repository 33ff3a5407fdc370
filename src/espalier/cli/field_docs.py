"""`python -m espalier.cli.field_docs docs/fields` writes a reference page for each kind that people look at."""

from __future__ import annotations

import sys
from pathlib import Path

from espalier.api.eksa.release import Bundles
from espalier.api.field_docs import write
from espalier.api.kinds import KubeObject
from espalier.providers.kinds import EKSA_KINDS

KINDS: tuple[type[KubeObject], ...] = tuple(
    kind for kind in EKSA_KINDS if kind is not Bundles and kind.resource.group == Bundles.resource.group
)
"""Not Bundles: a release brings them, and `kubectl explain` knows their hundreds of images."""

if __name__ == "__main__":
    write(Path(sys.argv[1]), KINDS)
