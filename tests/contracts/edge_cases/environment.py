"""The objects in a namespace before the requests of the table are made."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import (
    BUDGETS,
    DEPLOYMENTS,
    MAPS,
    MERGE,
    ODDITIES,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    Ask,
    budget,
    configured,
    deployment,
    odd,
    pod,
    running,
    secret,
    service,
)

_held = {**pod("held"), "metadata": {"name": "held", "labels": {"app": "held"}}}
_held_twice = {**pod("held-twice"), "metadata": {"name": "held-twice", "labels": {"app": "held", "also": "held"}}}
_also = {**budget(selector={"matchLabels": {"also": "held"}}), "metadata": {"name": "also"}}
ENVIRONMENT: tuple[Ask, ...] = (
    Ask("a ConfigMap", "POST", MAPS, configured({"a": "1", "b": "2"}, name="here", labels={"of": "world"})),
    Ask("another", "POST", MAPS, configured({"a": "1"}, name="there")),
    Ask("one that never changes", "POST", MAPS, {**configured({"a": "1"}, name="fixed"), "immutable": True}),
    Ask("a Secret", "POST", SECRETS, secret(name="here", stringData={"a": "1"})),
    Ask("a Service", "POST", SERVICES, service("here")),
    Ask("a Deployment", "POST", DEPLOYMENTS, deployment("web")),
    Ask("an Oddity", "POST", ODDITIES, odd("here")),
    Ask("a pod", "POST", PODS, pod("free")),
    Ask("a bound pod", "POST", PODS, pod("bound", nodeName="nowhere")),
    Ask("a pod with a budget", "POST", PODS, _held),
    Ask("a pod with two budgets", "POST", PODS, _held_twice),
    Ask("a third", "POST", PODS, {**pod("held-too"), "metadata": {"name": "held-too", "labels": {"app": "held"}}}),
    *(
        Ask("that it runs", "PATCH", f"{PODS}/{name}/status", running("True"), MERGE)
        for name in ("held", "held-too", "held-twice")
    ),
    Ask("its budget", "POST", BUDGETS, budget(minAvailable=2)),
    Ask("another budget", "POST", BUDGETS, {**_also, "spec": {**_also["spec"], "minAvailable": 1}}),
    Ask(
        "a role binding",
        "POST",
        f"{ROLES}/rolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "here"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        },
    ),
)
