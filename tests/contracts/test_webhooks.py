"""Admission webhooks: what they are asked and what their answers do is the same on the embedded and the real server."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from espalier.api.core import (
    CONFIG_MAP,
    DEPLOYMENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    NAMESPACE,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.resource import Resource
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.http import Connections, tls_context
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, ServerFailure
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from tests.support.environments.control_plane import ControlPlane

NOW = datetime.now(UTC)
AUTHORITY = Authority.create("webhooks", now=NOW)
Tree = dict[str, Any]
Behaviour = Callable[[Tree], Tree]

PATIENCE = 120.0
NOT_OURS = ("probe", "kube-root-ca.crt")
"""Other ConfigMaps that are written: to see that the webhook is called, and by kube-controller-manager."""


class Hook:
    """A webhook server; `behaviour` makes the response to a request, and `requests` are those that came.

    A kube-apiserver updates and deletes what its watch cache holds, and asks again if that was not the latest.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Tree] = []
        self.behaviour: Behaviour = lambda request: {}

    async def answer(self, incoming: web.BaseRequest) -> web.Response:
        request = json.loads(await incoming.read())["request"]
        if request["name"] not in NOT_OURS:
            self.requests.append(request)
        response = {"uid": request["uid"], "allowed": True, **self.behaviour(request)}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    serving = AUTHORITY.issue_server("hook", names=["127.0.0.1"], now=NOW)
    connections = Connections(hook.answer)
    listener = await asyncio.get_running_loop().create_server(
        connections, "127.0.0.1", 0, ssl=tls_context(serving, AUTHORITY.certificate)
    )
    hook.url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/admit"
    yield hook
    listener.close()
    await connections.end(1.0)


@pytest.fixture
async def client(real: ControlPlane | None) -> AsyncIterator[Client]:
    if real is not None:
        client = Client(HttpTransport(Kubeconfig.load([real.kubeconfig]).context(), environment={}))
        yield client
        await client.close()
        return
    calls = HttpWebhooks()
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(3), call_webhook=calls)
    await server.start()
    client = Client(InProcessTransport(server))
    yield client
    await client.close()
    await server.close()
    await calls.close()


class Environment:
    """A namespace whose ConfigMaps are shown to a webhook."""

    def __init__(self, client: Client, hook: Hook, namespace: str) -> None:
        self.client, self.hook, self.namespace = client, hook, namespace

    async def install(self, resource: Resource, **fields: Any) -> str:
        """Register the webhook, and return its name when the server asks it."""
        name = f"{resource.plural[:3]}.{self.namespace}.example.org"
        webhook = {
            "name": name,
            "clientConfig": {"url": self.hook.url, "caBundle": base64.b64encode(AUTHORITY.certificate).decode()},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }
        await self.client.create(resource, {"metadata": {"name": name}, "webhooks": [webhook]})
        behaviour, self.hook.behaviour = self.hook.behaviour, deny(message="not yet")
        # A real server learns of its webhooks by a watch of its own: asked is who denies a dry run.
        async with asyncio.timeout(PATIENCE):
            while not await self._denied():
                pass
        self.hook.behaviour = behaviour
        return name

    async def _denied(self) -> bool:
        try:
            await self.create("probe", dry_run=True)
        except ApiError:
            return True
        return False

    async def create(self, name: str, *, dry_run: bool = False, **data: str) -> Object:
        return await self.client.create(
            CONFIG_MAP, {"metadata": {"name": name, "namespace": self.namespace}, "data": data}, dry_run=dry_run
        )

    async def get(self, name: str) -> Tree:
        return (await self.client.get(CONFIG_MAP, name, self.namespace)).tree


@pytest.fixture
async def env(client: Client, hook: Hook) -> AsyncIterator[Environment]:
    namespace = (await client.create(NAMESPACE, {"metadata": {"generateName": "hooks-"}})).name
    yield Environment(client, hook, namespace)
    for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION):
        for configuration in (await client.list(resource)).items:
            if namespace in configuration.name:
                await client.delete(resource, configuration.name)


def deny(**status: Any) -> Behaviour:
    return lambda request: {"allowed": False, "status": status}


def patch(*operations: Tree) -> Behaviour:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"patch": encoded, "patchType": "JSONPatch"}


async def test_a_denied_write_leaves_nothing(env: Environment) -> None:
    name = await env.install(VALIDATING_WEBHOOK_CONFIGURATION)
    env.hook.behaviour = deny(message="no more of these", code=403, reason="Forbidden")
    with pytest.raises(Forbidden) as denial:
        await env.create("x")
    assert str(denial.value) == f'admission webhook "{name}" denied the request: no more of these'
    with pytest.raises(NotFound):
        await env.get("x")


async def test_a_denial_without_words(env: Environment) -> None:
    name = await env.install(VALIDATING_WEBHOOK_CONFIGURATION)
    env.hook.behaviour = lambda request: {"allowed": False}
    with pytest.raises(BadRequest) as denial:
        await env.create("x")
    assert str(denial.value) == f'admission webhook "{name}" denied the request without explanation'


async def test_the_causes_of_a_denial_are_passed_on(env: Environment) -> None:
    await env.install(VALIDATING_WEBHOOK_CONFIGURATION)
    causes = [{"reason": "FieldValueInvalid", "message": "must be odd", "field": "data.count"}]
    env.hook.behaviour = deny(code=422, reason="Invalid", message="count", details={"causes": causes})
    with pytest.raises(Invalid) as denial:
        await env.create("x")
    assert denial.value.status.details is not None
    assert denial.value.status.details.causes[0].field == "data.count"


async def test_webhook_of_a_subresource_sees_its_writes_only(env: Environment) -> None:
    rules = [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
        {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/status"]},
    ]
    await env.install(VALIDATING_WEBHOOK_CONFIGURATION, rules=rules)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "paused": True, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await env.client.create(DEPLOYMENT, {"metadata": {"name": "x", "namespace": env.namespace}, "spec": spec})

    async def write(patch: Tree, subresource: str | None = None) -> None:
        merge = PatchType.MERGE
        await env.client.patch(DEPLOYMENT, "x", env.namespace, patch=patch, type=merge, subresource=subresource)

    await write({"spec": {"minReadySeconds": 1}})
    await write({"spec": {"minReadySeconds": 2}, "status": {"collisionCount": 7}}, "status")
    *_, request = (request for request in env.hook.requests if request["object"]["status"].get("collisionCount") == 7)
    assert (request["operation"], request["subResource"]) == ("UPDATE", "status")
    assert request["object"]["spec"]["minReadySeconds"] == 1
    assert all(request.get("subResource") == "status" for request in env.hook.requests)
    env.hook.behaviour = deny(message="not this status")
    with pytest.raises(ApiError, match="not this status"):
        await write({"status": {"collisionCount": 8}}, "status")


async def test_a_webhook_is_called_along_an_objects_life(env: Environment) -> None:
    await env.install(VALIDATING_WEBHOOK_CONFIGURATION)
    await env.create("x", a="1")
    change = {"data": {"a": "2"}}
    await env.client.patch(CONFIG_MAP, "x", env.namespace, patch=change, type=PatchType.MERGE)
    await env.client.delete(CONFIG_MAP, "x", env.namespace)
    latest = {request["operation"]: request for request in env.hook.requests}
    assert list(latest) == ["CREATE", "UPDATE", "DELETE"]
    created, updated, deleted = latest.values()
    assert (created["object"]["data"], created["oldObject"]) == ({"a": "1"}, None)
    assert (updated["object"]["data"], updated["oldObject"]["data"]) == ({"a": "2"}, {"a": "1"})
    assert (deleted["object"], deleted["oldObject"]["data"]) == (None, {"a": "2"})
    for request in env.hook.requests:
        assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert (request["name"], request["namespace"], request["dryRun"]) == ("x", env.namespace, False)
        assert "system:masters" in request["userInfo"]["groups"]


async def test_a_mutating_webhook_changes_what_is_stored(env: Environment) -> None:
    await env.install(MUTATING_WEBHOOK_CONFIGURATION)
    env.hook.behaviour = patch(
        {"op": "add", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/metadata/labels", "value": {"c": "d"}}
    )
    created = (await env.create("x", a="1")).tree
    assert created["data"] == {"a": "1", "b": "2"}
    assert created["metadata"]["labels"] == {"c": "d"}
    assert (await env.get("x"))["data"] == {"a": "1", "b": "2"}


async def test_validating_webhooks_see_mutated_objects(env: Environment) -> None:
    await env.install(MUTATING_WEBHOOK_CONFIGURATION)
    await env.install(VALIDATING_WEBHOOK_CONFIGURATION)
    change = patch({"op": "add", "path": "/data/b", "value": "2"})
    env.hook.behaviour = lambda request: {} if "b" in request["object"]["data"] else change(request)
    await env.create("x", a="1")
    assert [request["object"]["data"] for request in env.hook.requests] == [{"a": "1"}, {"a": "1", "b": "2"}]


async def test_webhooks_see_dry_runs_and_side_effects_refuse(env: Environment) -> None:
    await env.install(VALIDATING_WEBHOOK_CONFIGURATION)
    await env.create("x", dry_run=True)
    assert [request["dryRun"] for request in env.hook.requests] == [True]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_webhook_that_answers_nonsense(env: Environment, policy: str) -> None:
    name = await env.install(VALIDATING_WEBHOOK_CONFIGURATION, failurePolicy=policy)
    env.hook.behaviour = lambda request: {"uid": "another"}
    if policy == "Ignore":
        await env.create("x")
        return
    with pytest.raises(ServerFailure) as failure:
        await env.create("x")
    assert str(failure.value).startswith(f'Internal error occurred: failed calling webhook "{name}": ')
    assert 'got "another"' in str(failure.value)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"failurePolicy": "Shrug"}, "webhooks[0].failurePolicy"),
        ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
        ({"clientConfig": {"url": "http://127.0.0.1/"}}, "webhooks[0].clientConfig.url"),
    ],
)
async def test_configurations_that_are_refused(env: Environment, fields: Tree, field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await env.install(VALIDATING_WEBHOOK_CONFIGURATION, **fields)
    assert refusal.value.status.details is not None
    assert field in {cause.field for cause in refusal.value.status.details.causes}


def owned_by(item: Object) -> dict[tuple[str, str], Tree]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"].get("f:data", {})
        for entry in item.tree["metadata"].get("managedFields", ())
    }


async def test_fields_filled_in_by_webhook_never_block_apply(env: Environment) -> None:
    """Nobody asked for a default: whoever applies the field later takes it over without force."""

    def default(request: Tree) -> Tree:
        data = request["object"].get("data", {}) if request["object"] else {}
        fill = patch({"op": "add", "path": "/data/filled", "value": "by the webhook"})
        return {} if "filled" in data or not data else fill(request)

    await env.install(MUTATING_WEBHOOK_CONFIGURATION)
    env.hook.behaviour = default
    client, namespace = env.client, env.namespace

    def config(**data: str) -> Tree:
        return {"metadata": {"name": "defaulted", "namespace": namespace}, "data": data}

    await client.apply(CONFIG_MAP, config(a="1"), field_manager="me", force=False)
    same = await client.apply(CONFIG_MAP, config(a="2"), field_manager="me", force=False)
    assert same.tree["data"] == {"a": "2", "filled": "by the webhook"}
    assert owned_by(same) == {("me", "Apply"): {"f:a": {}}}
    mine = await client.apply(CONFIG_MAP, config(a="2", filled="by me"), field_manager="me", force=False)
    assert owned_by(mine) == {("me", "Apply"): {"f:a": {}, "f:filled": {}}}
    made = await env.create("made", a="1")
    assert made.tree["data"] == {"a": "1", "filled": "by the webhook"}
    assert list(owned_by(made).values()) == [{".": {}, "f:a": {}}]
