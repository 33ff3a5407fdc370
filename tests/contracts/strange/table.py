"""Requests that no well-behaved client makes, or only once: what an API server must have an answer for.

A table, without what the answers are: a golden file has those, to which every server is held
(`test_strange_requests.py`). `{ns}` stands for a namespace that has the objects of `WORLD`.
"""

from __future__ import annotations

from tests.contracts.strange.applies import APPLIES
from tests.contracts.strange.bodies import BODIES
from tests.contracts.strange.definitions import DEFINITIONS
from tests.contracts.strange.deletions import DELETIONS
from tests.contracts.strange.evictions import EVICTIONS
from tests.contracts.strange.kinds import KINDS
from tests.contracts.strange.media_types import TYPES
from tests.contracts.strange.patches import PATCHES
from tests.contracts.strange.paths import PATHS
from tests.contracts.strange.pods import CONTAINERS, POD_FIELDS, VOLUMES
from tests.contracts.strange.queries import QUERIES
from tests.contracts.strange.requests import Ask
from tests.contracts.strange.updates import UPDATES
from tests.contracts.strange.watches import WATCHES

TABLE: tuple[Ask, ...] = (
    *PATHS,
    *BODIES,
    *TYPES,
    *QUERIES,
    *WATCHES,
    *PATCHES,
    *APPLIES,
    *UPDATES,
    *DELETIONS,
    *EVICTIONS,
    *CONTAINERS,
    *VOLUMES,
    *POD_FIELDS,
    *KINDS,
    *DEFINITIONS,
)
"""All of them, in the order in which they are made: a few change what later ones find."""
