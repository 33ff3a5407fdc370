"""Deletion and who goes with whom, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    NAMESPACE,
)
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request
from tests.support.servers.widgets import WIDGET, Fields, config_map, gone, until, widget


async def test_finalizers_hold_an_object_until_they_are_gone(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", finalizers=["example.com/wait"]))
    held = await client.delete(WIDGET, "a", widgets)
    assert held is not None
    assert held.metadata.deletion_timestamp is not None
    assert (held.metadata.deletion_grace_period_seconds, held.metadata.generation) == (0, 2)
    again = await client.delete(WIDGET, "a", widgets)
    assert again is not None
    assert again.resource_version == held.resource_version
    more = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        await client.patch(WIDGET, "a", widgets, patch=more, type=PatchType.MERGE)
    await client.patch(WIDGET, "a", widgets, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    with pytest.raises(NotFound):
        await client.get(WIDGET, "a", widgets)


async def test_a_deletion_may_name_what_it_means(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a"))
    with pytest.raises(Conflict, match=r"the UID in the precondition \(other\) does not match the UID in record"):
        await client.delete(WIDGET, "a", widgets, uid="other")
    with pytest.raises(Conflict, match=r"the ResourceVersion in the precondition \(1\) does not match"):
        await client.delete(WIDGET, "a", widgets, resource_version="1")
    assert await client.delete(WIDGET, "a", widgets, uid=created.metadata.uid) is None
    with pytest.raises(NotFound):
        await client.delete(WIDGET, "a", widgets)


async def test_a_whole_collection_can_be_deleted(client: Client, widgets: str) -> None:
    for name, labels in (("a", {"go": "yes"}), ("b", {"go": "yes"}), ("c", {})):
        await client.create(WIDGET, widget(widgets, name, labels=labels))
    response = await client.raw(Request("DELETE", WIDGET.path(widgets), {"labelSelector": "go=yes"}))
    assert [each["metadata"]["name"] for each in msgspec.json.decode(response.body)["items"]] == ["a", "b"]
    assert [each.name for each in (await client.list(WIDGET, widgets)).items] == ["c"]


async def family(client: Client, namespace: str) -> tuple[Object, Object]:
    """An owner and its dependent, once the garbage collector knows both.

    Before that, kube-controller-manager takes an owner for one without dependents. It sees ConfigMaps in order, so it
    knows the dependent when it has collected a later one, whose owner does not exist.
    """
    owner = await client.create(WIDGET, widget(namespace, "owner"))
    reference = {"apiVersion": WIDGET.api_version, "kind": "Widget", "name": "owner", "uid": owner.metadata.uid}
    references = [{**reference, "blockOwnerDeletion": True}]
    child = await client.create(CONFIG_MAP, config_map(namespace, "child", ownerReferences=references))
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "8c5e7f4e-0000-4000-8000-000000000000"}
    later = await client.create(CONFIG_MAP, config_map(namespace, "later", ownerReferences=[nobody]))
    await gone(client, CONFIG_MAP, later.name, later.namespace)
    return owner, child


@pytest.mark.often("in_memory", "on_disk", "on_etcd")
async def test_dependents_go_with_their_owner(client: Client, widgets: str) -> None:
    _, child = await family(client, widgets)
    assert await client.delete(WIDGET, "owner", widgets, propagation="Background") is None
    await gone(client, CONFIG_MAP, child.name, child.namespace)


async def test_an_owner_deleted_in_the_foreground_goes_last(client: Client, widgets: str) -> None:
    owner, child = await family(client, widgets)
    hold: Fields = {"metadata": {"finalizers": ["example.com/wait"]}}
    await client.patch(CONFIG_MAP, "child", widgets, patch=hold, type=PatchType.MERGE)
    waiting = await client.delete(WIDGET, "owner", widgets, propagation="Foreground")
    assert waiting is not None
    assert waiting.metadata.finalizers == ["foregroundDeletion"]
    await until(client, CONFIG_MAP, widgets, "child", lambda event: event.object.metadata.deletion_timestamp)
    assert (await client.get(WIDGET, "owner", widgets)).metadata.uid == owner.metadata.uid
    await client.patch(CONFIG_MAP, "child", widgets, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    await gone(client, CONFIG_MAP, child.name, child.namespace)
    await gone(client, WIDGET, owner.name, owner.namespace)


async def test_orphans_stay(client: Client, widgets: str) -> None:
    owner, _ = await family(client, widgets)
    await client.delete(WIDGET, "owner", widgets, propagation="Orphan")
    await gone(client, WIDGET, owner.name, owner.namespace)
    child = await client.get(CONFIG_MAP, "child", widgets)
    assert child.metadata.owner_references == []


async def test_a_namespace_goes_with_all_that_is_in_it(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", finalizers=["example.com/wait"]))
    namespace = await client.get(NAMESPACE, widgets)
    await client.delete(NAMESPACE, widgets)
    terminating = await until(client, WIDGET, widgets, "a", lambda event: event.object.metadata.deletion_timestamp)
    assert (await client.get(NAMESPACE, widgets)).tree["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match=r"because it is being terminated$"):
        await client.create(CONFIG_MAP, config_map(widgets, "late"))
    await client.patch(WIDGET, "a", widgets, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    await gone(client, WIDGET, terminating.name, terminating.namespace)
    await gone(client, NAMESPACE, namespace.name)
