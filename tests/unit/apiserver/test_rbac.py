"""Roles allow what they say to whom they are bound, where they are bound, and nothing else."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, ROLE, ROLE_BINDING, SECRET
from espalier.apiserver.rbac import Grant, PolicyRule, Subject, allows
from espalier.apiserver.requests import Attributes
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.wire import User

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


async def test_what_is_stored_counts_at_once(server: Server) -> None:
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


async def test_who_selects_one_object_of_a_collection_by_its_name_asks_for_that_one() -> None:
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
    assert [one.name for one in asked_for if one.namespace == "tools"] == ["one", ""]
