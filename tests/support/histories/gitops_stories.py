"""Stories of clusters in a Git repository; the same ones with Flux and with what stands in for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION, NAME_LABEL, NAMESPACE
from espalier.api.resource import Key
from espalier.gitops.installation import Installation, NotFollowed
from espalier.gitops.layout import CLUSTER_FILE, Unfit
from espalier.gitops.repository import GitError
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.management import handed_over
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.environments.cluster_lives import KUBERNETES, groups
from tests.support.environments.git_fleet import BASE, PASSWORD, Fleet, conditions_of
from tests.support.environments.managed_clusters import NAMESPACE as DEFAULT

GARDEN, ORCHARD = (Key(DEFAULT, name) for name in ("garden", "orchard"))


async def a_life_by_pushes(fleet: Fleet) -> None:
    """A pushed spec creates, a changed one upgrades, a removed one deletes."""
    await fleet.follow()
    fleet.add("garden", kubernetesVersion="1.34")
    await fleet.env.until(lambda cluster: bool(cluster.status.ready), GARDEN)
    assert set(await fleet.env.versions()) == {KUBERNETES["1.34"]}
    fleet.replace("garden", 'kubernetesVersion: "1.34"', 'kubernetesVersion: "1.35"')
    await fleet.until_applied("garden")
    await fleet.env.until_ready(GARDEN)
    assert set(await fleet.env.versions()) == {KUBERNETES["1.35"]}
    fleet.remove("garden")
    await fleet.env.until_gone(GARDEN)
    await fleet.until_applied("flux-system")
    assert fleet.server.head() == fleet.pushed[-1]


async def scenario_two(fleet: Fleet) -> None:
    """A management cluster is handed over to Git; a workload cluster is created, upgraded and deleted by pushes."""
    await fleet.read_record()
    before = await fleet.env.client.get(Cluster.resource, "laptop", DEFAULT)
    await fleet.install(fleet.installation())
    with pytest.raises(NotFound):
        await fleet.env.client.get(Cluster.resource, "garden", DEFAULT)
    fleet.add("garden", kubernetesVersion="1.34")
    await fleet.request()
    await fleet.env.until(lambda cluster: bool(cluster.status.ready), GARDEN)
    fleet.replace("garden", 'kubernetesVersion: "1.34"', 'kubernetesVersion: "1.35"')
    await fleet.request()
    await fleet.until_applied("garden")
    await fleet.env.until_ready(GARDEN)
    assert set(await fleet.env.versions()) == {KUBERNETES["1.35"]}
    fleet.remove("garden")
    await fleet.request()
    await fleet.env.until_gone(GARDEN)
    after = await fleet.env.client.get(Cluster.resource, "laptop", DEFAULT)
    assert (after.metadata.uid, after.metadata.generation) == (before.metadata.uid, before.metadata.generation)
    assert after.metadata.labels[NAME_LABEL] == "laptop"


async def an_interrupted_installation(fleet: Fleet) -> None:
    """Repeated, it goes on, changes nothing that is done, and commits once; a wrong password is said."""
    await fleet.read_record()
    wrong = fleet.installation("0ther-w0rd")
    with pytest.raises(GitError, match="does not accept the credentials"):
        await fleet.install(wrong)
    assert (await fleet.env.client.list(GIT_REPOSITORY)).items == []
    pushed = await fleet.install(fleet.installation())
    own = await fleet.env.client.get(KUSTOMIZATION, "laptop", NAMESPACE)
    assert own.tree["status"]["lastAppliedRevision"] == f"main@sha1:{pushed.commit}"
    assert own.tree["status"]["lastHandledReconcileAt"] == pushed.commit
    again = await fleet.install(fleet.installation())
    assert (again.commit, again.is_changed) == (pushed.commit, False)
    text = fleet.server.text(f"{BASE}/flux-system/gotk-components.yaml")
    assert text.count("image: mirror.example.com/ghcr/fluxcd/") == 2
    assert PASSWORD not in fleet.server.git("log", "-p", "main")
    other = [tree | {"metadata": tree["metadata"] | {"namespace": "others"}} for tree in fleet.record]
    with pytest.raises(Unfit, match="the repository has another cluster laptop"):
        await fleet.install(replace(fleet.installation(), manifest=other))
    assert fleet.server.head() == pushed.commit


async def judged(fleet: Fleet, installation: Installation, *words: str) -> None:
    """Install until Flux has come as far as the files in question: each attempt goes on where the last one ended."""
    problem = ""
    for _ in range(20):
        with pytest.raises(NotFollowed) as raised:
            await fleet.install(installation, patience=30)
        problem = str(raised.value)
        if all(word in problem for word in words):
            return
    raise AssertionError(f"{problem!r}, expected {words}")


async def a_mended_installation(fleet: Fleet) -> None:
    """An error of the cluster's own files ends the command; it goes on with what somebody corrects in Git."""
    await fleet.read_record()
    record, *others = fleet.record
    spec = record["spec"] | {"eksaVersion": "nonsense"}
    wrong = replace(fleet.installation(), manifest=[record | {"spec": spec}, *others])
    await judged(fleet, wrong, "Kustomization laptop is not ready", "eksaVersion")
    fleet.replace("laptop", "eksaVersion: nonsense", f"eksaVersion: {record['spec']['eksaVersion']}  # mended")
    mended = fleet.server.head()
    with pytest.raises(Unfit, match="the repository has another cluster laptop"):
        wrong.files(fleet.repository.read())
    again = await fleet.install(wrong)
    assert (again.commit, again.is_changed) == (mended, False)
    own = await fleet.env.client.get(KUSTOMIZATION, "laptop", NAMESPACE)
    assert own.tree["status"]["lastAppliedRevision"] == f"main@sha1:{mended}"


async def a_deleted_kustomization_of_flux(fleet: Fleet) -> None:
    """Who deletes it by hand deletes neither clusters nor Flux; installed again, it goes on."""
    await fleet.read_record()
    await fleet.install(fleet.installation())
    fleet.add("garden")
    await fleet.request()
    await fleet.env.until(lambda cluster: bool(cluster.status.ready), GARDEN)
    await fleet.env.client.delete(KUSTOMIZATION, NAMESPACE, NAMESPACE)
    await fleet.until_no_kustomization(NAMESPACE)
    await asyncio.sleep(fleet.env.calm)
    stored = await fleet.env.client.get(Cluster.resource, "garden", DEFAULT)
    assert stored.metadata.deletion_timestamp is None
    await fleet.install(fleet.installation())
    fleet.add("garden", workerNodeGroupConfigurations=groups(3))
    await fleet.request()
    await fleet.until_applied("garden")


async def an_adoption(fleet: Fleet) -> None:
    """Objects that kubectl creates are added to no repository; their file, pushed later, changes no machine."""
    await fleet.follow()
    await fleet.env.apply()
    await fleet.env.until_ready(GARDEN)
    await asyncio.sleep(fleet.env.calm)
    assert fleet.server.head() == fleet.pushed[-1]
    machines = await fleet.env.machine_names("garden")
    fleet.add("garden")
    await fleet.until_applied("garden")
    await fleet.env.until_ready(GARDEN)
    await asyncio.sleep(fleet.env.calm)
    assert await fleet.env.machine_names("garden") == machines
    stored = await fleet.env.client.get(Cluster.resource, "garden", DEFAULT)
    assert stored.metadata.labels[NAME_LABEL] == "garden"
    fleet.add("garden", workerNodeGroupConfigurations=groups(3))
    await fleet.env.until(lambda cluster: cluster.spec.worker_node_group_configurations[0].count == 3)
    await fleet.env.until_ready(GARDEN)


async def hand_edits(fleet: Fleet) -> None:
    """Objects that kubectl changes and deletes are back as they are in Git."""
    await running(fleet, "garden")
    await fleet.env.change(workerNodeGroupConfigurations=groups(4))
    await fleet.env.until(lambda cluster: cluster.spec.worker_node_group_configurations[0].count == 2)
    datacenter = DockerDatacenterConfig.resource
    before = await fleet.env.client.get(datacenter, "garden", DEFAULT)
    await fleet.env.client.delete(datacenter, "garden", DEFAULT)

    async def is_back() -> bool:
        try:
            after = await fleet.env.client.get(datacenter, "garden", DEFAULT)
        except NotFound:
            return False
        return after.metadata.uid != before.metadata.uid

    await fleet.until(is_back, lambda: "the datacenter is not back")
    await fleet.env.until_ready(GARDEN)


async def a_broken_file_of_another_cluster(fleet: Fleet) -> None:
    """YAML that can't be read stops its own cluster alone, and harms it not."""
    await running(fleet, "garden", "orchard")
    machines = await fleet.env.machine_names("garden")
    fleet.replace("garden", "spec:", "spec: [")
    await fleet.until_said(KUSTOMIZATION, "garden", CLUSTER_FILE)
    fleet.add("orchard", workerNodeGroupConfigurations=groups(3))
    await fleet.until_applied("orchard")
    await fleet.env.until_ready(ORCHARD)
    assert await fleet.env.machine_names("garden") == machines
    fleet.add("garden", workerNodeGroupConfigurations=groups(3))
    await fleet.until_applied("garden")
    await fleet.env.until_ready(GARDEN)


async def a_refused_change(fleet: Fleet) -> None:
    """A refusal of the manager is reported with its field; the cluster goes on as it was."""
    await running(fleet, "garden")
    uid = (await fleet.env.client.get(Cluster.resource, "garden", DEFAULT)).metadata.uid
    machines = await fleet.env.machine_names("garden")
    path = f"{BASE}/garden/eksa-system/{CLUSTER_FILE}"

    def change(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
        """The datacenter comes first, and can be changed; none of a file is applied of which a part is refused."""
        cluster, datacenter = files[path].removeprefix(b"---\n").split(b"---\n")
        cluster = cluster.replace(b"192.168.0.0/16", b"192.169.0.0/16")
        datacenter = datacenter.replace(b"metadata:", b"metadata:\n  labels: {team: a}")
        return {path: b"---\n".join([b"", datacenter, cluster])}

    fleet.push(change)
    await fleet.until_said(KUSTOMIZATION, "garden", "spec.clusterNetwork.pods")
    assert await fleet.conditions(KUSTOMIZATION, "garden") == {
        "Ready": ("False", "ReconciliationFailed"),
        "Reconciling": ("True", "ProgressingWithRetry"),
    }
    stored = await fleet.env.client.get(Cluster.resource, "garden", DEFAULT)
    assert (stored.metadata.uid, stored.metadata.deletion_timestamp) == (uid, None)
    assert await fleet.env.machine_names("garden") == machines
    unchanged = await fleet.env.client.get(DockerDatacenterConfig.resource, "garden", DEFAULT)
    assert "team" not in unchanged.metadata.labels
    fleet.replace("garden", '"192.169.0.0/16"', '"192.168.0.0/16"')
    await fleet.until_applied("garden")
    assert await fleet.conditions(KUSTOMIZATION, "garden") == {"Ready": ("True", "ReconciliationSucceeded")}


async def a_reconcile_in_progress(fleet: Fleet) -> None:
    """It is said while objects are applied; and a Kustomization whose last try failed is suspended without a wait."""
    await running(fleet, "garden")
    seen: list[dict[str, tuple[str, str]]] = []
    start = (await fleet.env.client.list(KUSTOMIZATION, NAMESPACE)).resource_version

    async def follow() -> None:
        async for event in fleet.env.client.watch(KUSTOMIZATION, NAMESPACE, resource_version=start):
            if event.object.name == "garden":
                seen.append(conditions_of(event.object))

    following = asyncio.create_task(follow())
    try:
        fleet.add("garden", workerNodeGroupConfigurations=groups(1))
        await fleet.until_applied("garden")
        fleet.replace("garden", '"192.168.0.0/16"', '"192.169.0.0/16"')
        await fleet.until_said(KUSTOMIZATION, "garden", "spec.clusterNetwork.pods")
    finally:
        following.cancel()
    in_progress = {"Ready": ("Unknown", "Progressing"), "Reconciling": ("True", "Progressing")}
    assert in_progress in seen
    waited: list[str] = []
    await handed_over.suspend(fleet.env.client, Waiting(waited))
    assert len(waited) < 10, waited
    fleet.replace("garden", '"192.169.0.0/16"', '"192.168.0.0/16"')
    await handed_over.resume(fleet.env.client, Key(NAMESPACE, NAMESPACE))
    await handed_over.resume(fleet.env.client, Key(NAMESPACE, "garden"))
    await fleet.until_applied("garden")


class Waiting:
    """Progress of which only what is waited for is kept."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def say(self, text: str, sign: str = "", *, aside: str = "") -> None:
        pass

    def wait(self, text: str) -> None:
        self._told.append(text)


async def a_wrong_password(fleet: Fleet) -> None:
    """Nothing is applied; the password is in no message; the right one is taken without a restart."""
    fleet.add("garden")
    await fleet.follow(password="0ther-w0rd")
    message = await fleet.until_said(GIT_REPOSITORY, NAMESPACE)
    assert "0ther-w0rd" not in message
    assert fleet.env.clusters.get(GARDEN) is None
    await fleet.give()
    await fleet.env.until(lambda cluster: bool(cluster.status.ready), GARDEN)


async def a_server_that_is_away(fleet: Fleet) -> None:
    """Meanwhile what is in Git is kept up as it was fetched last."""
    await running(fleet, "garden")
    with fleet.server.away():
        await fleet.until_said(GIT_REPOSITORY, NAMESPACE)
        await fleet.env.change(workerNodeGroupConfigurations=groups(4))
        await fleet.env.until(lambda cluster: cluster.spec.worker_node_group_configurations[0].count == 2)
    fleet.add("garden", workerNodeGroupConfigurations=groups(3))
    await fleet.until_applied("garden")
    await fleet.env.until_ready(GARDEN)


async def a_replaced_history(fleet: Fleet) -> None:
    """A branch that was pushed by force is applied as it is now."""
    await running(fleet, "garden")
    machines = await fleet.env.machine_names("garden")
    commit = fleet.server.without_history()
    await fleet.until_applied("garden", commit)
    await asyncio.sleep(fleet.env.calm)
    assert await fleet.env.machine_names("garden") == machines
    fleet.add("garden", workerNodeGroupConfigurations=groups(3))
    await fleet.until_applied("garden")
    await fleet.env.until_ready(GARDEN)


async def an_emptied_repository(fleet: Fleet) -> None:
    """All files at once are no removal of clusters: the folders are missing, which is said."""
    await running(fleet, "garden")
    before = fleet.server.head()
    fleet.push(lambda files: {**dict.fromkeys(files), "readme.md": b"nothing"})
    await fleet.until_said(KUSTOMIZATION, NAMESPACE, f"{BASE}/flux-system")
    await asyncio.sleep(fleet.env.calm)
    cluster = await fleet.env.client.get(Cluster.resource, "garden", DEFAULT)
    assert cluster.metadata.deletion_timestamp is None
    fleet.server.git("update-ref", "refs/heads/main", before)
    await fleet.until_applied("garden", before)


async def a_change_that_never_ends(fleet: Fleet) -> None:
    """The next commit is applied whatever became of the last one."""
    await running(fleet, "garden")
    patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}
    await fleet.env.client.patch(Cluster.resource, "garden", DEFAULT, patch=patch, type=PatchType.MERGE)
    fleet.add("garden", workerNodeGroupConfigurations=groups(3))
    await fleet.env.until(lambda cluster: cluster.spec.worker_node_group_configurations[0].count == 3)
    fleet.add("garden", workerNodeGroupConfigurations=groups(1))
    await fleet.env.until(lambda cluster: cluster.spec.worker_node_group_configurations[0].count == 1)
    patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}  # type: ignore[dict-item]
    await fleet.env.client.patch(Cluster.resource, "garden", DEFAULT, patch=patch, type=PatchType.MERGE)
    await fleet.env.until_ready(GARDEN)


async def running(fleet: Fleet, *names: str) -> None:
    """These clusters, from the repository."""
    await fleet.follow()
    for name in names:
        fleet.add(name)
    for name in names:
        await fleet.env.until(lambda cluster: bool(cluster.status.ready), Key(DEFAULT, name))
        await fleet.until_applied(name)


STORIES = {
    " ".join(story.__name__.split("_")): story
    for story in (
        a_life_by_pushes,
        scenario_two,
        an_interrupted_installation,
        a_mended_installation,
        a_deleted_kustomization_of_flux,
        an_adoption,
        hand_edits,
        a_broken_file_of_another_cluster,
        a_refused_change,
        a_reconcile_in_progress,
        a_wrong_password,
        a_server_that_is_away,
        a_replaced_history,
        an_emptied_repository,
        a_change_that_never_ends,
    )
}
