"""The life of a real cluster, and a reason not to run it on this machine."""

from __future__ import annotations

from tests.support.environments.node_versions import NEW, OLD
from tests.support.environments.real_environment import why_not

MISSING = why_not(OLD, NEW, watchers=256)
