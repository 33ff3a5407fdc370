"""The rights that `espalier manifests` gives the manager: each is used, and in the namespaces it watches they suffice.

That none is missing, every journey shows: `managed_environment` asks for no more than the stored roles allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, ROLE, ROLE_BINDING, SECRET
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.identity_providers import AWSIamConfig, OIDCConfig
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.install import manifests
from espalier.clusters.rbac import IN_WORKLOAD_CLUSTERS
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid
from espalier.kube.rbac import trees
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from espalier.upgrades.names import IMAGES
from espalier.upgrades.rbac import IN_WORKLOAD_CLUSTERS as IN_WORKLOADS_BY_UPGRADES
from tests.support.environments.in_place_environment import ready, spec, until_so
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment, managed_environment
from tests.support.environments.management import RIGHTS_TO_BLOCK, rights_to_own
from tests.support.environments.upgraders import Upgraders
from tests.support.objects.flux_kinds import DEFINITION
from tests.support.providers.provider_lives import LIVES, ProviderLife
from tests.support.sampling import sampled
from tests.support.servers.audit import Grant, grants
from tests.support.servers.faults import Blocked

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
OURS, DISTRO, COORDINATION, ADMISSION = (
    "anywhere.eks.amazonaws.com",
    "distro.eks.amazonaws.com",
    "coordination.k8s.io",
    "admissionregistration.k8s.io",
)
ELSEWHERE = {
    *(Grant(SYSTEM_NAMESPACE, COORDINATION, "leases", verb) for verb in ("get", "create", "patch")),
    *(
        Grant("", ADMISSION, f"{kind}webhookconfigurations", verb)
        for kind in ("validating", "mutating")
        for verb in ("list", "watch", "patch")
    ),
    Grant("", OURS, "eksareleases", "create"),
    Grant(SYSTEM_NAMESPACE, OURS, "bundles", "create"),
    Grant(SYSTEM_NAMESPACE, DISTRO, "releases", "create"),
}
"""Of the process around the controllers, absent in the local environment: elections, the webhooks' certificate, and
releases created at start. `test_production` shows that they are used."""

RARE = {
    *(Grant("", "", resource, "delete") for resource in ("secrets", "serviceaccounts")),
    *(Grant("", "apps", resource, "delete") for resource in ("daemonsets", "deployments")),
    *(Grant("", ROLE.group, resource, "delete") for resource in ("clusterrolebindings", "rolebindings")),
    Grant("", "", "nodes", "patch"),
}
"""In workload clusters: to delete what a later version renders no more, whatever its kind, and to uncordon a node whose
upgrade is deleted (`test_node_upgrades`)."""

Story = Callable[[ManagedEnvironment], Awaitable[None]]


def journey(story: Story, namespaces: Sequence[str] = (), **settings: Any) -> set[Grant]:
    """Tell a story. Returns the grants that the manager used in it."""

    async def main(simulation: Simulation) -> set[Grant]:
        async with managed_environment(simulation.clock, namespaces=namespaces, **settings) as env:
            await story(env)
        return env.ledger.used(grants(manifests.installed(PROVIDERS, namespaces)))

    return run(main, epoch=EPOCH, seed=1)


async def everything(env: ManagedEnvironment) -> None:
    """A cluster's whole life, with all that a manager writes in it."""
    in_place = {"upgradeRolloutStrategy": {"type": "InPlace"}}
    two = [{"name": "md-0", "count": 1, **in_place}, {"name": "md-1", "count": 1}]
    control_plane = {"count": 1, **in_place}
    await env.apply(
        kubernetesVersion="1.35", workerNodeGroupConfigurations=two, controlPlaneConfiguration=control_plane
    )
    await env.until_ready()
    Upgraders(env.workloads)
    await env.change(workerNodeGroupConfigurations=two[:1], kubernetesVersion="1.36")
    await env.until_ready()
    await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
    await env.until_gone()


async def an_upgrade_that_does_not_end(env: ManagedEnvironment) -> None:
    """Its cluster is deleted meanwhile."""
    await env.apply(**spec(1, 1))
    await env.until_ready()
    await env.change(kubernetesVersion="1.36")
    await until_so(
        env,
        ControlPlaneUpgrade.resource,
        "garden-cp-upgrade",
        lambda control_plane_upgrade: bool(ready(control_plane_upgrade)),
    )
    await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
    await env.until_gone()


async def a_hand_that_edits(env: ManagedEnvironment) -> None:
    """The manager restores a status that somebody removes; and a NodeUpgrade needs no Cluster."""
    odd = {"machine": {"name": "nobody"}, "kubernetesVersion": "v1.36.3-eks-1-36-1", "nodeType": "Worker"}
    body = {"metadata": {"name": "odd", "namespace": SYSTEM_NAMESPACE}, "spec": odd}
    await env.client.create(NodeUpgrade.resource, body)
    await env.apply()
    await env.until_ready()
    for _ in range(2):
        await until_so(
            env, NodeUpgrade.resource, "odd", lambda node_upgrade: ready(node_upgrade)["reason"] == "MachineMissing"
        )
        await env.until(lambda cluster: bool(cluster.status.ready))
        for resource, name, namespace in (
            (NodeUpgrade.resource, "odd", SYSTEM_NAMESPACE),
            (Cluster.resource, GARDEN.name, GARDEN.namespace),
        ):
            wiped = {"status": {"conditions": None, "ready": None}}
            await env.client.patch(resource, name, namespace, patch=wiped, type=PatchType.MERGE, subresource="status")
    no_images = {"data": None}
    await env.client.patch(CONFIG_MAP, IMAGES, SYSTEM_NAMESPACE, patch=no_images, type=PatchType.MERGE)
    await asyncio.sleep(CALM)


async def known_elsewhere(env: ManagedEnvironment) -> None:
    """Its users are, which linked objects say; the release has no authenticator for those of AWS."""
    company = {"issuerUrl": "https://login.example.com", "clientId": "kubernetes"}
    amazon = {"awsRegion": "us-west-2", "backendMode": ["EKSConfigMap"]}
    linked = ((OIDCConfig.resource, "company", company), (AWSIamConfig.resource, "amazon", amazon))
    for resource, name, body in linked:
        metadata = {"name": name, "namespace": GARDEN.namespace}
        await env.client.create(resource, {"metadata": metadata, "spec": body})
    await env.apply(identityProviderRefs=[{"kind": item.kind, "name": name} for item, name, _ in linked])
    await asyncio.sleep(CALM)
    for resource, name, _ in linked:
        assert (await env.client.get(resource, name, GARDEN.namespace)).metadata.owner_references
    await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
    await env.until_gone()


async def beside_flux(env: ManagedEnvironment) -> None:
    """Its Kustomizations say which clusters it applies with force."""
    await env.client.apply(CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    await asyncio.sleep(CALM)


def on(life: ProviderLife) -> Callable[[ManagedEnvironment], Awaitable[None]]:
    """With all that its provider has, of which some goes; machines become others."""

    async def story(env: ManagedEnvironment) -> None:
        await life.before(env)
        steps = life.steps(env)
        await steps.make()
        await steps.in_place()
        life.kubernetes(steps, "1.36")
        await steps.make()
        for item in (steps.spec["controlPlaneConfiguration"], *steps.spec["workerNodeGroupConfigurations"]):
            item.pop("upgradeRolloutStrategy")
        life.more(steps.trees)
        await steps.make()
        life.less(steps.trees)
        if life.refused:
            life.change_machines(steps)
        await steps.make()
        await env.client.delete(Cluster.resource, steps.key.name, steps.key.namespace)
        await env.until_gone(steps.key)

    return story


def a_cluster_that_never_was(namespaces: Sequence[str]) -> set[Grant]:
    """It is deleted while all but the Cluster of Cluster API is made."""
    shut = asyncio.Event()
    shut.set()

    async def story(env: ManagedEnvironment) -> None:
        proxy = {"httpProxy": "http://a:secret@proxy:1", "httpsProxy": "http://a:secret@proxy:1"}
        await env.apply(externalEtcdConfiguration={"count": 1}, proxyConfiguration=proxy)
        await asyncio.sleep(CALM)
        assert (await env.client.list(KubeadmControlPlane.resource)).items
        assert (await env.client.list(EtcdadmCluster.resource)).items
        assert not (await env.client.list(capi.Cluster.resource)).items
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        for life in LIVES:
            await life.before(env)
            steps = life.steps(env)
            await steps.apply()
            await asyncio.sleep(CALM)
            await env.client.delete(Cluster.resource, steps.key.name, steps.key.namespace)
            await env.until_gone(steps.key)

    return journey(
        story, namespaces, wrap=Blocked("/apis/cluster.x-k8s.io/v1beta2/namespaces/eksa-system/clusters", shut)
    )


@pytest.mark.demand("L62")
@pytest.mark.soak
@pytest.mark.parametrize("namespaces", sampled([((),), (("default",),)], 0), ids=["all namespaces", "one namespace"])
def test_every_right_is_used(namespaces: Sequence[str]) -> None:
    """In the life of a cluster, or of one that has no luck."""
    granted = set(grants(manifests.installed(PROVIDERS, namespaces)))
    lives = (everything, an_upgrade_that_does_not_end, a_hand_that_edits, known_elsewhere)
    stories = (*lives, beside_flux, *map(on, LIVES))
    used = a_cluster_that_never_was(namespaces).union(*(journey(story, namespaces) for story in stories))
    unused = {*ELSEWHERE, *rights_to_own(namespaces[0] if namespaces else ""), *RIGHTS_TO_BLOCK}
    assert {str(grant) for grant in granted - used} == {str(grant) for grant in unused}


def in_workload_clusters(story: Story) -> set[Grant]:
    """Tell a story. Returns the grants that the manager's account used in workload clusters."""

    async def main(simulation: Simulation) -> set[Grant]:
        async with managed_environment(simulation.clock) as env:
            await story(env)
            account = env.manager.workload_account
            assert account is not None
            granted = set(grants({"kind": resource.kind, **tree} for resource, tree in account.objects()))
        return {grant for ledger in env.in_workload_clusters for grant in ledger.used(granted)}

    return run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_every_right_in_workload_clusters_is_used() -> None:
    """That none is missing, every journey shows."""
    rights = (*IN_WORKLOAD_CLUSTERS, *IN_WORKLOADS_BY_UPGRADES)
    granted = set(grants([{"kind": "ClusterRole", "metadata": {}, "rules": trees(rights)}]))
    stories = (everything, an_upgrade_that_does_not_end, known_elsewhere, *map(on, LIVES))
    used = set[Grant]().union(*map(in_workload_clusters, stories))
    assert {str(grant) for grant in granted - used} == {str(grant) for grant in RARE}


@pytest.mark.demand("L68")
@pytest.mark.soak
def test_namespaced_manager_reads_no_other_namespace() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await everything(env)
        asked = {grant.resource for grant in env.ledger.asked if not grant.namespace}
        assert asked == {
            *("eksareleases", "customresourcedefinitions", "vspherefailuredomains", "vspheredeploymentzones")
        }

    journey(story, ("default",))


@pytest.mark.demand("L66")
def test_rights_on_own_kinds_suffice_for_cluster_life() -> None:
    verbs = ["get", "create", "patch", "delete"]
    rules = [
        {"apiGroups": [OURS], "resources": ["clusters", "dockerdatacenterconfigs"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["garden-kubeconfig"], "verbs": ["get"]},
    ]
    jane = User("jane", ("system:authenticated",))

    async def story(env: ManagedEnvironment) -> None:
        metadata = {"name": "gardeners", "namespace": GARDEN.namespace}
        await env.client.create(ROLE, {"metadata": metadata, "rules": rules})
        subjects = [{"kind": "User", "apiGroup": ROLE.group, "name": jane.name}]
        role = {"apiGroup": ROLE.group, "kind": "Role", "name": "gardeners"}
        await env.client.create(ROLE_BINDING, {"metadata": metadata, "roleRef": role, "subjects": subjects})

        await env.allow_copies(GARDEN.namespace)  # as the owner of the namespace does, once
        hers = replace(env, client=Client(InProcessTransport(env.server, jane)))
        await hers.apply()
        await hers.until_ready()
        await hers.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}])
        await hers.until_ready()
        assert len(await hers.nodes()) == 2
        for resource, name in ((SECRET, "garden-kubeconfig"), (capi.Cluster.resource, "garden")):
            with pytest.raises(Forbidden, match="jane"):
                await hers.client.get(resource, name, SYSTEM_NAMESPACE)
        await hers.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await hers.until_gone()

    journey(story, copies_to=())


@pytest.mark.demand("L58", "L68")
def test_clusters_of_other_namespaces_are_left_alone() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.client.apply(NAMESPACES, {"metadata": {"name": "team-c"}})
        await env.apply(namespace="team-c", kubernetesVersion="1.20")  # no webhook of this manager judges it
        await env.allow_copies("team-b")
        for namespace in ("default", "team-b"):
            name = f"of-{namespace}"
            await env.apply(namespace=namespace, name=name, kubernetesVersion="1.35")
            await env.until_ready(Key(namespace, name))
        assert env.clusters.get(Key("team-c", "garden")) is None
        stranger = await env.client.get(Cluster.resource, "garden", "team-c")
        assert stranger.tree["status"] == {"observedGeneration": -1}  # nobody's

    journey(story, ("default", "team-b"))


@pytest.mark.soak
def test_taken_name_in_an_unwatched_place_is_refused() -> None:
    async def story(env: ManagedEnvironment) -> None:
        labels = {CLUSTER_NAME_LABEL: "garden", CLUSTER_NAMESPACE_LABEL: "team-c"}
        theirs = {"metadata": {"name": "garden", "namespace": SYSTEM_NAMESPACE, "labels": labels}, "spec": {}}
        await env.client.create(capi.Cluster.resource, theirs)
        await asyncio.sleep(1)  # of simulated time: the watch brings it
        with pytest.raises(
            Invalid, match="there is a cluster of this name in another namespace; names of clusters are unique"
        ):
            await env.apply(kubernetesVersion="1.35")

    journey(story, ("default",))
