"""Objects in a namespace that Clusters share are written by the `Writer` alone, which judges whose they are."""

from __future__ import annotations

import re
from pathlib import Path

import espalier

SOURCE = Path(espalier.__file__).parent
DIRECT = re.compile(r"client\.(apply|create|patch|replace|delete)\(")

IN_WORKLOAD_CLUSTERS = {"clusters/plan/workload.py", "upgrades/node/context.py"}
"""Where nobody else's cluster is."""
ITS_OWN = {"upgrades/hooks/registration.py"}
"""The ExtensionConfig of the manager."""


OF_SHOOTS = {
    "shoots/garden/namespaces.py": "the namespace of a Project, which is created and nothing else",
    "shoots/gardenlet/clusters.py": "a Cluster that is created: who has the name already is told",
    "shoots/gardenlet/states/other_kinds.py": "a state for a status, by UID",
    "shoots/gardenlet/tasks/backups.py": "a BackupEntry of the shoot, deleted by its UID",
    "shoots/gardenlet/tasks/extensions.py": "a state for a status, by UID and, where it counts, by version",
    "shoots/state/store.py": "Secrets with state, whose names tell the shoot and the content",
}
"""Direct writes of the garden and gardenlets, and why nobody else's object is hit."""


def sources(package: str) -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text() for path in sorted((SOURCE / package).rglob("*.py"))}


def test_clusters_and_upgrades_write_by_writer_alone() -> None:
    results = {name for name, text in {**sources("clusters"), **sources("upgrades")}.items() if DIRECT.search(text)}
    assert results == IN_WORKLOAD_CLUSTERS | ITS_OWN


def test_direct_writes_for_shoots_are_listed() -> None:
    assert {name for name, text in sources("shoots").items() if DIRECT.search(text)} == OF_SHOOTS.keys()


def test_objects_are_written_after_a_check_of_owners() -> None:
    """Its names are made of those of Clusters, which can mean the same."""
    assert [name for name, text in sources("clusters").items() if "found_by_owner" in text] == []
