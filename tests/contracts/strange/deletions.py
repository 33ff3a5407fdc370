"""Deletions."""

from __future__ import annotations

from tests.contracts.strange.requests import MAPS, ODDITIES, RequestInfo, configured

DELETIONS = (
    RequestInfo("a deletion of what is not there", "DELETE", f"{MAPS}/absent"),
    RequestInfo("half of its options", "DELETE", f"{MAPS}/here", "{"),
    RequestInfo("options that are a list", "DELETE", f"{MAPS}/here", []),
    RequestInfo("options of another kind", "DELETE", f"{MAPS}/here", configured()),
    RequestInfo("options of another version", "DELETE", f"{MAPS}/here", {"apiVersion": "v7", "kind": "DeleteOptions"}),
    RequestInfo("options of another type", "DELETE", f"{MAPS}/here", {"gracePeriodSeconds": "soon"}),
    RequestInfo("options of an unknown propagation", "DELETE", f"{MAPS}/here", {"propagationPolicy": "Nearly"}),
    RequestInfo(
        "options of two propagations",
        "DELETE",
        f"{MAPS}/here",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ),
    RequestInfo("options of an unknown dry run", "DELETE", f"{MAPS}/here", {"dryRun": ["Some"]}),
    RequestInfo("options of another uid", "DELETE", f"{MAPS}/here", {"preconditions": {"uid": "other"}}),
    RequestInfo(
        "options of another version of the object",
        "DELETE",
        f"{MAPS}/here",
        {"preconditions": {"resourceVersion": "1"}},
    ),
    RequestInfo("a namespace that stays", "DELETE", "/api/v1/namespaces/default"),
    RequestInfo("a custom object that is not there, deleted", "DELETE", f"{ODDITIES}/absent"),
)
