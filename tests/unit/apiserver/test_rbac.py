"""Roles allow what they say to whom they are bound, where they are bound, and nothing else."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, ROLE, ROLE_BINDING, SECRET
from espalier.api.resource import Resource
from espalier.apiserver.access import escalation
from espalier.apiserver.access.rbac import Grant, PolicyRule, Subject, allows
from espalier.apiserver.requests.requests import Attributes
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import BadRequest, Forbidden, NotFound
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User

ROBOT = User(
    "system:serviceaccount:tools:robot",
    ("system:serviceaccounts", "system:serviceaccounts:tools", "system:authenticated"),
)
READ_PODS = PolicyRule(verbs=["get", "list"], api_groups=[""], resources=["pods", "pods/log"])


def asked(verb: str, resource: str, **more: str) -> Attributes:
    return Attributes(verb=verb, group=more.pop("group", ""), resource=resource, **more)


@pytest.mark.parametrize(
    ("attributes", "rule", "expected"),
    [
        (asked("get", "pods"), READ_PODS, True),
        (asked("get", "pods", subresource="log"), READ_PODS, True),
        (asked("get", "pods", subresource="status"), READ_PODS, False),
        (asked("delete", "pods"), READ_PODS, False),
        (asked("get", "pods", group="example.com"), READ_PODS, False),
        (asked("get", "pods", subresource="status"), PolicyRule(["get"], [""], ["pods/*"]), True),
        (asked("get", "pods"), PolicyRule(["get"], [""], ["pods/*"]), False),
        (asked("patch", "things", subresource="status"), PolicyRule(["*"], ["*"], ["*/status"]), True),
        (asked("patch", "things", subresource="scale"), PolicyRule(["*"], ["*"], ["*"]), True),
        (asked("get", "secrets", name="a"), PolicyRule(["get"], [""], ["secrets"], ["a"]), True),
        (asked("get", "secrets", name="b"), PolicyRule(["get"], [""], ["secrets"], ["a"]), False),
        (asked("list", "secrets"), PolicyRule(["list"], [""], ["secrets"], ["a"]), False),
    ],
)
def test_rules(attributes: Attributes, rule: PolicyRule, expected: bool) -> None:
    assert rule.covers(attributes) is expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (Subject("ServiceAccount", "robot", "tools"), True),
        (Subject("ServiceAccount", "robot", "other"), False),
        (Subject("User", "system:serviceaccount:tools:robot"), True),
        (Subject("Group", "system:serviceaccounts:tools"), True),
        (Subject("Group", "system:masters"), False),
    ],
)
def test_subjects(subject: Subject, expected: bool) -> None:
    assert allows(asked("get", "pods"), ROBOT, [Grant("", [subject], [READ_PODS])]) is expected


def test_a_role_binding_counts_in_its_namespace_only() -> None:
    grants = [Grant("a", [Subject("Group", "system:authenticated")], [READ_PODS])]
    assert allows(asked("list", "pods", namespace="a"), ROBOT, grants)
    assert not allows(asked("list", "pods", namespace="b"), ROBOT, grants)
    assert not allows(asked("list", "pods"), ROBOT, grants), "nor over all namespaces"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    yield server
    await server.close()


async def test_stored_rules_count_at_once(server: Server) -> None:
    admin, robot = Client(InProcessTransport(server)), Client(InProcessTransport(server, ROBOT))
    with pytest.raises(Forbidden):
        await robot.list(CONFIG_MAP, "default")
    rule: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    subject = {"kind": "ServiceAccount", "namespace": "tools", "name": "robot"}
    meta = {"name": "reader", "namespace": "default"}
    await admin.create(CLUSTER_ROLE, {"metadata": {"name": "reader"}, "rules": [rule]})
    bound = {"roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": [subject]}
    created = await admin.create(ROLE_BINDING, {"metadata": meta, **bound})
    assert created.tree["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert (await robot.list(CONFIG_MAP, "default")).items == []
    with pytest.raises(Forbidden):
        await robot.list(CONFIG_MAP)
    await admin.create(CLUSTER_ROLE_BINDING, {"metadata": {"name": "reader"}, **bound})
    assert (await robot.list(CONFIG_MAP)).items == []
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}
    await admin.create(ROLE, {"metadata": meta, "rules": [secrets]})
    await admin.delete(ROLE_BINDING, "reader", "default")
    own = {"roleRef": {"kind": "Role", "name": "reader"}, "subjects": [subject]}
    await admin.create(ROLE_BINDING, {"metadata": meta, **own})
    assert (await robot.list(SECRET, "default")).items == []
    await admin.delete(ROLE, "reader", "default")
    with pytest.raises(Forbidden):
        await robot.list(SECRET, "default")


async def test_selecting_by_name_needs_rights_on_that_object() -> None:
    asked_for: list[Attributes] = []

    def note(attributes: Attributes, _user: User) -> bool:
        asked_for.append(attributes)
        return True

    server = Server(
        MemoryStore(), now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=random.Random(1), authorizer=note
    )
    await server.start()
    client = Client(InProcessTransport(server, ROBOT))
    await client.list(CONFIG_MAP, "tools", fields="metadata.name=one")
    await client.list(CONFIG_MAP, "tools")
    await server.close()
    assert [attributes.name for attributes in asked_for if attributes.namespace == "tools"] == ["one", ""]


ALICE = User("alice", ("system:authenticated",))
EDIT_ROLES = {
    "apiGroups": ["rbac.authorization.k8s.io"],
    "resources": ["roles", "rolebindings"],
    "verbs": ["create", "update", "patch", "get"],
}
READ_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
WRITES = ("create", "update", "merge patch", "apply")


async def write(client: Client, how: str, resource: Resource, body: dict[str, Any]) -> None:
    """Write an object by each way there is; all but `create` change one that was harmless."""
    key = body["metadata"]["name"], body["metadata"].get("namespace", "")
    match how:
        case "create":
            await client.create(resource, body)
        case "update":
            await client.replace(resource, body)
        case "merge patch":
            await client.patch(resource, *key, patch=body, type=PatchType.MERGE)
        case _:
            await client.apply(resource, body, field_manager="test", force=True)


async def environment_of(server: Server, *rules: dict[str, Any]) -> tuple[Client, Client]:
    """An administrator, and alice, who has these rights in the namespace default."""
    admin, alice = Client(InProcessTransport(server)), Client(InProcessTransport(server, ALICE))
    meta = {"name": "alice", "namespace": "default"}
    await admin.create(ROLE, {"metadata": meta, "rules": list(rules)})
    subjects = [{"kind": "User", "name": "alice"}]
    await admin.create(
        ROLE_BINDING, {"metadata": meta, "roleRef": {"kind": "Role", "name": "alice"}, "subjects": subjects}
    )
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await admin.create(CLUSTER_ROLE, {"metadata": {"name": "cluster-admin"}, "rules": everything})
    return admin, alice


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "rules": list(rules)}


def binding(name: str, kind: str, of: str, *users: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": of},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"} for user in users],
    }


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "delete"]},
        {"apiGroups": ["", "apps"], "resources": ["configmaps"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps/status"], "verbs": ["get"]},
    ],
)
async def test_nobody_writes_role_with_rights_that_he_lacks(server: Server, how: str, rule: dict[str, Any]) -> None:
    admin, alice = await environment_of(server, EDIT_ROLES, READ_MAPS)
    if how != "create":
        await admin.create(ROLE, role("more"))
    with pytest.raises(Forbidden, match="attempting to grant RBAC permissions not currently held"):
        await write(alice, how, ROLE, role("more", rule))
    await write(alice, how, ROLE, role("more", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}))


@pytest.mark.parametrize("how", WRITES)
async def test_nobody_binds_a_role_with_rights_that_he_lacks(server: Server, how: str) -> None:
    admin, alice = await environment_of(server, EDIT_ROLES, READ_MAPS)
    await admin.create(ROLE, role("reader", READ_MAPS))
    for kind, of in (("ClusterRole", "cluster-admin"), ("Role", "reader")):
        if how != "create":
            await admin.create(ROLE_BINDING, binding(of, kind, of))
    with pytest.raises(Forbidden, match="not currently held"):
        await write(alice, how, ROLE_BINDING, binding("cluster-admin", "ClusterRole", "cluster-admin", "alice"))
    with pytest.raises(Forbidden):
        await alice.list(SECRET, "default")
    await write(alice, how, ROLE_BINDING, binding("reader", "Role", "reader", "bob"))


async def test_nobody_lets_role_gather_rights_that_he_lacks(server: Server) -> None:
    admin, alice = await environment_of(server, EDIT_ROLES)
    edit = {**EDIT_ROLES, "resources": ["clusterroles"]}
    await admin.create(CLUSTER_ROLE, {"metadata": {"name": "alice"}, "rules": [edit]})
    bound = binding("alice", "ClusterRole", "alice", "alice")
    await admin.create(CLUSTER_ROLE_BINDING, {**bound, "metadata": {"name": "alice"}})
    gathering = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    with pytest.raises(Forbidden, match="not currently held"):
        await alice.create(CLUSTER_ROLE, {"metadata": {"name": "all"}, **gathering})
    await alice.create(CLUSTER_ROLE, {"metadata": {"name": "all"}})
    with pytest.raises(Forbidden, match="not currently held"):
        await alice.patch(CLUSTER_ROLE, "all", patch=gathering, type=PatchType.MERGE)


async def test_rights_to_one_name_or_address_give_no_others(server: Server) -> None:
    rule_of_one = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["mine"]}
    _, alice = await environment_of(server, EDIT_ROLES, rule_of_one)
    for names in ({}, {"resourceNames": ["other"]}, {"resourceNames": ["mine", "other"]}):
        rule = {**{key: value for key, value in rule_of_one.items() if key != "resourceNames"}, **names}
        with pytest.raises(Forbidden, match="not currently held"):
            await alice.create(ROLE, role("more", rule))
    await alice.create(ROLE, role("more", rule_of_one))


@pytest.mark.parametrize(
    ("held", "wanted", "is_covered"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/all", False),
        ("/metrics", "/logs", False),
        ("/logs/*", "/logs/a", True),
        ("/logs/*", "/metrics", False),
        ("/logs/*", "*", False),
        ("*", "/logs/*", True),
        ("", "/metrics", False),
    ],
)
def test_address_covers_itself_and_what_it_begins(held: str, wanted: str, is_covered: bool) -> None:
    everything = PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"])
    rules = [everything, PolicyRule(verbs=["get"], non_resource_urls=[held] if held else [])]
    uncovered = list(escalation._uncovered([PolicyRule(verbs=["get"], non_resource_urls=[wanted])], rules))
    assert (uncovered == []) is is_covered


async def test_users_with_escalate_or_bind_may_grant_a_role(server: Server) -> None:
    group = "rbac.authorization.k8s.io"
    escalate = {"apiGroups": [group], "resources": ["roles"], "verbs": ["escalate"], "resourceNames": ["more"]}
    bind = {"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["cluster-admin"]}
    _, alice = await environment_of(server, EDIT_ROLES, escalate, bind)
    await alice.create(ROLE, role("more", READ_MAPS))
    with pytest.raises(Forbidden):
        await alice.create(ROLE, role("other", READ_MAPS))
    with pytest.raises(NotFound):
        await alice.create(ROLE_BINDING, binding("none", "ClusterRole", "nowhere", "alice"))
    await alice.create(ROLE_BINDING, binding("all", "ClusterRole", "cluster-admin", "alice"))


async def test_changes_without_new_rights_are_not_checked(server: Server) -> None:
    admin, alice = await environment_of(server, EDIT_ROLES)
    await admin.create(ROLE, role("more", READ_MAPS))
    labelled = {"metadata": {"name": "more", "namespace": "default", "labels": {"a": "b"}}}
    await alice.patch(ROLE, "more", "default", patch=labelled, type=PatchType.MERGE)
    more = role("more", READ_MAPS, {**READ_MAPS, "verbs": ["*"]})
    with pytest.raises(Forbidden):
        await alice.patch(ROLE, "more", "default", patch=more, type=PatchType.MERGE)


async def test_huge_rule_is_not_enumerated(server: Server) -> None:
    _, alice = await environment_of(server, EDIT_ROLES)
    names = [str(number) for number in range(1000)]
    with pytest.raises(BadRequest, match="more than"):
        await alice.create(ROLE, role("many", {"apiGroups": names, "resources": names, "verbs": names}))
