"""The whole of a management cluster of EKS Anywhere is taken over and given back, whatever ends the commands."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters.design.eks_anywhere import CONTROLLER
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.management.adoption import record as records
from espalier.management.adoption.plan import State, plan
from espalier.management.adoption.site import NAMESPACED_RELEASE, RELEASES, read
from espalier.management.steps import Refused
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from espalier.releases.installing import install
from tests.support.environments.managed_environment import GARDEN
from tests.support.environments.of_eks_anywhere import adopter, on_site, undoing
from tests.support.objects.eks_anywhere import put
from tests.support.servers.dying import Dying
from tests.support.servers.faults import Interceptor

pytestmark = pytest.mark.embedded

NOT_CONTENT = ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation")


class Meanwhile(Interceptor):
    """Something happens before the nth write of the record of a take-over."""

    def __init__(self, number: int, act: Callable[[], Awaitable[None]]) -> None:
        self.left = number
        self.act = act

    async def request(self, transport: Transport, request: Request) -> Response:
        path = request.path.rpartition("/configmaps")[2].strip("/")
        is_created = request.method == "POST" and records.NAME.encode() in request.body
        if request.method != "GET" and (path == records.NAME or (path == "" and is_created)):
            self.left -= 1
            if self.left == 0:
                await self.act()
        return await transport.request(request)


def content(store: MemoryStore) -> dict[str, Any]:
    """All objects, without what a server adds."""
    results = {}
    for name, table in store.tables():
        if name.startswith(("events", "leases", "apiservices")):
            continue
        for key, object_ in table.objects.items():
            tree = dict(object_.tree)
            if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind:
                tree.pop("status", None)
            metadata = {part: value for part, value in tree["metadata"].items() if part not in NOT_CONTENT and value}
            results[f"{name} {key}"] = {**tree, "metadata": metadata}
    return results


def of_cluster_api(store: MemoryStore) -> dict[str, bytes]:
    """The objects of Cluster API and of its providers, with their versions."""
    return {
        f"{name} {key}": bytes(object_.raw)
        for name, table in store.tables()
        for key, object_ in table.objects.items()
        if name.endswith("cluster.x-k8s.io")
    }


def test_running_controller_and_webhooks_are_refused() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        with pytest.raises(Refused) as refused:
            await adopter(client).apply(None)
        assert "replicas 1, allowed 0" in str(refused.value)
        assert "eksa-validating-webhook-configuration" in str(refused.value)
        assert content(store) == before

    on_site(story)


def test_take_over_leaves_cluster_api_as_it_is() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        before = of_cluster_api(store)
        await adopter(client, stops=True).apply(None)
        assert of_cluster_api(store) == before
        controller = await client.get(DEPLOYMENT, CONTROLLER.name, CONTROLLER.namespace)
        assert controller.tree["spec"]["replicas"] == 0
        definition = await client.get(CUSTOM_RESOURCE_DEFINITION, RELEASES)
        assert definition.tree["spec"]["scope"] == "Cluster"
        assert (await client.list(EKSARelease.resource)).items
        (cluster,) = plan(await read(client, PROVIDERS), [GARDEN]).clusters
        assert cluster.state is State.ADOPTED

    on_site(story)


def test_undo_puts_everything_back() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        await adopter(client, stops=True).apply(None)
        assert content(store) != before
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


async def repeated(client: Client, after: int, act: Callable[[Client], Awaitable[None]]) -> None:
    """Until it ends: each command dies after so many writes, and its last answer is lost."""
    for _ in range(60):
        dying = Dying(after)
        transport = dying(client.transport)
        try:
            await act(Client(transport, user_agent="adopt").without_repeats())
        except Unreachable:
            continue
        if not dying.is_dead:
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("after", range(1, 9))
def test_killed_take_over_goes_on_and_back(after: int) -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        before, untouched = content(store), of_cluster_api(store)
        await repeated(client, after, lambda mortal: adopter(mortal, stops=True).apply(None))
        (cluster,) = plan(await read(client, PROVIDERS), [GARDEN]).clusters
        assert cluster.state is State.ADOPTED
        assert of_cluster_api(store) == untouched
        assert (await client.list(EKSARelease.resource)).items
        await repeated(client, after, undone)
        assert content(store) == before

    async def undone(client: Client) -> None:
        with suppress(Refused):  # the last write was made, and its answer lost: nothing is left to give back
            await undoing(client).undo(None)

    on_site(story)


def test_changed_cluster_is_not_given_back() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        await adopter(client, stops=True).apply(None)
        annotations = {metadata_keys.GATE_ANNOTATION: "open:existing"}
        await client.patch(
            Cluster.resource,
            GARDEN.name,
            GARDEN.namespace,
            patch={"metadata": {"annotations": annotations}},
            type=PatchType.MERGE,
        )
        before = content(store)
        with pytest.raises(Refused, match="was changed since it was taken over"):
            await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_release_of_a_tenant_does_not_become_ours() -> None:
    """Ours have no namespace, and all clusters use them; one of the same name comes first where it is listed."""

    async def story(client: Client, store: MemoryStore) -> None:
        theirs = (await client.list(EKSARelease.resource)).items
        tree = json.loads(bytes(theirs[0].raw))
        tree["metadata"] |= {"namespace": GARDEN.namespace, "uid": "of a tenant"}
        wanted = tree["spec"]["bundlesRef"] = {**tree["spec"]["bundlesRef"], "name": "of-a-tenant"}
        put(store, EKSARelease.resource.group_resource, Key(GARDEN.namespace, theirs[0].name), tree)
        before = content(store)
        await adopter(client, stops=True).apply(None)
        ours = (await client.list(EKSARelease.resource)).items
        assert [release.name for release in ours] == [release.name for release in theirs]
        assert wanted["name"] not in [release.tree["spec"]["bundlesRef"]["name"] for release in ours]
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_release_of_a_deleted_namespace_stays_away() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        tree = json.loads(bytes((await client.list(EKSARelease.resource)).items[0].raw))
        tree["metadata"] |= {"namespace": "gone", "uid": "of a tenant"}
        put(store, EKSARelease.resource.group_resource, Key("gone", tree["metadata"]["name"]), tree)
        await adopter(client, stops=True).apply(None)
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_labelled_objects_prevent_undo_without_marks() -> None:
    """Whoever replaces a Cluster removes the annotations; its machines are of our rendering all the same.

    Not the label of Cluster API's Cluster shows it: EKS Anywhere may write that, too."""

    async def story(client: Client, store: MemoryStore) -> None:
        await adopter(client, stops=True).apply(None)
        labels = {CLUSTER_NAME_LABEL: GARDEN.name, CLUSTER_NAMESPACE_LABEL: GARDEN.namespace}
        for resource, key, metadata in (
            (KubeadmControlPlane.resource, Key(SYSTEM_NAMESPACE, GARDEN.name), {"labels": labels}),
            (Cluster.resource, GARDEN, {"annotations": None}),
        ):
            patch = {"metadata": metadata}
            await client.patch(resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
        before = content(store)
        with pytest.raises(Refused, match="have our labels"):
            await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_cluster_made_here_prevents_undo_of_the_last() -> None:
    """EKS Anywhere's controller, which undo starts, would replace its machines."""

    async def story(client: Client, store: MemoryStore) -> None:
        await adopter(client, stops=True).apply(None)
        tree = json.loads(bytes((await client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).raw))
        tree["metadata"] |= {"name": "new", "uid": "new"}
        put(store, Cluster.resource.group_resource, Key(GARDEN.namespace, "new"), tree)
        before = content(store)
        with pytest.raises(Refused, match="Cluster default/new is managed here"):
            await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_interrupted_undo_by_name_says_how_to_go_on() -> None:
    """The last cluster is given back, and what was done once is not: no cluster has a record any more."""

    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        await adopter(client, stops=True).apply([GARDEN])
        dying = Dying(2)
        mortal = Client(dying(client.transport), user_agent="adopt").without_repeats()
        with pytest.raises(Unreachable):
            await undoing(mortal).undo([GARDEN])
        with pytest.raises(Refused, match="`espalier adopt undo --all` restores what was done once"):
            await undoing(client).undo([GARDEN])
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_undo_without_take_over_says_so() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        with pytest.raises(Refused, match="nothing to give back"):
            await undoing(client).undo(None)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "garden-adoption", SYSTEM_NAMESPACE)

    on_site(story)


@pytest.mark.parametrize("write", [1, 2])
def test_second_take_over_at_once_is_refused(write: int) -> None:
    """Otherwise what the other one has recorded and deleted would be lost with this one's next write."""

    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        meanwhile = Meanwhile(write, lambda: adopter(client, stops=True).apply(None))
        slower = Client(meanwhile(client.transport), user_agent="adopt")
        with pytest.raises(Refused, match="adoption-of-eks-anywhere was changed since it was read"):
            await adopter(slower, stops=True).apply(None)
        assert meanwhile.left == 0
        await adopter(client, stops=True).apply(None)
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_undo_keeps_a_record_that_was_changed() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        async def changed() -> None:
            patch = {"metadata": {"annotations": {"example.com/by": "another"}}}
            await client.patch(CONFIG_MAP, records.NAME, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)

        await adopter(client, stops=True).apply(None)
        slower = Client(Meanwhile(1, changed)(client.transport), user_agent="adopt")
        with pytest.raises(Refused, match="was changed since it was read"):
            await undoing(slower).undo(None)
        assert await records.read(client) is not None
        await undoing(client).undo(None)
        assert await records.read(client) is None

    on_site(story)


def test_lost_answer_to_a_recording_is_no_conflict() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        record = records.SiteRecord(replicas=1)
        first = await records.write(client, record)
        assert await records.write(client, record) == first
        changed = records.SiteRecord(replicas=2, version=first.version)
        second = await records.write(client, changed)
        assert await records.write(client, changed) == second
        with pytest.raises(Refused, match="was changed since it was read"):
            await records.write(client, first)

    on_site(story)


def test_added_release_prevents_undo() -> None:
    """It would be deleted with our definition, and EKS Anywhere never had it."""

    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        await adopter(client, stops=True).apply(None)
        tree = json.loads(bytes((await client.list(EKSARelease.resource)).items[0].raw))
        tree["metadata"] = {"name": "eksa-v0-99-0"}
        tree["spec"]["version"] = "v0.99.0"
        await client.create(EKSARelease.resource, tree)
        adopted = content(store)
        with pytest.raises(Refused, match="EKSARelease eksa-v0-99-0: added since the take-over"):
            await undoing(client).undo(None)
        assert content(store) == adopted
        await client.delete(EKSARelease.resource, "eksa-v0-99-0")
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_release_of_the_manager_does_not_prevent_undo() -> None:
    """A manager installs all of its build; the site had less."""

    async def story(client: Client, store: MemoryStore) -> None:
        dropped = (await client.list(EKSARelease.resource)).items[0]
        await client.delete(NAMESPACED_RELEASE, dropped.name, dropped.namespace)
        before = content(store)
        await adopter(client, stops=True).apply(None)
        created = await install(client, Releases.load().objects())
        assert [object_.name for object_ in created] == [dropped.name]
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


def test_deleted_release_stays_away_when_applied_again() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        await adopter(client, stops=True).apply(None)
        dropped = (await client.list(EKSARelease.resource)).items[0]
        await client.delete(EKSARelease.resource, dropped.name)
        await adopter(client, stops=True).apply(None)
        assert dropped.name not in [release.name for release in (await client.list(EKSARelease.resource)).items]
        assert dropped.name not in [release.name for release in (await read(client, PROVIDERS)).releases]
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)


@pytest.mark.parametrize("after", range(1, 9))
def test_killed_undo_is_taken_over_again(after: int) -> None:
    """All that was restored meanwhile becomes ours again."""

    async def story(client: Client, store: MemoryStore) -> None:
        before = content(store)
        await adopter(client, stops=True).apply(None)
        ours = [release.name for release in (await client.list(EKSARelease.resource)).items]
        mortal = Client(Dying(after)(client.transport), user_agent="adopt").without_repeats()
        with suppress(Unreachable):
            await undoing(mortal).undo(None)
        await repeated(client, 2, lambda again: adopter(again, stops=True).apply(None))
        assert [release.name for release in (await client.list(EKSARelease.resource)).items] == ours
        await undoing(client).undo(None)
        assert content(store) == before

    on_site(story)
