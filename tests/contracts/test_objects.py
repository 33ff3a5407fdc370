"""Objects and their metadata, as clients lean on them: the embedded API server does as kube-apiserver does."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    SELF_SUBJECT_ACCESS_REVIEW,
)
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
)
from espalier.kube.transports.wire import Request
from tests.support.servers.widgets import GROUP, WIDGET, Fields, causes, config_map, owners, widget


async def test_a_new_object_gets_what_the_server_gives(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map(namespace, "a", {"x": "1"}))
    metadata = created.tree["metadata"]
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata
    assert owners(created) == {("contract", "Update", ""): {"f:data": {".": {}, "f:x": {}}}}


async def test_names_can_be_generated(client: Client, namespace: str) -> None:
    body = {"metadata": {"generateName": "part-", "namespace": namespace}}
    first, second = await client.create(CONFIG_MAP, body), await client.create(CONFIG_MAP, body)
    assert first.name != second.name
    assert first.name.startswith("part-")
    assert len(first.name) == len("part-") + 5


async def test_failures_say_what_kube_apiserver_says(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "there"))
    with pytest.raises(NotFound) as missing:
        await client.get(WIDGET, "nowhere", widgets)
    assert str(missing.value) == f'widgets.{GROUP} "nowhere" not found'
    assert missing.value.status.details is not None
    assert (missing.value.status.details.kind, missing.value.status.details.group) == ("widgets", GROUP)
    with pytest.raises(NotFound, match=r'^configmaps "nowhere" not found$'):
        await client.get(CONFIG_MAP, "nowhere", widgets)
    with pytest.raises(AlreadyExists, match=f'^widgets.{GROUP} "there" already exists$'):
        await client.create(WIDGET, widget(widgets, "there"))
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await client.create(CONFIG_MAP, config_map("nowhere", "a"))
    for body, message in (
        (
            {**widget(widgets, "a"), "apiVersion": f"{GROUP}/v9"},
            f"the API version in the data ({GROUP}/v9) does not match the expected API version ({GROUP}/v1)",
        ),
        (
            widget("elsewhere", "a"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ):
        response = await client.raw(
            Request("POST", WIDGET.path(widgets), {}, {"content-type": "application/json"}, msgspec.json.encode(body))
        )
        assert (response.status, msgspec.json.decode(response.body)["message"]) == (400, message)
    with pytest.raises(BadRequest, match=r"^the name of the object \(other\) does not match the name on the URL"):
        await client.patch(WIDGET, "there", widgets, patch={"metadata": {"name": "other"}}, type=PatchType.MERGE)


async def test_a_wrong_name_and_wrong_labels_are_refused(client: Client, namespace: str) -> None:
    body = config_map(namespace, "A_b", labels={"a b": "ok", "ok": "x y"})
    with pytest.raises(Invalid) as refused:
        await client.create(CONFIG_MAP, body)
    assert {(field, message.partition(":")[0]) for _, field, message in causes(refused.value)} == {
        ("metadata.name", "Invalid value"),
        ("metadata.labels", "Invalid value"),
    }
    assert "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters" in str(refused.value)


async def test_a_write_of_nothing_new_is_no_write(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a"))
    replaced = await client.replace(WIDGET, created)
    patched = await client.patch(WIDGET, "a", widgets, patch={"spec": {"size": "small"}}, type=PatchType.MERGE)
    assert created.resource_version == replaced.resource_version == patched.resource_version


async def test_generation_counts_changes_of_what_is_desired(client: Client, widgets: str) -> None:
    assert (await client.create(WIDGET, widget(widgets, "a"))).metadata.generation == 1

    async def patched(patch: Fields, subresource: str | None = None) -> int:
        done = await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE, subresource=subresource)
        return done.metadata.generation

    assert await patched({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await patched({"status": {"phase": "Fine"}}, "status") == 1
    assert await patched({"spec": {"replicas": 2}}) == 2
    assert await patched({"spec": {"replicas": 3}}, "scale") in (0, 2, 3)  # a Scale has none of its own
    assert (await client.get(WIDGET, "a", widgets)).metadata.generation == 3


async def test_status_is_written_through_its_own_path_only(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, {**widget(widgets, "a"), "status": {"phase": "Invented"}})
    assert "status" not in created.tree
    both: Fields = {"spec": {"size": "large"}, "status": {"phase": "Known"}}
    main = await client.patch(WIDGET, "a", widgets, patch=both, type=PatchType.MERGE)
    assert (main.tree["spec"]["size"], "status" in main.tree) == ("large", False)
    both = {"spec": {"size": "small"}, "status": {"phase": "Known"}, "metadata": {"labels": {"a": "b"}}}
    status = await client.patch(WIDGET, "a", widgets, patch=both, type=PatchType.MERGE, subresource="status")
    assert (status.tree["spec"]["size"], status.tree["status"]) == ("large", {"phase": "Known"})


async def test_write_with_old_resource_version_conflicts(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a"))
    await client.patch(WIDGET, "a", widgets, patch={"spec": {"replicas": 2}}, type=PatchType.MERGE)
    sentence = "the object has been modified; please apply your changes to the latest version and try again"
    with pytest.raises(Conflict, match=f'^Operation cannot be fulfilled on widgets.{GROUP} "a": {sentence}$'):
        await client.replace(WIDGET, created)
    patch = {"metadata": {"resourceVersion": created.resource_version}, "spec": {"replicas": 3}}
    with pytest.raises(Conflict):
        await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE)
    with pytest.raises(Invalid) as unversioned:
        await client.replace(WIDGET, widget(widgets, "a"))
    assert {field for _, field, _ in causes(unversioned.value)} == {"metadata.resourceVersion"}


async def test_a_dry_run_changes_nothing(client: Client, widgets: str) -> None:
    assert (await client.create(WIDGET, widget(widgets, "a"), dry_run=True)).tree["spec"]["replicas"] == 1
    with pytest.raises(NotFound):
        await client.get(WIDGET, "a", widgets)
    created = await client.create(WIDGET, widget(widgets, "a"))
    await client.delete(WIDGET, "a", widgets, dry_run=True)
    assert (await client.get(WIDGET, "a", widgets)).resource_version == created.resource_version


async def test_an_administrator_may_do_anything(client: Client) -> None:
    asked = {"resourceAttributes": {"verb": "delete", "resource": "secrets", "namespace": "kube-system"}}
    answer = await client.create(SELF_SUBJECT_ACCESS_REVIEW, {"spec": asked})
    assert answer.tree["status"]["allowed"] is True
