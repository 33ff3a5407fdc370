"""Evictions and bindings of pods."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import BUDGETS, DRY, MERGE, PODS, Ask, configured, running

_eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "held"}}
EVICTIONS = (
    Ask(
        "an eviction of what is not there",
        "POST",
        f"{PODS}/absent/eviction",
        {**_eviction, "metadata": {"name": "absent"}},
    ),
    Ask("an eviction of another name", "POST", f"{PODS}/held/eviction", {**_eviction, "metadata": {"name": "other"}}),
    Ask("an eviction of another kind", "POST", f"{PODS}/held/eviction", configured()),
    Ask("half an eviction", "POST", f"{PODS}/held/eviction", "{"),
    Ask("an eviction before anybody counted", "POST", f"{PODS}/held/eviction", _eviction),
    Ask(
        "a budget that allows none",
        "PATCH",
        f"{BUDGETS}/strange/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 2,
                "expectedPods": 1,
            }
        },
        MERGE,
    ),
    Ask("an eviction that it forbids", "POST", f"{PODS}/held/eviction", {**_eviction, "apiVersion": "policy/v1"}),
    Ask("an eviction that it forbids, only tried", "POST", f"{PODS}/held/eviction{DRY}", _eviction),
    Ask(
        "an eviction that two budgets meet",
        "POST",
        f"{PODS}/held-twice/eviction",
        {**_eviction, "metadata": {"name": "held-twice"}},
    ),
    Ask(
        "an eviction of another uid",
        "POST",
        f"{PODS}/free/eviction",
        {**_eviction, "metadata": {"name": "free"}, "deleteOptions": {"preconditions": {"uid": "other"}}},
    ),
    Ask(
        "a budget that allows one",
        "PATCH",
        f"{BUDGETS}/strange/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 1,
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "expectedPods": 2,
            }
        },
        MERGE,
    ),
    Ask("an eviction that it allows, only tried", "POST", f"{PODS}/held/eviction{DRY}", _eviction),
    Ask("an eviction that it allows", "POST", f"{PODS}/held/eviction", _eviction),
    Ask(
        "one that it allowed once", "POST", f"{PODS}/held-too/eviction", {**_eviction, "metadata": {"name": "held-too"}}
    ),
    Ask("a pod that is no longer ready", "PATCH", f"{PODS}/held-too/status", running("False"), MERGE),
    Ask(
        "an eviction that costs no health",
        "POST",
        f"{PODS}/held-too/eviction",
        {**_eviction, "metadata": {"name": "held-too"}},
    ),
    Ask(
        "a binding of what is not there",
        "POST",
        f"{PODS}/absent/binding",
        {"metadata": {"name": "absent"}, "target": {"kind": "Node", "name": "a"}},
    ),
    Ask(
        "a binding of what is bound",
        "POST",
        f"{PODS}/bound/binding",
        {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "a"}},
    ),
    Ask("a binding to nothing", "POST", f"{PODS}/free/binding", {"metadata": {"name": "free"}, "target": {}}),
)
