"""Updates and scales."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import (
    DEPLOYMENTS,
    DRY,
    MAPS,
    MERGE,
    ODDITIES,
    ROLES,
    SECRETS,
    Ask,
    configured,
    deployment,
    get,
    odd,
    secret,
)

_scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "{ns}"}}
UPDATES = (
    Ask("an update of what is not there", "PUT", f"{MAPS}/absent", configured(name="absent")),
    Ask("an update of another name", "PUT", f"{MAPS}/here", configured(name="other")),
    Ask("an update without a name", "PUT", f"{MAPS}/here", {"apiVersion": "v1", "kind": "ConfigMap"}),
    Ask("an update of an old version", "PUT", f"{MAPS}/here", configured(name="here", resourceVersion="1")),
    Ask("an update of a version that is none", "PUT", f"{MAPS}/here", configured(name="here", resourceVersion="some")),
    Ask("an update of another uid", "PUT", f"{MAPS}/here", configured(name="here", uid="other")),
    Ask("an update of another namespace", "PUT", f"{MAPS}/here", configured(name="here", namespace="default")),
    Ask("a custom update without a version", "PUT", f"{ODDITIES}/here", odd("here")),
    Ask("a custom update of what is not there", "PUT", f"{ODDITIES}/absent", odd("absent", resourceVersion="1")),
    Ask("a custom update of an old version", "PUT", f"{ODDITIES}/here", odd("here", resourceVersion="1")),
    Ask("an update of what never changes", "PUT", f"{MAPS}/fixed", configured({"a": "2"}, name="fixed")),
    Ask("an update of a Secret's type", "PUT", f"{SECRETS}/here", secret("example.com/other", "here")),
    Ask(
        "an update of a selector",
        "PUT",
        f"{DEPLOYMENTS}/web",
        deployment("web", selector={"matchLabels": {"app": "other"}}),
    ),
    Ask(
        "an update of a role",
        "PUT",
        f"{ROLES}/rolebindings/here",
        {"metadata": {"name": "here"}, "roleRef": {"kind": "ClusterRole", "name": "edit"}},
    ),
    Ask("an update of a status with half an object", "PUT", f"{DEPLOYMENTS}/web/status", "{"),
    Ask("a scale of what is not there", "PUT", f"{DEPLOYMENTS}/absent/scale", {**_scale, "spec": {"replicas": 1}}),
    Ask("a scale of another kind", "PUT", f"{DEPLOYMENTS}/web/scale", deployment("web")),
    Ask("a scale below zero", "PUT", f"{DEPLOYMENTS}/web/scale", {**_scale, "spec": {"replicas": -1}}),
    Ask("a scale of text", "PUT", f"{DEPLOYMENTS}/web/scale", {**_scale, "spec": {"replicas": "many"}}),
    Ask(
        "a scale of an old version",
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {**_scale, "metadata": {"name": "web", "namespace": "{ns}", "resourceVersion": "1"}, "spec": {"replicas": 1}},
    ),
    Ask(
        "a scale of another name",
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {**_scale, "metadata": {"name": "other", "namespace": "{ns}"}, "spec": {"replicas": 1}},
    ),
    Ask("a scale of nothing", "PUT", f"{DEPLOYMENTS}/web/scale{DRY}", {**_scale}),
    Ask("a scale patched below zero", "PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}, MERGE),
    Ask(
        "a custom scale below zero",
        "PUT",
        f"{ODDITIES}/here/scale",
        {**_scale, "metadata": {"name": "here", "namespace": "{ns}"}, "spec": {"replicas": -1}},
    ),
    Ask("a custom scale of another kind", "PUT", f"{ODDITIES}/here/scale", odd("here")),
    Ask("a custom scale patched below zero", "PATCH", f"{ODDITIES}/here/scale", {"spec": {"replicas": -1}}, MERGE),
    get("a scale", f"{DEPLOYMENTS}/web/scale"),
    get("a custom scale", f"{ODDITIES}/here/scale"),
)
