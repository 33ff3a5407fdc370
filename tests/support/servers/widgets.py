"""A custom kind for contracts of API servers, and how to wait for what a server does with it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Any

from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
)
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import (
    ApiError,
)
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request
from espalier.kube.watching import WatchEvent
from tests.support.environments.control_plane import PATIENCE
from tests.support.waiting import eventually

GROUP = "contract.example.com"
WIDGET = Resource(GROUP, "v1", "widgets", "Widget")
WIDGET_V2 = WIDGET._replace(version="v2")
Fields = dict[str, Any]

SPEC_SCHEMA: Fields = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"]},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "label": {"type": "string", "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 3},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "weight": {"type": "integer"}, "note": {"type": "string"}},
            },
        },
        "atoms": {"type": "array", "items": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
        "nested": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
    },
}
STATUS_SCHEMA: Fields = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}


def version(name: str, *, storage: bool) -> Fields:
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": SPEC_SCHEMA, "status": STATUS_SCHEMA}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }


def definition(plural: str = "widgets", kind: str = "Widget") -> Fields:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", storage=True), version("v2", storage=False)],
        },
    }


async def established(client: Client, name: str) -> None:
    def is_so(event: WatchEvent) -> bool:
        conditions = event.object.tree.get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    await until(client, CUSTOM_RESOURCE_DEFINITION, None, name, is_so)
    resource = definition_resource((await client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree)
    await served(client, resource)


async def served(client: Client, *resources: Resource) -> None:
    """A real server tells of a kind a moment before it serves it, and tells nothing when it does.

    All are asked at once: the first answer about a kind takes a real server more than a second.
    """

    async def status(resource: Resource) -> int:
        return (await client.raw(Request("GET", resource.path()))).status

    await asyncio.gather(
        *(eventually(partial(status, resource), lambda status: status != 404) for resource in resources)
    )


def definition_resource(tree: Fields) -> Resource:
    names = tree["spec"]["names"]
    return Resource(tree["spec"]["group"], "v1", names["plural"], names["kind"])


async def until(client: Client, resource: Resource, namespace: str | None, name: str, wanted: Any) -> Object:
    """The object of the first event about `name` that is as wanted; the environment as it is counts as events."""
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(resource, namespace, resource_version="0", fields=f"metadata.name={name}")) as events,
    ):
        async for event in events:
            if event.type != "BOOKMARK" and wanted(event):
                return event.object
    raise AssertionError(f"the watch of {name} ended")


async def gone(client: Client, resource: Resource, name: str, namespace: str | None = None) -> None:
    """Wait until an object does not exist any more."""
    selector = f"metadata.name={name}"
    async with asyncio.timeout(PATIENCE):
        present = await client.list(resource, namespace, fields=selector)
        if not present.items:
            return
        watch = client.watch(resource, namespace, resource_version=present.resource_version, fields=selector)
        async with aclosing(watch) as events:
            async for event in events:
                if event.type == "DELETED":
                    return


def widget(namespace: str, name: str, spec: Fields | None = None, **metadata: Any) -> Fields:
    return {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"size": "small", **(spec or {})},
    }


def config_map(namespace: str, name: str, data: dict[str, str] | None = None, **metadata: Any) -> Fields:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "data": data or {}}


def causes(error: ApiError) -> set[tuple[str, str, str]]:
    assert error.status.details is not None
    return {(cause.reason, cause.field, cause.message) for cause in error.status.details.causes}


def owners(item: Object) -> dict[tuple[str, str, str], Fields]:
    """Fields by (manager, operation, subresource)."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in item.tree["metadata"].get("managedFields", ())
    }


def deployment(namespace: str) -> Fields:
    containers = [
        {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "log", "image": "log:1"},
    ]
    return {
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}},
        },
    }
