"""Clusters of one eksaVersion or another, and which steps between versions are allowed."""

from __future__ import annotations

from typing import Any

from espalier.api.meta import Tree
from espalier.runtime.servers.admission import AdmissionResponse
from tests.support.objects.observed_clusters import laptop
from tests.support.servers.admission_reviews import SPEC, edited, garden

VERSION, BUNDLES, KUBERNETES = SPEC + "eksaVersion", SPEC + "bundlesRef", SPEC + "kubernetesVersion"
REFERENCE = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "bundles-1", "namespace": "eksa-system"}


def hub(version: str | None = "v0.26.0", **metadata: Any) -> Tree:
    """Another management cluster."""
    tree = edited({VERSION: version, SPEC + "managementCluster": {"name": "hub"}, "metadata.name": "hub"}, laptop())
    tree["metadata"] |= {"uid": "hub"} | metadata
    return tree


def under_hub(version: str | None, name: str = "garden", **edits: Any) -> Tree:
    tree = edited({VERSION: version, SPEC + "managementCluster": {"name": "hub"}} | edits, garden(name))
    tree["metadata"]["uid"] = name
    return tree


def release(version: str, name: str = "", **spec: Any) -> Tree:
    """An EKSARelease of one's own."""
    name = name or "eksa-" + version.lower().replace("+", "-plus-").replace(".", "-")
    facts = {"version": version, "date": "2026-01-01T00:00:00Z", "gitCommit": "c", "bundleManifestUrl": "u"}
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "EKSARelease",
        "metadata": {"name": name, "uid": name, "resourceVersion": "3"},
        "spec": facts | {"bundlesRef": REFERENCE} | spec,
    }


def refused(response: AdmissionResponse) -> dict[str, str]:
    """All that is said of each field."""
    blamed: dict[str, str] = {}
    for cause in response.causes:
        blamed[cause.field] = " & ".join(filter(None, [blamed.get(cause.field, ""), cause.message]))
    return blamed


VERSIONS: list[tuple[str, str]] = [
    ("v0.26.0", ""),
    ("v0.26.1", "found v0.26.1; allowed: v0.24.2, v0.25.0, v0.25.1, v0.26.0"),
    ("0.26.0", "not a semantic version; found 0.26.0; allowed: a version like v0.26.0"),
    ("latest", "not a semantic version"),
    ("v0.26", "not a semantic version"),
]
"""Releases that a new cluster asks for, and what is said of those that are refused."""
STEPS: list[tuple[str, str, str]] = [
    ("v0.24.2", "v0.25.1", ""),
    ("v0.25.0", "v0.25.1", ""),
    ("v0.25.1", "v0.25.0", ""),
    ("v0.24.2", "v0.26.0", "one minor version at a time; upgrade to a release of v0.25 first"),
    ("v0.26.0", "v0.25.1", "can't be downgraded from v0.26.0 to an earlier minor version"),
    ("v0.26.0", "v1.26.0", "another major version"),
    ("local", "v0.26.0", ""),
]
"""From a release to another, and what is said of it where it is refused."""
