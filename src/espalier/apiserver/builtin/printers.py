"""Print columns of the built-in kinds, as in kube-apiserver's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from espalier.api import core
from espalier.api.conditions import is_true_in
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.version_matrix import numbers
from espalier.apiserver.builtin.pod_status import readiness_gates, summary
from espalier.apiserver.wire.durations import age, human_duration

ROLE_LABEL = "node-role.kubernetes.io/"

Cell = Callable[[Tree, datetime], object]


class PrinterColumn(NamedTuple):
    """A column and its cell function. `priority` 1 is only shown with `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""


def at(*path: str, default: object = "") -> Cell:
    """The value at a path of names."""

    def cell(tree: Tree, _: datetime) -> object:
        return _at(tree, *path, default=default)

    return cell


def since(*path: str) -> Cell:
    """The age of the timestamp at a path."""

    def cell(tree: Tree, now: datetime) -> object:
        return age(_at(tree, *path, default=None), now)

    return cell


def count(*path: str) -> Cell:
    """A number; 0 where it is absent."""
    return at(*path, default=0)


def size(*paths: str) -> Cell:
    """The total number of entries of lists or maps."""

    def cell(tree: Tree, _: datetime) -> object:
        return sum(len(tree.get(path) or ()) for path in paths)

    return cell


def cell_of(function: Callable[[Tree], object]) -> Cell:
    """A cell that needs no clock."""
    return lambda tree, _: function(tree)


def _at(tree: Any, *path: str, default: Any) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return default if tree is None else tree


def _wide(name: str, cell: Cell) -> PrinterColumn:
    return PrinterColumn(name, cell, priority=1)


def _number(name: str, cell: Cell) -> PrinterColumn:
    return PrinterColumn(name, cell, type="integer")


def _int_or_text(field: str) -> Cell:
    """A number of pods, or a percentage, in the spec."""
    return cell_of(lambda tree: str(_at(tree, "spec", field, default="N/A")))


NAME = PrinterColumn("Name", at("metadata", "name"), format="name")
AGE = PrinterColumn("Age", since("metadata", "creationTimestamp"))
CREATED_AT = PrinterColumn("Created At", at("metadata", "creationTimestamp"), type="date")


def _joined(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)


def _labels(labels: Mapping[str, str] | None) -> str:
    return _joined(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def _selector(tree: Tree) -> str:
    selector = _at(tree, "spec", "selector", default={})
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        return _labels(selector)
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = _joined(sorted(expression.get("values") or ()))
        shown = {"Exists": key, "DoesNotExist": f"!{key}", "NotIn": f"{key} notin ({values})"}
        terms.append((key, shown.get(operator, f"{key} in ({values})")))
    return _joined(text for _, text in sorted(terms, key=lambda term: term[0]))


def _containers(name: str) -> Cell:
    def cell(tree: Tree, _: datetime) -> object:
        containers = _at(tree, "spec", "template", "spec", "containers", default=[])
        return _joined(container.get(name, "") for container in containers)

    return cell


def _ratio(ready: Cell, desired: Cell) -> Cell:
    return lambda tree, now: f"{ready(tree, now)}/{desired(tree, now)}"


WORKLOAD = (
    _wide("Containers", _containers("name")),
    _wide("Images", _containers("image")),
    _wide("Selector", cell_of(_selector)),
)
READY_OF_DESIRED = _ratio(count("status", "readyReplicas"), at("spec", "replicas", default=1))


def _node_status(node: Tree) -> str:
    conditions = {part.get("type"): part.get("status", "") for part in _at(node, "status", "conditions", default=[])}
    ready = conditions.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if _at(node, "spec", "unschedulable", default=False) else status


def _node_roles(node: Tree) -> str:
    labels = _at(node, "metadata", "labels", default={})
    roles = {label.removeprefix(ROLE_LABEL) for label in labels if label.startswith(ROLE_LABEL)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return _joined(sorted(roles - {""})) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(node: Tree, _: datetime) -> object:
        addresses = _at(node, "status", "addresses", default=[])
        return next((address.get("address") for address in addresses if address.get("type") == kind), "<none>")

    return cell


def _node_info(name: str) -> Cell:
    return cell_of(lambda node: _at(node, "status", "nodeInfo", name, default="") or "<unknown>")


def _kernel(node: Tree) -> str:
    info = _at(node, "status", "nodeInfo", default={})
    kernel, architecture = info.get("kernelVersion") or "<unknown>", info.get("architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _external_ip(service: Tree) -> str:
    spec = service.get("spec", {})
    kind, external = spec.get("type", "ClusterIP"), spec.get("externalIPs") or []
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind != "LoadBalancer":
        return _joined(external) or "<none>"
    ingress = _at(service, "status", "loadBalancer", "ingress", default=[])
    balanced = sorted({balancer.get("ip") or balancer.get("hostname", "") for balancer in ingress} - {""})
    return _joined([*balanced, *external]) or "<pending>"


def _ports(service: Tree) -> str:
    ports = _at(service, "spec", "ports", default=[])
    return (
        _joined(
            f"{port['port']}:{port['nodePort']}/{port.get('protocol', 'TCP')}"
            if port.get("nodePort")
            else f"{port['port']}/{port.get('protocol', 'TCP')}"
            for port in ports
        )
        or "<none>"
    )


def _cluster_ip(service: Tree) -> str:
    spec = service.get("spec", {})
    return str(next(iter(spec.get("clusterIPs") or ()), spec.get("clusterIP") or "<none>"))


def _event_last_seen(event: Tree, now: datetime) -> str:
    series = _at(event, "series", "lastObservedTime", default=None)
    last = series or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return age(last, now) if last else _event_first_seen(event, now)


def _event_first_seen(event: Tree, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime"), now)


def _involved_object(event: Tree) -> Tree:
    return event.get("involvedObject") or event.get("regarding") or {}


def _event_object(event: Tree) -> str:
    about = _involved_object(event)
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(event: Tree) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController")
    host = source.get("host") or event.get("reportingInstance")
    return ", ".join(part for part in (component, host) if part)


def _event_count(event: Tree) -> object:
    return _at(event, "series", "count", default=None) or event.get("count") or event.get("deprecatedCount") or 1


def _event_message(event: Tree) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _subjects(kind: str) -> Cell:
    def cell(binding: Tree, _: datetime) -> object:
        chosen = (subject for subject in binding.get("subjects") or () if subject.get("kind") == kind)
        return ", ".join(
            f"{subject.get('namespace', '')}/{name}" if kind == "ServiceAccount" else name
            for subject in chosen
            for name in (subject.get("name", ""),)
        )

    return cell


def _signing_state(request: Tree) -> str:
    types = [condition.get("type") for condition in _at(request, "status", "conditions", default=[])]
    states = [state for state in ("Approved", "Denied") if state in types][:1] or ["Pending"]
    states += ["Failed"] if "Failed" in types else []
    return ",".join(states + (["Issued"] if _at(request, "status", "certificate", default="") else []))


def _requested_duration(request: Tree, _: datetime) -> str:
    seconds = _at(request, "spec", "expirationSeconds", default=None)
    return "<none>" if seconds is None else human_duration(seconds)


def _role(binding: Tree) -> str:
    return f"{_at(binding, 'roleRef', 'kind', default='')}/{_at(binding, 'roleRef', 'name', default='')}"


def _controller(revision: Tree) -> str:
    for owner in _at(revision, "metadata", "ownerReferences", default=[]):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return f"{owner['kind']}{'.' + group if group else ''}".lower() + f"/{owner['name']}"
    return "<none>"


def _endpoints(endpoints: Tree) -> str:
    pairs = [
        f"{address.get('ip', '')}:{port.get('port', 0)}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    more = f" + {len(pairs) - 3} more..." if len(pairs) > 3 else ""
    return _joined(pairs[:3]) + more or "<none>"


_EVENT = (
    PrinterColumn("Last Seen", _event_last_seen),
    PrinterColumn("Type", at("type")),
    PrinterColumn("Reason", at("reason")),
    PrinterColumn("Object", cell_of(_event_object)),
    _wide("Subobject", cell_of(lambda event: _involved_object(event).get("fieldPath", ""))),
    _wide("Source", cell_of(_event_source)),
    PrinterColumn("Message", cell_of(_event_message)),
    _wide("First Seen", _event_first_seen),
    _wide("Count", cell_of(_event_count)),
    PrinterColumn("Name", at("metadata", "name"), priority=1, format="name"),
)
_ROLE = (NAME, CREATED_AT)
_BINDING = (
    NAME,
    PrinterColumn("Role", cell_of(_role)),
    AGE,
    _wide("Users", _subjects("User")),
    _wide("Groups", _subjects("Group")),
    _wide("ServiceAccounts", _subjects("ServiceAccount")),
)
_WEBHOOKS = (NAME, _number("Webhooks", size("webhooks")), AGE)

DEFAULT = (NAME, AGE)
"""Default columns."""


def _pod(field: str) -> Cell:
    return lambda pod, now: getattr(summary(pod, now), field)


def _job_status(job: Tree) -> str:
    types = {
        condition.get("type")
        for condition in _at(job, "status", "conditions", default=[])
        if condition.get("status") == "True"
    }
    if final := next((state for state in ("Complete", "Failed") if state in types), ""):
        return final
    if _at(job, "metadata", "deletionTimestamp", default=None):
        return "Terminating"
    return next((name for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if name in types), "Running")


def _job_completions(job: Tree) -> str:
    succeeded = _at(job, "status", "succeeded", default=0)
    wanted = _at(job, "spec", "completions", default=None)
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallel = _at(job, "spec", "parallelism", default=0)
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _job_duration(job: Tree, now: datetime) -> str:
    started, ended = _at(job, "status", "startTime", default=""), _at(job, "status", "completionTime", default="")
    if not started:
        return ""
    try:
        return age(started, datetime.fromisoformat(ended) if ended else now)
    except ValueError:
        return "<invalid>"


def _pod_ip(pod: Tree) -> str:
    addresses = _at(pod, "status", "podIPs", default=[])
    first = next((address.get("ip") for address in addresses), None)
    return str(first or _at(pod, "status", "podIP", default="<none>"))


PRINTERS: Mapping[tuple[str, str], tuple[PrinterColumn, ...]] = MappingProxyType(
    {
        (resource.group, resource.plural): columns
        for resource, columns in (
            (
                core.POD,
                (
                    NAME,
                    PrinterColumn("Ready", _pod("ready")),
                    PrinterColumn("Status", _pod("status")),
                    PrinterColumn("Restarts", _pod("restarts")),
                    AGE,
                    _wide("IP", cell_of(_pod_ip)),
                    _wide("Node", at("spec", "nodeName", default="<none>")),
                    _wide("Nominated Node", at("status", "nominatedNodeName", default="<none>")),
                    _wide("Readiness Gates", cell_of(readiness_gates)),
                ),
            ),
            (
                core.NODE,
                (
                    NAME,
                    PrinterColumn("Status", cell_of(_node_status)),
                    PrinterColumn("Roles", cell_of(_node_roles)),
                    AGE,
                    PrinterColumn("Version", at("status", "nodeInfo", "kubeletVersion")),
                    _wide("Internal-IP", _node_address("InternalIP")),
                    _wide("External-IP", _node_address("ExternalIP")),
                    _wide("OS-Image", _node_info("osImage")),
                    _wide("Kernel-Version", cell_of(_kernel)),
                    _wide("Container-Runtime", _node_info("containerRuntimeVersion")),
                ),
            ),
            (
                core.DEPLOYMENT,
                (
                    NAME,
                    PrinterColumn("Ready", READY_OF_DESIRED),
                    PrinterColumn("Up-to-date", count("status", "updatedReplicas")),
                    PrinterColumn("Available", count("status", "availableReplicas")),
                    AGE,
                    *WORKLOAD,
                ),
            ),
            (
                core.DAEMON_SET,
                (
                    NAME,
                    _number("Desired", count("status", "desiredNumberScheduled")),
                    _number("Current", count("status", "currentNumberScheduled")),
                    _number("Ready", count("status", "numberReady")),
                    _number("Up-to-date", count("status", "updatedNumberScheduled")),
                    _number("Available", count("status", "numberAvailable")),
                    PrinterColumn(
                        "Node Selector",
                        cell_of(
                            lambda tree: _labels(_at(tree, "spec", "template", "spec", "nodeSelector", default={}))
                        ),
                    ),
                    AGE,
                    *WORKLOAD,
                ),
            ),
            (
                core.REPLICA_SET,
                (
                    NAME,
                    _number("Desired", at("spec", "replicas", default=1)),
                    _number("Current", count("status", "replicas")),
                    _number("Ready", count("status", "readyReplicas")),
                    AGE,
                    *WORKLOAD,
                ),
            ),
            (
                core.POD_DISRUPTION_BUDGET,
                (
                    NAME,
                    PrinterColumn("Min Available", _int_or_text("minAvailable")),
                    PrinterColumn("Max Unavailable", _int_or_text("maxUnavailable")),
                    _number("Allowed Disruptions", count("status", "disruptionsAllowed")),
                    AGE,
                ),
            ),
            (core.STATEFUL_SET, (NAME, PrinterColumn("Ready", READY_OF_DESIRED), AGE, *WORKLOAD[:2])),
            (
                core.SERVICE,
                (
                    NAME,
                    PrinterColumn("Type", at("spec", "type", default="ClusterIP")),
                    PrinterColumn("Cluster-IP", cell_of(_cluster_ip)),
                    PrinterColumn("External-IP", cell_of(_external_ip)),
                    PrinterColumn("Port(s)", cell_of(_ports)),
                    AGE,
                    _wide("Selector", cell_of(_selector)),
                ),
            ),
            (
                core.JOB,
                (
                    NAME,
                    PrinterColumn("Status", cell_of(_job_status)),
                    PrinterColumn("Completions", cell_of(_job_completions)),
                    PrinterColumn("Duration", _job_duration),
                    AGE,
                    *WORKLOAD,
                ),
            ),
            (core.ENDPOINTS, (NAME, PrinterColumn("Endpoints", cell_of(_endpoints)), AGE)),
            (core.NAMESPACE, (NAME, PrinterColumn("Status", at("status", "phase")), AGE)),
            (core.CONFIG_MAP, (NAME, PrinterColumn("Data", size("data", "binaryData")), AGE)),
            (core.SECRET, (NAME, PrinterColumn("Type", at("type")), PrinterColumn("Data", size("data")), AGE)),
            (core.LEASE, (NAME, PrinterColumn("Holder", at("spec", "holderIdentity")), AGE)),
            (
                core.CERTIFICATE_SIGNING_REQUEST,
                (
                    NAME,
                    AGE,
                    PrinterColumn("SignerName", at("spec", "signerName")),
                    PrinterColumn("Requestor", at("spec", "username")),
                    PrinterColumn("RequestedDuration", _requested_duration),
                    PrinterColumn("Condition", cell_of(_signing_state)),
                ),
            ),
            (core.CORE_EVENT, _EVENT),
            (core.EVENT, _EVENT),
            (
                core.CONTROLLER_REVISION,
                (
                    NAME,
                    PrinterColumn("Controller", cell_of(_controller)),
                    PrinterColumn("Revision", count("revision")),
                    AGE,
                ),
            ),
            (core.CUSTOM_RESOURCE_DEFINITION, (NAME, CREATED_AT)),
            (core.ROLE, _ROLE),
            (core.CLUSTER_ROLE, _ROLE),
            (core.ROLE_BINDING, _BINDING),
            (core.CLUSTER_ROLE_BINDING, _BINDING),
            (core.MUTATING_WEBHOOK_CONFIGURATION, _WEBHOOKS),
            (core.VALIDATING_WEBHOOK_CONFIGURATION, _WEBHOOKS),
        )
    }
)
"""Columns of built-in kinds by (group, plural); others have `DEFAULT`."""


def columns_of(resource: Resource, minor: str = "") -> tuple[PrinterColumn, ...]:
    """The columns of a built-in kind in a minor version of Kubernetes."""
    if resource == core.CUSTOM_RESOURCE_DEFINITION and numbers(minor) >= _LONG_DEFINITIONS:
        return _DEFINITION
    return PRINTERS.get((resource.group, resource.plural), DEFAULT)


def _versions(definition: Tree) -> str:
    """Its served versions by name: `v1(storage),v1beta1`."""
    served = [version for version in _at(definition, "spec", "versions", default=()) if version.get("served")]
    return _joined(sorted(f"{version['name']}{'(storage)' if version.get('storage') else ''}" for version in served))


_LONG_DEFINITIONS = (1, 37)
_DEFINITION = (
    NAME,
    PrinterColumn("Scope", at("spec", "scope")),
    PrinterColumn("Versions", cell_of(_versions)),
    CREATED_AT,
    _wide("Group", at("spec", "group")),
    _wide("Kind", at("spec", "names", "kind")),
    _wide("ShortNames", cell_of(lambda tree: _joined(_at(tree, "spec", "names", "shortNames", default=())))),
    PrinterColumn(
        "Established",
        cell_of(lambda tree: is_true_in(tree.get("status"), "Established")),
        type="boolean",
        priority=1,
    ),
)
