"""Annotations of our own: whether each is a wish of people, or state; and whose state when objects are copied."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

from espalier.api.definitions.reference import Writer
from espalier.api.eksa.vocabulary.group import GROUP
from espalier.api.metadata_rows import ANNOTATIONS

SOURCE = Path(__file__).parents[2] / "src" / "espalier"
PACKAGES = ("api", "clusterapi", "clusters", "upgrades")

WITH_UIDS = {"GATE_ANNOTATION", "IDENTITY_ANNOTATION", "KUBECONFIG_ANNOTATION", "RELEASE_ANNOTATION"}
"""State of a Cluster: which one it tells of is said by uids, in it or beside it, for Clusters are exported and applied
again (`tests/journeys/test_exported.py`)."""

OF_WHAT_WE_MAKE = {
    "INFRASTRUCTURE_ANNOTATION",
    "CNI_ANNOTATION",
    "GROUP_ANNOTATION",
    "WORKLOAD_OBJECTS_ANNOTATION",
    "REMEDIATION_STOPPED_ANNOTATION",
    "NODE_UPGRADE_ANNOTATION",
    "FALLBACK_ANNOTATION",
    "IN_PLACE_CONTROL_PLANE",
    "IN_PLACE_DEPLOYMENT",
    "REPLACING",
    "DRAIN_BLOCKED",
    "NODE_IN_WORK",
    "IN_PLACE_HOOKS",
    "IN_PLACE_REFUSED",
    "NODE_HAS",
    "UNFINISHED",
    "GOAL",
    "KUBEADM_PATCHES",
    "UPGRADE_SECONDS",
    "CORDONED_BY_UPGRADE",
    "RESTARTED_BY_UPGRADE",
    "SIMULATED_PROVIDERS",
}
"""State of objects that go with their cluster, and that nobody makes but we."""

NO_ANNOTATIONS = {"FINALIZER", "LABEL", "TYPE"}


BY_MANAGER = {key for key, prose in ANNOTATIONS if prose.writer not in (Writer.USER, Writer.CLI)}
"""All others are wishes of people: who copies an object copies the wish."""


def ours() -> Iterator[str]:
    """Names of constants with a key of our group that is no wish."""
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            module = importlib.import_module(".".join(("espalier", *path.relative_to(SOURCE).with_suffix("").parts)))
            for name, value in vars(module).items():
                is_key = isinstance(value, str) and value.startswith(f"{GROUP}/") and name.isupper()
                is_annotation = is_key and not any(word in name for word in NO_ANNOTATIONS)
                if is_annotation and (value in BY_MANAGER or value not in dict(ANNOTATIONS)):
                    yield name


def test_annotation_is_a_wish_or_the_state_of_an_owner() -> None:
    """When this fails: if it is state on an object that people make, let it say of which one it tells, by uid."""
    assert set(ours()) - WITH_UIDS - OF_WHAT_WE_MAKE == set()
