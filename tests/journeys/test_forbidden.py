"""Requests that the manager's account must not be able to make, tried with its own token on a real API server."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.resource import Resource
from espalier.clusters import rbac
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import ApiError, Forbidden, Invalid
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import Production, production
from tests.support.sampling import sampled
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest

VICTIM = "victim"
CONFIGURATIONS = (
    (VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS),
    (MUTATING_WEBHOOK_CONFIGURATION, rbac.MUTATING_WEBHOOKS),
)
Attempt = Callable[[Client], Awaitable[object]]


@asynccontextmanager
async def manager(management: Production) -> AsyncIterator[Client]:
    """Whoever has the manager's token."""
    access = Kubeconfig.load([management.folder / "manager.kubeconfig"]).context()
    client = Client(HttpTransport(access, environment={}), user_agent="thief")
    try:
        yield client
    finally:
        await client.close()


def on_secrets(namespace: str) -> dict[str, Attempt]:
    """Ways to what Secrets hold."""
    token: dict[str, Any] = {
        "metadata": {
            "name": "token",
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": "clusterrole-aggregation-controller"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    apply = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": VICTIM, "namespace": namespace}}
    return {
        "get": lambda client: client.get(SECRET, VICTIM, namespace),
        "list": lambda client: client.list(SECRET, namespace),
        "patch with nothing": lambda client: client.patch(SECRET, VICTIM, namespace, patch={}, type=PatchType.MERGE),
        "patch with nothing, dry": lambda client: client.patch(
            SECRET, VICTIM, namespace, patch={}, type=PatchType.STRATEGIC, dry_run=True
        ),
        "JSON patch with nothing": lambda client: client.patch(
            SECRET, VICTIM, namespace, patch=[], type=PatchType.JSON
        ),
        "apply nothing": lambda client: client.apply(SECRET, apply, force=False),
        "apply nothing, dry": lambda client: client.apply(SECRET, apply, dry_run=True),
        "delete": lambda client: client.delete(SECRET, VICTIM, namespace),
        "create a token": lambda client: client.create(SECRET, token),
    }


def on_webhooks(resource: Resource, name: str, live: dict[str, Any]) -> dict[str, Attempt]:
    """Ways to have the API server send what others write."""
    first = live["webhooks"][0]
    everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}]
    elsewhere = {**first["clientConfig"], "url": "https://198.51.100.1/catch"}

    def put(webhooks: object, metadata: dict[str, Any] | None = None) -> Attempt:
        patch = {"webhooks": webhooks} if webhooks is not None else {"metadata": metadata}
        return lambda client: client.patch(resource, name, patch=patch, type=PatchType.MERGE)

    rest = live["webhooks"][1:]
    return {
        "add a webhook": put([*live["webhooks"], {**first, "name": "catch.example.com", "rules": everything}]),
        "remove a webhook": put(rest),
        "catch everything": put([{**first, "rules": everything}, *rest]),
        "be called elsewhere": put([{**first, "clientConfig": elsewhere}, *rest]),
        "have another name": put([{**first, "name": "other.example.com"}, *rest]),
        "let everything pass": put([{**first, "failurePolicy": "Ignore"}, *rest]),
        "match nothing": put([{**first, "namespaceSelector": {"matchLabels": {"no": "such"}}}, *rest]),
        "match on a condition": put([{**first, "matchConditions": [{"name": "no", "expression": "false"}]}, *rest]),
        "wait longer": put([{**first, "timeoutSeconds": 30}, *rest]),
        "have labels": put(None, {"labels": {"a": "b"}}),
        "have a finalizer": put(None, {"finalizers": ["example.com/held"]}),
        "have another webhook configuration": lambda client: client.create(
            resource, {"metadata": {"name": "catch"}, "webhooks": []}
        ),
        "delete it": lambda client: client.delete(resource, name),
    }


async def refused(client: Client, attempts: dict[str, Attempt], kinds: tuple[type[ApiError], ...]) -> None:
    for what, attempt in attempts.items():
        try:
            await attempt(client)
        except kinds:
            continue
        except ApiError as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        raise AssertionError(f"{what}: allowed")


@pytest.mark.demand(L62="what it can't do")
@pytest.mark.parametrize("namespaces", sampled([((),), (("default",),)], 0), ids=["all", "one"])
async def test_account_of_the_manager_reads_no_other_secrets(
    control_plane: ControlPlane, tmp_path: Path, namespaces: tuple[str, ...]
) -> None:
    async with production(control_plane, tmp_path, namespaces) as management, manager(management) as thief:
        admin = management.client
        data = {"password": base64.b64encode(b"CANARY").decode()}
        for namespace in ("kube-public", "kube-system", "default"):
            body = {"metadata": {"name": VICTIM, "namespace": namespace}, "data": data}
            await admin.create(SECRET, body)
        try:
            for namespace in ("kube-public", "kube-system"):
                await refused(thief, on_secrets(namespace), (Forbidden,))
            # Where copies of kubeconfigs were wished for, Secrets are made and replaced, and none is read.
            attempts = on_secrets("default")
            del attempts["create a token"]
            await refused(thief, attempts, (Forbidden,))
            await guesses(thief)
            for resource, name in CONFIGURATIONS:
                await assert_unchanged(admin, thief, resource, name)
        finally:
            for namespace in ("kube-public", "kube-system", "default"):
                await admin.delete(SECRET, VICTIM, namespace)


async def guesses(thief: Client) -> None:
    """A Secret of others is not told by the answers to what may be asked, either."""
    body = {"metadata": {"name": VICTIM, "namespace": "default"}, "type": "example.com/other"}
    for attempt in (thief.create(SECRET, body, dry_run=True), thief.replace(SECRET, body, dry_run=True)):
        with pytest.raises(ApiError) as refusal:
            await attempt
        assert b"CANARY" not in str(refusal.value).encode()
        assert "Opaque" not in str(refusal.value)


async def assert_unchanged(admin: Client, thief: Client, resource: Resource, name: str) -> None:
    """A webhook configuration stays as it was installed, but for its caBundle, which the manager writes."""
    live = (await admin.get(resource, name)).tree

    async def is_refused() -> bool:
        try:
            await thief.patch(
                resource, name, patch={"metadata": {"labels": {"a": "b"}}}, type=PatchType.MERGE, dry_run=True
            )
        except (Forbidden, Invalid):
            return True
        return False

    await eventually(is_refused)  # an API server takes a moment until a new policy is in force
    await refused(thief, on_webhooks(resource, name, live), (Forbidden, Invalid))
    now = (await admin.get(resource, name)).tree
    assert now["webhooks"] == live["webhooks"]
    bundle = {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}
    try:
        await thief.patch(resource, name, patch=[bundle], type=PatchType.JSON, dry_run=True)
    except ApiError as error:
        raise AssertionError(f"the caBundle can't be written: {error}") from error
