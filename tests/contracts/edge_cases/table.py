"""Requests that no well-behaved client makes, or only once: what an API server must have an answer for.

A table, without what the answers are: a golden file has those, to which every server is held
(`test_edge_cases.py`). `{ns}` stands for a namespace that has the objects of `WORLD`.
"""

from __future__ import annotations

from tests.contracts.edge_cases.applies import APPLIES
from tests.contracts.edge_cases.bodies import BODIES
from tests.contracts.edge_cases.definitions import DEFINITIONS
from tests.contracts.edge_cases.deletions import DELETIONS
from tests.contracts.edge_cases.evictions import EVICTIONS
from tests.contracts.edge_cases.kinds import KINDS
from tests.contracts.edge_cases.media_types import TYPES
from tests.contracts.edge_cases.patches import PATCHES
from tests.contracts.edge_cases.paths import PATHS
from tests.contracts.edge_cases.pods import CONTAINERS, POD_FIELDS, VOLUMES
from tests.contracts.edge_cases.queries import QUERIES
from tests.contracts.edge_cases.requests import Ask
from tests.contracts.edge_cases.updates import UPDATES
from tests.contracts.edge_cases.watches import WATCHES

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
