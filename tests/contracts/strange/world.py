"""What a namespace has before the requests of the table are made."""

from __future__ import annotations

from tests.contracts.strange.requests import (
    BUDGETS,
    DEPLOYMENTS,
    MAPS,
    MERGE,
    ODDITIES,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    RequestInfo,
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
WORLD: tuple[RequestInfo, ...] = (
    RequestInfo("a ConfigMap", "POST", MAPS, configured({"a": "1", "b": "2"}, name="here", labels={"of": "world"})),
    RequestInfo("another", "POST", MAPS, configured({"a": "1"}, name="there")),
    RequestInfo("one that never changes", "POST", MAPS, {**configured({"a": "1"}, name="fixed"), "immutable": True}),
    RequestInfo("a Secret", "POST", SECRETS, secret(name="here", stringData={"a": "1"})),
    RequestInfo("a Service", "POST", SERVICES, service("here")),
    RequestInfo("a Deployment", "POST", DEPLOYMENTS, deployment("web")),
    RequestInfo("an Oddity", "POST", ODDITIES, odd("here")),
    RequestInfo("a pod", "POST", PODS, pod("free")),
    RequestInfo("a bound pod", "POST", PODS, pod("bound", nodeName="nowhere")),
    RequestInfo("a pod with a budget", "POST", PODS, _held),
    RequestInfo("a pod with two budgets", "POST", PODS, _held_twice),
    RequestInfo(
        "a third", "POST", PODS, {**pod("held-too"), "metadata": {"name": "held-too", "labels": {"app": "held"}}}
    ),
    *(
        RequestInfo("that it runs", "PATCH", f"{PODS}/{name}/status", running("True"), MERGE)
        for name in ("held", "held-too", "held-twice")
    ),
    RequestInfo("its budget", "POST", BUDGETS, budget(minAvailable=2)),
    RequestInfo("another budget", "POST", BUDGETS, {**_also, "spec": {**_also["spec"], "minAvailable": 1}}),
    RequestInfo(
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
