"""Tables and metadata: what kubectl prints, cell by cell. Expected cells are what kube-apiserver 1.36 answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api import core
from espalier.api.kinds import Column
from espalier.api.resource import Resource
from espalier.api.trees.json_path import compiled
from espalier.apiserver.builtin.tables import MetadataForm, TableForm, form_of
from espalier.apiserver.wire.durations import age, human_duration
from espalier.kube.errors import BadRequest
from espalier.kube.objects import ListMeta

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
Tree = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass
class Kind:
    resource: Resource
    columns: Sequence[Column] | None = None
    minor: str = "1.36"


def created(ago: timedelta = timedelta(minutes=5), **metadata: Any) -> Tree:
    return {"name": "x", "creationTimestamp": (NOW - ago).isoformat().replace("+00:00", "Z"), **metadata}


def row(resource: Resource, tree: Tree, columns: Sequence[Column] | None = None) -> Tree:
    """The cells of one object by column name."""
    raw = json.dumps({"metadata": created(), **tree}).encode()
    table = json.loads(TableForm().object(Kind(resource, columns), raw, NOW))
    (only,) = table["rows"]
    return dict(zip([column["name"] for column in table["columnDefinitions"]], only["cells"], strict=True))


def shown(resource: Resource, tree: Tree, *names: str) -> list[Any]:
    cells = row(resource, tree)
    return [cells[name] for name in names]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", None),
        ("application/json", None),
        ("*/*", None),
        (f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", TableForm),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, " + TABLE, TableForm),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", None),
        ("application/json," + TABLE, None),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", MetadataForm),
    ],
)
def test_a_client_gets_the_form_that_it_prefers(accept: str, form: type | None) -> None:
    chosen = form_of(accept, {})
    assert chosen is None if form is None else isinstance(chosen, form)


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Namespace")]
)
def test_rows_carry_as_much_of_object_as_was_asked_for(include: str, kind: str) -> None:
    form = form_of(TABLE, {"includeObject": include})
    assert form is not None
    raw = json.dumps({"kind": "Namespace", "apiVersion": "v1", "metadata": created(resourceVersion="7")}).encode()
    table = json.loads(form.list(Kind(core.NAMESPACE), [raw, raw], ListMeta(resource_version="9", continue_="c"), NOW))
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "9", "continue": "c"}
    assert [row["object"]["kind"] for row in table["rows"]] == [kind, kind]
    assert table["rows"][0]["object"]["metadata"]["name"] == "x"
    partial = json.loads(form.object(Kind(core.NAMESPACE), raw, NOW))
    assert partial["metadata"] == {"resourceVersion": "7"}


def test_rows_without_objects_are_allowed() -> None:
    form = form_of(TABLE, {"includeObject": "None"})
    assert form is not None
    table = json.loads(form.object(Kind(core.NAMESPACE), json.dumps({"metadata": created()}).encode(), NOW))
    assert table["rows"][0]["object"] is None
    with pytest.raises(BadRequest, match="includeObject"):
        form_of(TABLE, {"includeObject": "Everything"})


def test_metadata_alone() -> None:
    raw = json.dumps({"kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "Yg=="}}).encode()
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    form = MetadataForm()
    assert json.loads(form.object(Kind(core.SECRET), raw, NOW)) == partial
    items = json.loads(form.list(Kind(core.SECRET), [raw], ListMeta(resource_version="3"), NOW))
    assert items["kind"] == "PartialObjectMetadataList"
    assert items["items"] == [partial]


def test_custom_columns_show_types_as_kubernetes_does() -> None:
    thing = {
        "metadata": created(labels={"a.b/c": "label"}),
        "spec": {"s": "text", "i": 5, "n": 1.5, "b": True, "d": "2026-11-20T00:00:00Z", "large": 3e6, "null": None},
        "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]},
        "list": [{"x": 1}, {"x": "two"}],
    }
    wanted: list[tuple[Column, Any]] = [
        (Column("Text", ".spec.s"), "text"),
        (Column("Integer", ".spec.i", "integer"), 5),
        (Column("Number", ".spec.n", "number"), 1.5),
        (Column("Boolean", ".spec.b", "boolean"), True),
        (Column("Date", ".spec.d", "date"), "34h"),
        (Column("NoInteger", ".spec.s", "integer"), None),
        (Column("NoDate", ".spec.s", "date"), "<invalid>"),
        (Column("Absent", ".spec.absent"), None),
        (Column("Null", ".spec.null"), "<no value>"),
        (Column("Ready", '.status.conditions[?(@.type=="Ready")].status'), "True"),
        (Column("Label", ".metadata.labels.a\\.b/c"), "label"),
        (Column("Quoted", ".metadata.labels['a\\.b/c']"), "label"),
        (Column("List", ".list"), '[{"x":1},{"x":"two"}]'),
        (Column("First", ".list[*].x"), "1"),
        (Column("Last", ".list[-1].x"), "two"),
        (Column("BooleanText", ".spec.b"), "true"),
        (Column("LargeText", ".spec.large"), "3000000"),
    ]
    cells = row(Resource("example.org", "v1", "things", "Thing"), thing, [column for column, _ in wanted])
    assert cells == {"Name": "x", **{column.name: value for column, value in wanted}}


def test_a_custom_kind_without_columns_shows_its_age() -> None:
    assert row(Resource("example.org", "v1", "things", "Thing"), {}, []) == {"Name": "x", "Age": "5m"}


def container(name: str, *, ready: bool = False, restarts: int = 0, ended: str = "", **state: Any) -> Tree:
    last = {"lastState": {"terminated": {"exitCode": 1, "finishedAt": ended}}} if ended else {}
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, **last}


TWO = {"containers": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("pod", "cells"),
    [
        ({"spec": TWO, "status": {"phase": "Pending"}}, ["0/2", "Pending", "0"]),
        (
            {
                "spec": TWO,
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        container("a", ready=True, running={}),
                        container("b", ready=True, restarts=3, ended="2026-11-21T09:20:00Z", running={}),
                    ],
                },
            },
            ["2/2", "Running", "3 (40m ago)"],
        ),
        (
            {
                "spec": TWO,
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        container("a", restarts=5, waiting={"reason": "CrashLoopBackOff"}),
                        container("b", restarts=1, terminated={"exitCode": 137, "signal": 9}),
                    ],
                },
            },
            ["0/2", "CrashLoopBackOff", "6"],
        ),
        (
            {
                "spec": TWO,
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        container("a", ready=True, running={}),
                        container("b", restarts=1, terminated={"exitCode": 0, "reason": "Completed"}),
                    ],
                },
            },
            ["1/2", "NotReady", "1"],
        ),
        (
            {
                "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [
                        container("i", restarts=2, terminated={"exitCode": 0}),
                        container("j", running={}),
                    ],
                    "containerStatuses": [container("a", waiting={"reason": "PodInitializing"})],
                },
            },
            ["0/1", "Init:1/2", "2"],
        ),
        (
            {
                "spec": {
                    "containers": [{"name": "a"}],
                    "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "i"}],
                },
                "status": {
                    "phase": "Running",
                    "initContainerStatuses": [
                        {**container("side", ready=True, restarts=2, running={}), "started": True},
                        container("i", ready=True, restarts=1, terminated={"exitCode": 0}),
                    ],
                    "containerStatuses": [container("a", ready=True, restarts=3, running={})],
                },
            },
            ["2/2", "Running", "5"],
        ),
        (
            {
                "metadata": created(deletionTimestamp="2026-11-21T09:59:00Z"),
                "spec": TWO,
                "status": {"phase": "Running"},
            },
            ["0/2", "Terminating", "0"],
        ),
        ({"spec": TWO, "status": {"phase": "Failed", "reason": "Evicted"}}, ["0/2", "Evicted", "0"]),
    ],
)
def test_pods(pod: Tree, cells: list[str]) -> None:
    assert shown(core.POD, pod, "Ready", "Status", "Restarts") == cells


def test_nodes() -> None:
    node = {
        "metadata": created(
            labels={"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "a": "b"}
        ),
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.35.4", "kernelVersion": "6.1", "architecture": "amd64", "osImage": ""},
        },
    }
    assert row(core.NODE, node) == {
        "Name": "x",
        "Status": "NotReady,SchedulingDisabled",
        "Roles": "control-plane,worker",
        "Age": "5m",
        "Version": "v1.35.4",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "<unknown>",
        "Kernel-Version": "6.1 (amd64)",
        "Container-Runtime": "<unknown>",
    }
    assert shown(core.NODE, {}, "Status", "Roles") == ["Unknown", "<none>"]


def test_workloads() -> None:
    spec = {
        "replicas": 2,
        "selector": {
            "matchLabels": {"app": "x"},
            "matchExpressions": [
                {"key": "k", "operator": "In", "values": ["b", "a"]},
                {"key": "z", "operator": "Exists"},
                {"key": "q", "operator": "DoesNotExist"},
            ],
        },
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}},
    }
    deployment = row(core.DEPLOYMENT, {"spec": spec, "status": {"readyReplicas": 1, "updatedReplicas": 2}})
    assert deployment == {
        "Name": "x",
        "Ready": "1/2",
        "Up-to-date": 2,
        "Available": 0,
        "Age": "5m",
        "Containers": "c,d",
        "Images": "i,j",
        "Selector": "app=x,k in (a,b),!q,z",
    }
    assert shown(core.REPLICA_SET, {"spec": spec}, "Desired", "Current", "Ready") == [2, 0, 0]
    daemon_set = {"spec": {"template": {"spec": {"nodeSelector": {"b": "c", "a": "d"}}}}, "status": {"numberReady": 1}}
    assert shown(core.DAEMON_SET, daemon_set, "Desired", "Ready", "Node Selector") == [0, 1, "a=d,b=c"]


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        (
            {
                "clusterIPs": ["10.0.0.7"],
                "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                "externalIPs": ["1.2.3.4"],
            },
            ["ClusterIP", "10.0.0.7", "1.2.3.4", "80/TCP,53/UDP"],
        ),
        (
            {"type": "LoadBalancer", "clusterIPs": ["10.0.0.8"], "ports": [{"port": 80, "nodePort": 30080}]},
            ["LoadBalancer", "10.0.0.8", "<pending>", "80:30080/TCP"],
        ),
        (
            {"type": "ExternalName", "externalName": "example.org"},
            ["ExternalName", "<none>", "example.org", "<none>"],
        ),
    ],
)
def test_services(spec: Tree, cells: list[str]) -> None:
    assert shown(core.SERVICE, {"spec": spec}, "Type", "Cluster-IP", "External-IP", "Port(s)") == cells


@pytest.mark.parametrize("resource", [core.CORE_EVENT, core.EVENT])
def test_events_in_their_old_and_new_words(resource: Resource) -> None:
    old = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
        "reason": "Because",
        "message": " hello ",
        "type": "Normal",
        "source": {"component": "comp", "host": "h"},
        "firstTimestamp": "2026-11-21T09:00:00Z",
        "lastTimestamp": "2026-11-21T09:30:00Z",
        "count": 4,
    }
    new = {
        "regarding": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
        "reason": "Because",
        "note": "hello",
        "type": "Normal",
        "reportingController": "comp",
        "reportingInstance": "h",
        "eventTime": "2026-11-21T09:00:00.000000Z",
        "series": {"count": 4, "lastObservedTime": "2026-11-21T09:30:00.000000Z"},
    }
    cells = {
        "Last Seen": "30m",
        "Type": "Normal",
        "Reason": "Because",
        "Object": "pod/p",
        "Subobject": "spec.containers{a}",
        "Source": "comp, h",
        "Message": "hello",
        "First Seen": "60m",
        "Count": 4,
        "Name": "x",
    }
    assert row(resource, old) == cells
    assert row(resource, new) == cells


def test_smaller_kinds() -> None:
    assert row(core.NAMESPACE, {"status": {"phase": "Active"}}) == {"Name": "x", "Status": "Active", "Age": "5m"}
    assert row(core.CONFIG_MAP, {"data": {"a": "b"}, "binaryData": {"c": ""}}) == {"Name": "x", "Data": 2, "Age": "5m"}
    assert shown(core.SECRET, {"type": "Opaque", "data": {"a": "b"}}, "Type", "Data") == ["Opaque", 1]
    assert shown(core.LEASE, {"spec": {"holderIdentity": "me"}}, "Holder") == ["me"]
    assert shown(core.VALIDATING_WEBHOOK_CONFIGURATION, {"webhooks": [{}, {}]}, "Webhooks") == [2]
    assert shown(core.CUSTOM_RESOURCE_DEFINITION, {}, "Created At") == ["2026-11-21T09:55:00Z"]
    binding = {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    }
    assert shown(core.ROLE_BINDING, binding, "Role", "Users", "Groups", "ServiceAccounts") == ["Role/r", "u", "", "n/s"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    revision = {"metadata": created(ownerReferences=[owner]), "revision": 3}
    assert shown(core.CONTROLLER_REVISION, revision, "Controller", "Revision") == ["daemonset.apps/d", 3]


@pytest.mark.parametrize(
    ("resource", "tree", "column", "cell"),
    [
        (core.JOB, {"status": {"conditions": [{"status": "True"}]}}, "Status", "Running"),
        (core.NODE, {"status": {"conditions": [{"type": "Ready"}]}}, "Status", "NotReady"),
        (core.NODE, {"status": {"addresses": [{"address": "10.0.0.1"}]}}, "Internal-IP", "<none>"),
        (core.POD, {"status": {"initContainerStatuses": [{"state": {}}], "podIPs": [{}]}}, "IP", "<none>"),
        (core.ROLE_BINDING, {"subjects": [{"kind": "ServiceAccount", "name": "s"}]}, "ServiceAccounts", "/s"),
        (core.ENDPOINTS, {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{}]}]}, "Endpoints", "10.0.0.1:0"),
    ],
)
def test_an_object_that_lacks_fields_has_a_row(resource: Resource, tree: Tree, column: str, cell: str) -> None:
    """Without one, nobody could list its kind as a table."""
    assert shown(resource, tree, column) == [cell]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (250, "4m10s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 120, "5h2m"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def test_ages_of_what_is_no_time() -> None:
    assert age(None, NOW) == "<unknown>"
    assert age("yesterday", NOW) == "<invalid>"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("{.items[0].n}", [1]),
        ("$.items[-1].n", [3]),
        (".items[*].n", [1, 2, 3]),
        (".items[0:2].n", [1, 2]),
        (".items[1:].n", [2, 3]),
        (".items[?(@.n>1)].n", [2, 3]),
        (".items[?(@.n!=2)].n", [1, 3]),
        (".items[?(@.name)].n", [2]),
        (".items[?(@.name<5)].n", []),
        ("..n", [1, 2, 3]),
        (".map.*", [1]),
        (".map['a.b']", [1]),
        (".map.a\\.b", [1]),
        (".none.deeper[0]", []),
        (".", [{"items": [{"n": 1}, {"n": 2, "name": "two"}, {"n": 3}], "map": {"a.b": 1}}]),
    ],
)
def test_json_paths(path: str, value: list[Any]) -> None:
    tree = {"items": [{"n": 1}, {"n": 2, "name": "two"}, {"n": 3}], "map": {"a.b": 1}}
    assert compiled(path)(tree) == value


@pytest.mark.parametrize("path", [".a[", ".a[?(@.b==c)]", ".a b"])
def test_a_text_that_is_no_json_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        compiled(path)


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1))
def test_any_name_can_be_quoted_in_a_json_path(tree: dict[str, int]) -> None:
    for name, value in tree.items():
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        assert compiled(f"['{quoted}']")(tree) == [value]


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({"minAvailable": "50%"}, {"disruptionsAllowed": 2}, ["50%", "N/A", 2]),
        ({"maxUnavailable": 1}, {}, ["N/A", "1", 0]),
        ({"minAvailable": 0}, {}, ["0", "N/A", 0]),
    ],
)
def test_a_budget_shows_what_it_allows(spec: Tree, status: Tree, cells: list[Any]) -> None:
    result = row(core.POD_DISRUPTION_BUDGET, {"spec": spec, "status": status})
    assert [*result] == ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"]
    assert [*result.values()][1:4] == cells
