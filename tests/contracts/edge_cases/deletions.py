"""Deletions."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import MAPS, ODDITIES, Ask, configured

DELETIONS = (
    Ask("a deletion of what is not there", "DELETE", f"{MAPS}/absent"),
    Ask("half of its options", "DELETE", f"{MAPS}/here", "{"),
    Ask("options that are a list", "DELETE", f"{MAPS}/here", []),
    Ask("options of another kind", "DELETE", f"{MAPS}/here", configured()),
    Ask("options of another version", "DELETE", f"{MAPS}/here", {"apiVersion": "v7", "kind": "DeleteOptions"}),
    Ask("options of another type", "DELETE", f"{MAPS}/here", {"gracePeriodSeconds": "soon"}),
    Ask("options of an unknown propagation", "DELETE", f"{MAPS}/here", {"propagationPolicy": "Nearly"}),
    Ask(
        "options of two propagations",
        "DELETE",
        f"{MAPS}/here",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ),
    Ask("options of an unknown dry run", "DELETE", f"{MAPS}/here", {"dryRun": ["Some"]}),
    Ask("options of another uid", "DELETE", f"{MAPS}/here", {"preconditions": {"uid": "other"}}),
    Ask(
        "options of another version of the object",
        "DELETE",
        f"{MAPS}/here",
        {"preconditions": {"resourceVersion": "1"}},
    ),
    Ask("a namespace that stays", "DELETE", "/api/v1/namespaces/default"),
    Ask("a custom object that is not there, deleted", "DELETE", f"{ODDITIES}/absent"),
)
