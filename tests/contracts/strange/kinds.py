"""Objects of other kinds that cannot be."""

from __future__ import annotations

from tests.contracts.strange.requests import (
    APPS,
    BUDGETS,
    CORE,
    DEPLOYMENTS,
    ODDITIES,
    ROLES,
    SECRETS,
    SERVICES,
    RequestInfo,
    budget,
    deployment,
    odd,
    secret,
    service,
)

KINDS = (
    RequestInfo("a Secret that is no base64", "POST", SECRETS, secret(data={"a": "%"})),
    RequestInfo("a Secret of an illegal key", "POST", SECRETS, secret(data={"a/b": ""})),
    RequestInfo("a Secret of illegal text keys", "POST", SECRETS, secret(stringData={"../b": ""})),
    RequestInfo("a Secret of a number", "POST", SECRETS, secret(data={"a": 5})),
    RequestInfo("a Secret for TLS without its parts", "POST", SECRETS, secret("kubernetes.io/tls")),
    RequestInfo("a Secret of a registry without its part", "POST", SECRETS, secret("kubernetes.io/dockerconfigjson")),
    RequestInfo(
        "a Secret of a registry that is no JSON",
        "POST",
        SECRETS,
        secret("kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": "{"}),
    ),
    RequestInfo("a Secret of a login without its parts", "POST", SECRETS, secret("kubernetes.io/basic-auth")),
    RequestInfo(
        "a Secret of an account that is not said", "POST", SECRETS, secret("kubernetes.io/service-account-token")
    ),
    RequestInfo("a Service of a name with a digit first", "POST", SERVICES, service("1-strange")),
    RequestInfo("a Service of a name with a dot", "POST", SERVICES, service("a.b")),
    RequestInfo("a Service without ports", "POST", SERVICES, service(clusterIP="", ports=[])),
    RequestInfo("a Service of a port that is none", "POST", SERVICES, service(ports=[{"port": 0}])),
    RequestInfo("a Service of two ports without names", "POST", SERVICES, service(ports=[{"port": 1}, {"port": 2}])),
    RequestInfo(
        "a Service of one port twice",
        "POST",
        SERVICES,
        service(ports=[{"name": "a", "port": 1}, {"name": "b", "port": 1}]),
    ),
    RequestInfo("a Service of a type that is none", "POST", SERVICES, service(type="Perhaps")),
    RequestInfo(
        "a Service of a protocol that is none", "POST", SERVICES, service(ports=[{"port": 1, "protocol": "IPX"}])
    ),
    RequestInfo("a namespace whose name has a dot", "POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
    RequestInfo("a namespace that is there", "POST", "/api/v1/namespaces", {"metadata": {"name": "{ns}"}}),
    RequestInfo("a node whose name is none", "POST", "/api/v1/nodes", {"metadata": {"name": "No_node"}}),
    RequestInfo(
        "a taint that is none",
        "POST",
        "/api/v1/nodes",
        {"metadata": {"name": "strange"}, "spec": {"taints": [{"key": "a", "effect": "Perhaps"}]}},
    ),
    RequestInfo(
        "an account whose name is none", "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "No_account"}}
    ),
    RequestInfo("a Deployment without spec", "POST", DEPLOYMENTS, {"metadata": {"name": "strange"}}),
    RequestInfo("a Deployment without a selector", "POST", DEPLOYMENTS, deployment(selector={})),
    RequestInfo(
        "a Deployment whose selector misses",
        "POST",
        DEPLOYMENTS,
        deployment(selector={"matchLabels": {"app": "other"}}),
    ),
    RequestInfo(
        "a Deployment whose selector is illegal",
        "POST",
        DEPLOYMENTS,
        deployment(selector={"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Like"}]}),
    ),
    RequestInfo("a Deployment below zero", "POST", DEPLOYMENTS, deployment(replicas=-1)),
    RequestInfo("a Deployment of half pods", "POST", DEPLOYMENTS, deployment(replicas=1.5)),
    RequestInfo(
        "a Deployment without containers",
        "POST",
        DEPLOYMENTS,
        deployment(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}),
    ),
    RequestInfo(
        "a Deployment whose container is a path",
        "POST",
        DEPLOYMENTS,
        deployment(
            template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "../a", "image": "a"}]}}
        ),
    ),
    RequestInfo(
        "a Deployment of pods that end",
        "POST",
        DEPLOYMENTS,
        deployment(
            template={
                "metadata": {"labels": {"app": "web"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]},
            }
        ),
    ),
    RequestInfo(
        "a Deployment of a strategy that is none", "POST", DEPLOYMENTS, deployment(strategy={"type": "Perhaps"})
    ),
    RequestInfo(
        "a Deployment that may lose and win nothing",
        "POST",
        DEPLOYMENTS,
        deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
    ),
    RequestInfo(
        "a DaemonSet whose selector misses",
        "POST",
        f"{APPS}/daemonsets",
        {
            **deployment(),
            "kind": "DaemonSet",
            "spec": {
                **{k: v for k, v in deployment()["spec"].items() if k != "replicas"},
                "selector": {"matchLabels": {"app": "other"}},
            },
        },
    ),
    RequestInfo(
        "a role of no verbs",
        "POST",
        f"{ROLES}/roles",
        {"metadata": {"name": "strange"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]},
    ),
    RequestInfo(
        "a role of no resources",
        "POST",
        f"{ROLES}/roles",
        {"metadata": {"name": "strange"}, "rules": [{"verbs": ["get"]}]},
    ),
    RequestInfo(
        "a role of paths in a namespace",
        "POST",
        f"{ROLES}/roles",
        {"metadata": {"name": "strange"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]},
    ),
    RequestInfo("a role whose name goes up", "POST", f"{ROLES}/roles", {"metadata": {"name": ".."}}),
    RequestInfo("a role whose name has a slash", "POST", f"{ROLES}/roles", {"metadata": {"name": "a/b"}}),
    RequestInfo("a binding of no role", "POST", f"{ROLES}/rolebindings", {"metadata": {"name": "strange"}}),
    RequestInfo(
        "a binding of another kind of role",
        "POST",
        f"{ROLES}/rolebindings",
        {"metadata": {"name": "strange"}, "roleRef": {"kind": "Thing", "name": "a"}},
    ),
    RequestInfo(
        "a binding of a subject that is none",
        "POST",
        f"{ROLES}/rolebindings",
        {
            "metadata": {"name": "strange"},
            "roleRef": {"kind": "Role", "name": "a"},
            "subjects": [{"kind": "Thing", "name": "a"}],
        },
    ),
    RequestInfo("a budget of both limits", "POST", BUDGETS, budget(minAvailable=1, maxUnavailable=1)),
    RequestInfo("a budget below zero", "POST", BUDGETS, budget(minAvailable=-1)),
    RequestInfo("a budget of more than all", "POST", BUDGETS, budget(maxUnavailable="120%")),
    RequestInfo("a budget of text", "POST", BUDGETS, budget(maxUnavailable="some")),
    RequestInfo(
        "a budget of an illegal selector",
        "POST",
        BUDGETS,
        budget(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
    ),
    RequestInfo(
        "a Lease of less than no time",
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"metadata": {"name": "strange"}, "spec": {"leaseDurationSeconds": 0}},
    ),
    RequestInfo(
        "a Lease of a time that is none",
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"metadata": {"name": "strange"}, "spec": {"renewTime": "now"}},
    ),
    RequestInfo(
        "a review of another type", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": []}
    ),
    RequestInfo("a review of nothing", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}),
    RequestInfo(
        "a review of nobody",
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    RequestInfo("a custom value that is none of those", "POST", ODDITIES, odd(spec={"size": "huge"})),
    RequestInfo("a custom object that lacks", "POST", ODDITIES, odd(spec={})),
    RequestInfo(
        "a custom object of another type", "POST", ODDITIES, odd(spec={"size": 5, "replicas": "many", "parts": {}})
    ),
    RequestInfo("a custom object below its minimum", "POST", ODDITIES, odd(spec={"size": "small", "replicas": -1})),
    RequestInfo(
        "a custom object with a key twice",
        "POST",
        ODDITIES,
        odd(spec={"size": "small", "parts": [{"id": "a"}, {"id": "a"}]}),
    ),
    RequestInfo("a custom spec that is text", "POST", ODDITIES, odd(spec="text")),
    RequestInfo("a custom name that is none", "POST", ODDITIES, odd("No_name")),
)
