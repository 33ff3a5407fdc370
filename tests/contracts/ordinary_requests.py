"""Requests of well-behaved clients, whose whole bodies are compared: the embedded server's with kube-apiserver's.

In the order in which they are made; objects of `edge_cases/environment.py` exist before the first.
"""

from __future__ import annotations

from typing import Any

from tests.contracts.edge_cases.requests import (
    APPLY,
    APPS,
    BUDGETS,
    CORE,
    CRDS,
    DEPLOYMENTS,
    DRY,
    GROUP,
    MAPS,
    MERGE,
    ODDITIES,
    PATCH,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    STRATEGIC,
    YAML,
    Ask,
    configured,
    deployment,
    get,
    odd,
    pod,
    secret,
    service,
)

TABLE_FORM = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
REVISIONS = f"{APPS}/controllerrevisions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
REVIEWS = "/apis/authorization.k8s.io/v1"


def revision(**parts: Any) -> dict[str, Any]:
    """A ControllerRevision."""
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "first"}, **parts}


def lease(**spec: Any) -> dict[str, Any]:
    """A Lease."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}, "spec": spec}


def _of(kind: str) -> str:
    return f"?fieldSelector=metadata.name%3D{kind}"


DISCOVERY = (
    get("paths", "/"),
    get("version", "/version"),
    get("health", "/healthz", accept=""),
    get("ping of liveness", "/livez/ping", accept=""),
    get("versions of core", "/api"),
    get("groups", "/apis"),
    get("aggregated core", "/api", accept=AGGREGATED),
    get("aggregated groups", "/apis", accept=AGGREGATED),
    get("group apps", "/apis/apps"),
    get("group apiextensions", "/apis/apiextensions.k8s.io"),
    get("group of a custom kind", f"/apis/{GROUP}"),
    get("resources of core", "/api/v1"),
    get("resources of apps", "/apis/apps/v1"),
    get("resources of batch", "/apis/batch/v1"),
    get("resources of apiextensions", "/apis/apiextensions.k8s.io/v1"),
    get("resources of authorization", REVIEWS),
    get("resources of coordination", "/apis/coordination.k8s.io/v1"),
    get("resources of discovery", "/apis/discovery.k8s.io/v1"),
    get("resources of networking", "/apis/networking.k8s.io/v1"),
    get("resources of policy", "/apis/policy/v1"),
    get("resources of rbac", "/apis/rbac.authorization.k8s.io/v1"),
    get("resources of a custom group", f"/apis/{GROUP}/v1"),
)
OPENAPI = (
    get("OpenAPI v2", "/openapi/v2"),
    get("index of OpenAPI v3", "/openapi/v3"),
    get("OpenAPI v3 of apps", "/openapi/v3/apis/apps/v1"),
    get("OpenAPI v3 of policy", "/openapi/v3/apis/policy/v1"),
    get("OpenAPI v3 of a custom kind", f"/openapi/v3/apis/{GROUP}/v1"),
)
READS = (
    get("ConfigMap", f"{MAPS}/here"),
    get("Secret", f"{SECRETS}/here"),
    get("Service", f"{SERVICES}/here"),
    get("Deployment", f"{DEPLOYMENTS}/web"),
    get("status of a Deployment", f"{DEPLOYMENTS}/web/status"),
    get("scale of a Deployment", f"{DEPLOYMENTS}/web/scale"),
    get("Pod", f"{PODS}/free"),
    get("RoleBinding", f"{ROLES}/rolebindings/here"),
    get("custom object", f"{ODDITIES}/here"),
    get("scale of a custom object", f"{ODDITIES}/here/scale"),
    get("CustomResourceDefinition", f"{CRDS}/oddities.{GROUP}"),
    get("Namespace", "/api/v1/namespaces/{ns}"),
    get("ConfigMap as YAML", f"{MAPS}/here", accept=YAML),
    get("metadata of a ConfigMap", f"{MAPS}/here", accept=METADATA),
)
LISTS = (
    get("ConfigMaps by name", MAPS + _of("here")),
    get("ConfigMaps by label", f"{MAPS}?labelSelector=of%3Dworld"),
    get("ConfigMaps without a label", f"{MAPS}?labelSelector=%21of&fieldSelector=metadata.name%3Dthere"),
    get("ConfigMaps by a set of labels", f"{MAPS}?labelSelector=of+in+%28world%2Cspace%29"),
    get("ConfigMaps by a label that none has", f"{MAPS}?labelSelector=of%3Dspace"),
    get("Secrets by type", f"{SECRETS}?fieldSelector=type%3DOpaque"),
    get("Pods by node", f"{PODS}?fieldSelector=spec.nodeName%3Dnowhere"),
    get("Pods by phase", f"{PODS}?fieldSelector=status.phase%3DRunning"),
    get("Deployments", DEPLOYMENTS),
    get("custom objects", ODDITIES),
    get("a page of Pods", f"{PODS}?limit=2"),
    get("metadata of ConfigMaps", MAPS + _of("here"), accept=METADATA_LIST),
    get("StatefulSets, of which there are none", f"{APPS}/statefulsets"),
    get("definitions by name", CRDS + _of(f"oddities.{GROUP}")),
)
TABLES = (
    get("table of ConfigMaps", MAPS + _of("here"), accept=TABLE_FORM),
    get("table of a Secret", f"{SECRETS}/here", accept=TABLE_FORM),
    get("table of Services", SERVICES, accept=TABLE_FORM),
    get("table of Deployments", DEPLOYMENTS, accept=TABLE_FORM),
    get("table of Pods", PODS, accept=TABLE_FORM),
    get("table without objects", f"{DEPLOYMENTS}?includeObject=None", accept=TABLE_FORM),
    get("table with whole objects", f"{DEPLOYMENTS}?includeObject=Object", accept=TABLE_FORM),
    get("table of custom objects", ODDITIES, accept=TABLE_FORM),
    get("table of RoleBindings", f"{ROLES}/rolebindings", accept=TABLE_FORM),
    get("table of PodDisruptionBudgets", BUDGETS + _of("also"), accept=TABLE_FORM),
    get("table of a CustomResourceDefinition", f"{CRDS}/oddities.{GROUP}", accept=TABLE_FORM),
    get("table of no Jobs", "/apis/batch/v1/namespaces/{ns}/jobs", accept=TABLE_FORM),
)
DRY_RUNS = (
    Ask("ConfigMap, dry run", "POST", MAPS + DRY, configured({"a": "1"}, name="dry")),
    Ask("Pod, dry run", "POST", PODS + DRY, pod("dry")),
    Ask("Deployment, dry run", "POST", DEPLOYMENTS + DRY, deployment("dry")),
    Ask("Service, dry run", "POST", SERVICES + DRY, service("dry")),
    Ask("Secret, dry run", "POST", SECRETS + DRY, secret(name="dry", stringData={"a": "1"})),
    Ask("custom object, dry run", "POST", ODDITIES + DRY, odd("dry")),
    Ask("ConfigMap deleted, dry run", "DELETE", f"{MAPS}/there{DRY}"),
    Ask("apply, dry run", "PATCH", f"{MAPS}/dry{DRY}&fieldManager=one", configured({"a": "1"}, name="dry"), APPLY),
)
WRITES = (
    Ask("new ConfigMap", "POST", MAPS, configured({"a": "1"}, name="new")),
    Ask("new ConfigMap a second time", "POST", MAPS, configured({"a": "1"}, name="new")),
    Ask("ConfigMap replaced", "PUT", f"{MAPS}/new", configured({"a": "2"}, name="new")),
    Ask("merge patch", "PATCH", f"{MAPS}/new", {"data": {"b": "1", "a": None}}, MERGE),
    Ask("JSON patch", "PATCH", f"{MAPS}/new", [{"op": "add", "path": "/data/c", "value": "1"}], PATCH),
    Ask(
        "JSON patch whose test fails", "PATCH", f"{MAPS}/new", [{"op": "test", "path": "/data/c", "value": "2"}], PATCH
    ),
    Ask(
        "strategic patch of a list by its key",
        "PATCH",
        f"{DEPLOYMENTS}/web",
        {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}]}]}}}},
        STRATEGIC,
    ),
    Ask("merge patch of a custom object", "PATCH", f"{ODDITIES}/here", {"spec": {"replicas": 2}}, MERGE),
    Ask("patch of a Deployment's scale", "PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 0}}, MERGE),
    Ask("patch of a custom object's scale", "PATCH", f"{ODDITIES}/here/scale", {"spec": {"replicas": 3}}, MERGE),
    Ask(
        "apply of a new object",
        "PATCH",
        f"{MAPS}/applied?fieldManager=one",
        configured({"a": "1"}, name="applied"),
        APPLY,
    ),
    Ask(
        "apply in conflict", "PATCH", f"{MAPS}/applied?fieldManager=two", configured({"a": "2"}, name="applied"), APPLY
    ),
    Ask(
        "apply by force",
        "PATCH",
        f"{MAPS}/applied?fieldManager=two&force=true",
        configured({"a": "2"}, name="applied"),
        APPLY,
    ),
    Ask("apply of a custom object", "PATCH", f"{ODDITIES}/applied?fieldManager=one", odd("applied"), APPLY),
    Ask("new Lease", "POST", LEASES, lease(holderIdentity="one", leaseDurationSeconds=15)),
    Ask("new ControllerRevision", "POST", REVISIONS, revision(revision=1, data={"a": 1})),
    Ask("unknown field, strict", "POST", f"{MAPS}?fieldValidation=Strict", {**configured(name="strict"), "datum": {}}),
    Ask(
        "review of access",
        "POST",
        f"{REVIEWS}/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "{ns}"}},
        },
    ),
)
REFUSALS = (
    get("ConfigMap that does not exist", f"{MAPS}/absent"),
    get("custom object that does not exist", f"{ODDITIES}/absent"),
    get("kind that does not exist", f"{CORE}/absents"),
    Ask("replaced with an old version", "PUT", f"{MAPS}/here", configured({}, name="here", resourceVersion="1")),
    Ask("name that is not allowed", "POST", MAPS, configured(name="Not_Allowed")),
    Ask("another namespace in the body", "POST", MAPS, configured(name="other", namespace="elsewhere")),
    Ask("ConfigMap with a number", "POST", MAPS, configured({"a": 1}, name="number")),
    Ask(
        "Deployment whose selector does not match",
        "POST",
        DEPLOYMENTS,
        deployment("no", selector={"matchLabels": {"app": "x"}}),
    ),
    Ask("Deployment without a template", "POST", DEPLOYMENTS, {**deployment("no"), "spec": {}}),
    Ask("Pod without containers", "POST", PODS, {**pod("no"), "spec": {}}),
    Ask("Service without ports", "POST", SERVICES, service("no", ports=[], clusterIP="")),
    Ask("custom object without a required field", "POST", ODDITIES, odd("no", {"replicas": 1})),
    Ask("custom object of a value that is not allowed", "POST", ODDITIES, odd("no", {"size": "huge"})),
    Ask("ControllerRevision without a revision", "POST", REVISIONS, revision(data={"a": 1}, metadata={"name": "none"})),
    Ask("ControllerRevision without data", "POST", REVISIONS, revision(revision=2, metadata={"name": "empty"})),
    Ask("change of what is immutable", "PATCH", f"{MAPS}/fixed", {"data": {"a": "2"}}, MERGE),
    Ask(
        "change of a selector",
        "PATCH",
        f"{DEPLOYMENTS}/web",
        {"spec": {"selector": {"matchLabels": {"app": "y"}}}},
        MERGE,
    ),
    get("selector that can't be parsed", f"{MAPS}?labelSelector=a%20in"),
)
DELETIONS = (
    Ask("ConfigMap deleted", "DELETE", f"{MAPS}/new"),
    Ask("deleted a second time", "DELETE", f"{MAPS}/new"),
    Ask("deleted with another uid", "DELETE", f"{MAPS}/here", {"preconditions": {"uid": "none"}}),
    Ask("custom object deleted", "DELETE", f"{ODDITIES}/applied"),
    Ask("ConfigMaps deleted by name", "DELETE", MAPS + _of("applied")),
)

ORDINARY: tuple[Ask, ...] = (
    *DISCOVERY,
    *OPENAPI,
    *READS,
    *LISTS,
    *TABLES,
    *DRY_RUNS,
    *WRITES,
    *REFUSALS,
    *DELETIONS,
)
