"""`espalier create cluster` of a management cluster with `gitOpsRef`: scenario 2, as it is called."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from espalier.api.core import DEPLOYMENT, NODE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import FluxConfig
from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION, NAME_LABEL, REQUESTED
from espalier.api.resource import Key
from espalier.api.trees import yaml_trees
from espalier.cli.clusters.access.kubeconfig import read as kubeconfig_of
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.management.components import components
from espalier.gitops.layout import base_of, cluster_files
from espalier.gitops.repository import Access, Author, Change, Repository
from espalier.kube.client import Client, PatchType
from espalier.moving.sides import Side
from tests.support.environments import component_folders
from tests.support.environments.bootstraps import until_gone, until_ready
from tests.support.environments.environment import PROGRAM, CommandResult, LocalEnvironment
from tests.support.environments.git_fleet import without_cluster
from tests.support.environments.managed_clusters import EXAMPLES
from tests.support.servers.git_server import GitServer, git_server, ssh_in_place

pytestmark = pytest.mark.embedded

BASE = base_of("management")
GARDEN = Key("default", "garden")
ANNA = Author("anna", "anna@example.com", 1_767_225_600)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path) as server:
        yield server


class Machine(LocalEnvironment):
    """A machine with a key for the repository, and no other."""

    def create(self, manifest: Path, variables: dict[str, str] = {}) -> CommandResult:  # noqa: B006  read only
        return self.give("create", "cluster", "-f", str(manifest), variables=variables)

    def give(self, *words: str, variables: dict[str, str] = {}) -> CommandResult:  # noqa: B006  read only
        return self.espalier(*words, **{**self.variables(), **variables})  # type: ignore[arg-type]

    def variables(self) -> dict[str, str]:
        folder = self.home.parent
        return {
            "PATH": f"{folder / 'programs'}:{os.environ['PATH']}",
            "EKSA_GIT_PRIVATE_KEY": str(folder / "key"),
            "EKSA_GIT_KNOWN_HOSTS": str(folder / "known_hosts"),
        }


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    home = tmp_path / "home"
    home.mkdir()
    ssh_in_place(tmp_path)
    key = Ed25519PrivateKey.generate()
    (tmp_path / "key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    (tmp_path / "locked").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a passphrase"))
    )
    (tmp_path / "known_hosts").write_text("git.example.com ssh-ed25519 AAAA\n")
    machine = Machine(home)
    yield machine
    for folder in home.glob("management-clusters/*"):
        machine.espalier("down", "--delete-data", ESPALIER_HOME=str(folder))


def manifest(server: GitServer, **spec: object) -> Path:
    """The example of a management cluster, with a repository."""
    text = (EXAMPLES / "management.yaml").read_text()
    text = text.replace("  datacenterRef:", "  gitOpsRef: {kind: FluxConfig, name: fleet}\n  datacenterRef:")
    more = "".join(f"  {name}: {value}\n" for name, value in spec.items())
    path = server.folder.parent / "management.yaml"
    path.write_text(
        f"{text}---\napiVersion: {FluxConfig.resource.api_version}\nkind: FluxConfig\nmetadata: {{name: fleet}}\n"
        f"spec:\n  git: {{repositoryUrl: 'ssh://git@git.example.com{server.folder}'}}\n{more}"
    )
    return path


@pytest.mark.demand("L39", L71="as a user calls it, on a laptop")
def test_scenario_2_with_one_management_cluster(machine: Machine, server: GitServer) -> None:
    """L71: create management; create, upgrade and delete a workload cluster by pushes; delete management."""
    made = machine.create(manifest(server))
    assert made.code == 0, made.err
    assert "set up GitOps" in made.err
    head = server.head()
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    asyncio.run(workload_by_pushes(kubeconfig, server))
    assert server.git("rev-list", "--count", f"{head}..main") == "3"
    server.hook("update", "exit 1")
    refused = machine.give("delete", "cluster", "management", "--push")
    told = " ".join(refused.err.split())
    assert (refused.code, "default/management is not deleted, and its Flux is suspended" in told) == (1, True), told
    (server.folder / "hooks" / "update").unlink()
    tried = machine.give("delete", "cluster", "management", "--push", "--dry-run=server")
    assert (tried.code, f"{BASE}/flux-system/gotk-sync.yaml: removed" in tried.err) == (0, True), tried.err
    deleted = machine.give("delete", "cluster", "management", "--push")
    assert deleted.code == 0, deleted.err
    assert "its files are still" not in deleted.err
    assert server.git("ls-tree", "-r", "--name-only", "main") == ""


def test_push_commits_what_a_command_changes(machine: Machine, server: GitServer) -> None:
    """Of a management cluster and a cluster of it: each change is one commit, and is there once the command ends."""
    management = manifest(server)
    assert machine.create(management).code == 0
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    garden = server.folder.parent / "garden.yaml"
    text = (EXAMPLES / "docker.yaml").read_text().replace("name: laptop", "name: management")
    garden.write_text(text)
    given = ("-f", str(garden), "--kubeconfig", str(kubeconfig))
    head = server.head()
    tried = machine.give("create", "cluster", *given, "--push", "--dry-run=server")
    assert (tried.code, f"{BASE}/garden/eksa-system/eksa-cluster.yaml: new" in tried.err) == (0, True), tried.err
    assert server.head() == head
    created = machine.give("create", "cluster", *given, "--push")
    assert created.code == 0, created.err
    assert f"commit {server.head()[:12]} is pushed to ssh://git@git.example.com" in " ".join(created.err.split())
    assert "Secret" not in server.git("grep", "-l", "", "main", "--", f"{BASE}/garden")
    again = machine.give("create", "cluster", *given, "--push")
    assert "already exists" in again.err
    garden.write_text(text.replace("count: 2", "count: 3"))
    refused = machine.give("upgrade", "cluster", *given)
    assert (refused.code, "Give --push to have it committed" in " ".join(refused.err.split())) == (1, True), refused.err
    scaled = machine.give("upgrade", "cluster", *given, "--push")
    assert scaled.code == 0, scaled.err
    changed = "Cluster garden: spec.workerNodeGroupConfigurations[0].count: 2 -> 3"
    assert f"{BASE}/garden/eksa-system/eksa-cluster.yaml: {changed}" in " ".join(scaled.err.split())
    assert server.git("rev-list", "--count", f"{head}..main") == "2"
    asyncio.run(until_count(kubeconfig, GARDEN, 3))
    management.write_text(management.read_text().replace("count: 2", "count: 3"))
    upgraded = machine.give("upgrade", "cluster", "-f", str(management), "--kubeconfig", str(kubeconfig), "--push")
    assert upgraded.code == 0, upgraded.err
    assert server.git("rev-list", "--count", f"{head}..main") == "3"
    asyncio.run(until_followed(kubeconfig, server.head()))
    removed(machine, server, given, kubeconfig)


def removed(machine: Machine, server: GitServer, given: Sequence[str], kubeconfig: Path) -> None:
    """A cluster that Flux applies is deleted by a commit as well; refused pushes delete nothing."""
    head, (_, garden, *connection_) = server.head(), given
    refused = machine.give("delete", "cluster", *given)
    assert (refused.code, "Give --push to have it committed" in " ".join(refused.err.split())) == (1, True), refused.err
    tried = machine.give("delete", "cluster", *given, "--push", "--dry-run=server")
    assert (tried.code, f"{BASE}/garden/eksa-system/eksa-cluster.yaml: removed" in tried.err) == (0, True), tried.err
    hook = server.folder / "hooks" / "update"
    server.hook("update", "exit 1")
    refused = machine.give("delete", "cluster", "garden", *connection_, "--push")
    assert (refused.code, "what protects the branch" in " ".join(refused.err.split())) == (1, True), refused.err
    hook.unlink()
    assert server.head() == head
    asyncio.run(until_count(kubeconfig, GARDEN, 3))
    deleted = machine.give("delete", "cluster", "-f", garden, *connection_, "--push")
    assert deleted.code == 0, deleted.err
    assert "cluster default/garden is gone" in deleted.err
    assert server.git("rev-list", "--count", f"{head}..main") == "1"
    assert "garden" not in server.git("ls-tree", "-r", "--name-only", "main")
    again = machine.give("delete", "cluster", "garden", *connection_, "--push")
    assert "cluster default/garden does not exist" in " ".join(again.err.split())


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[] if words == "installing Flux" else pytest.mark.soak, id=words)
        for words in ("pushing to", "installing Flux", "GitRepository flux-system", "Kustomization flux-system")
    ],
)
def test_kill_9_while_git_is_set_up_goes_on(machine: Machine, server: GitServer, words: str) -> None:
    server.git("config", "receive.denyNonFastForwards", "true")
    arguments = ["create", "cluster", "-f", str(manifest(server)), "--boot-seconds", "0.05"]
    environment = machine.environment | machine.variables()
    with subprocess.Popen(
        [*PROGRAM, *arguments], stderr=subprocess.PIPE, env=environment, cwd=machine.home, text=True
    ) as command:
        assert command.stderr is not None
        assert any(line.startswith(f"  {words}") for line in command.stderr)
        command.send_signal(signal.SIGKILL)
    assert command.returncode == -signal.SIGKILL
    made = machine.give(*arguments)
    assert made.code == 0, made.err
    assert server.git("rev-list", "--count", "main") == "1"
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    asyncio.run(until_followed(kubeconfig, server.head()))


async def until_count(kubeconfig: Path, key: Key, count: int) -> None:
    """Workers of the cluster, which is ready with them."""
    async with connection.connect(flags.Connection(kubeconfig)) as connected:
        spec = (await connected.client.get(Cluster.resource, key.name, key.namespace)).tree["spec"]
        assert spec["workerNodeGroupConfigurations"][0]["count"] == count
        await until_ready(connected.client, key)


async def until_followed(kubeconfig: Path, commit: str, name: str = "management") -> None:
    """Flux goes on, and has applied this commit."""
    async with connection.connect(flags.Connection(kubeconfig)) as connected:
        kustomization = await connected.client.get(KUSTOMIZATION, name, "flux-system")
        assert not kustomization.tree["spec"].get("suspend")
        assert kustomization.tree["status"]["lastAppliedRevision"] == f"main@sha1:{commit}"


async def workload_by_pushes(kubeconfig: Path, server: GitServer) -> None:
    async with connection.connect(flags.Connection(kubeconfig)) as connected:
        client = connected.client
        record = await client.get(Cluster.resource, "management", "default")
        assert record.tree["spec"]["gitOpsRef"] == {"kind": "FluxConfig", "name": "fleet"}
        assert record.metadata.labels[NAME_LABEL] == "management"
        await push(client, server, lambda files: cluster_files(BASE, workload("1.35"), files))
        await until_there(client, GARDEN)
        await until_ready(client, GARDEN)
        folder = server.folder.parent / "garden.kubeconfig"
        folder.write_bytes(await kubeconfig_of(client, GARDEN))
        async with connection.connect(flags.Connection(folder)) as inside:
            listed = await inside.client.list(DEPLOYMENT)
            assert not [item.name for item in listed.items if "flux" in item.namespace], (
                "L39: none in workload clusters"
            )
        await push(client, server, lambda files: cluster_files(BASE, workload("1.36"), files))
        await until_version(client, "1.36")
        await until_ready(client, GARDEN)
        async with connection.connect(flags.Connection(folder)) as inside:
            nodes = (await inside.client.list(NODE)).items
            assert {node.tree["status"]["nodeInfo"]["kubeletVersion"][:5] for node in nodes} == {"v1.36"}
        await push(client, server, lambda files: without_cluster(BASE, "garden", files))
        await until_gone(client, GARDEN)


async def push(client: Client, server: GitServer, change: Change) -> None:
    """Push, and ask Flux to look now instead of in a minute."""
    commit = Repository(Access(server.url), "main").publish(change, "change", ANNA).commit
    patch = {"metadata": {"annotations": {REQUESTED: commit}}}
    await client.patch(GIT_REPOSITORY, "flux-system", "flux-system", patch=patch, type=PatchType.MERGE)


async def until_there(client: Client, key: Key) -> None:
    async with asyncio.timeout(60):
        while key not in [item.key for item in (await client.list(Cluster.resource)).items]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def until_version(client: Client, version: str) -> None:
    async with asyncio.timeout(60):
        while True:
            cluster = await client.get(Cluster.resource, "garden", "default")
            if cluster.tree["spec"]["kubernetesVersion"] == version:
                return
            await asyncio.sleep(0.1)


def workload(version: str) -> list[dict[str, object]]:
    trees = yaml_trees.trees((EXAMPLES / "docker.yaml").read_bytes(), "docker.yaml")
    for tree in trees:
        if tree["kind"] == "Cluster":
            tree["spec"] |= {"kubernetesVersion": version, "managementCluster": {"name": "management"}}
    return trees


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"EKSA_GIT_PRIVATE_KEY": ""}, "found no private key: set EKSA_GIT_PRIVATE_KEY and"),
        ({"EKSA_GIT_KNOWN_HOSTS": ""}, "found no known hosts: set EKSA_GIT_PRIVATE_KEY and"),
        ({"EKSA_GIT_PRIVATE_KEY": "/nowhere/key"}, "EKSA_GIT_PRIVATE_KEY: /nowhere/key: No such file"),
        ({"EKSA_GIT_PRIVATE_KEY": "{folder}/locked"}, "found no private key without passphrase"),
        ({"EKSA_GIT_PRIVATE_KEY": "{folder}/known_hosts"}, "found no private key without passphrase"),
    ],
)
def test_missing_credentials_are_said_before_anything(
    machine: Machine, server: GitServer, environment: dict[str, str], words: str
) -> None:
    folder = machine.home.parent
    variables = {name: value.replace("{folder}", str(folder)) for name, value in environment.items()}
    refused = machine.create(manifest(server), variables)
    assert (refused.code, words in " ".join(refused.err.split())) == (1, True), refused.err
    assert not (machine.home / "management-clusters").exists()


def test_an_unfit_repository_is_said_before_anything(machine: Machine, server: GitServer) -> None:
    server.commit(f"{BASE}/management/eksa-system/eksa-cluster.yaml", "kind: Cluster")
    refused = machine.create(manifest(server))
    words = "the repository has another cluster management; remove its files"
    assert (refused.code, words in " ".join(refused.err.split())) == (1, True), refused.err
    assert not (machine.home / "management-clusters").exists()


def test_a_configuration_that_is_not_given_is_refused(machine: Machine, server: GitServer) -> None:
    path = manifest(server)
    path.write_text(path.read_text().replace("metadata: {name: fleet}", "metadata: {name: other}"))
    refused = machine.create(path)
    words = "spec.gitOpsRef: a management cluster brings its GitOps configuration; add the object to the manifest"
    assert words in " ".join(refused.err.split()), refused.err


OIDC = """---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: OIDCConfig
metadata: {name: staff}
spec: {clientId: kubernetes, issuerUrl: https://issuer.example.com}
"""


@pytest.mark.demand(L71="by an existing management cluster, with Flux's manifests from a file")
def test_a_management_cluster_makes_one_that_git_owns(machine: Machine, server: GitServer, tmp_path: Path) -> None:
    """It has no GitOps itself, and none afterwards; the new one follows the repository."""
    assert machine.create(EXAMPLES / "management.yaml").code == 0  # its process reaches the repository, too
    first = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    folder = component_folders.written(tmp_path / "components")
    of_flux = tmp_path / "flux.yaml"
    of_flux.write_text(yaml.safe_dump_all(components.simulated_flux(component_folders.RELEASE, "flux-system")))
    text = manifest(server).read_text().replace("name: management", "name: second") + OIDC
    text = text.replace("  gitOpsRef:", "  identityProviderRefs: [{kind: OIDCConfig, name: staff}]\n  gitOpsRef:")
    second = tmp_path / "second.yaml"
    second.write_text(text)
    by = ("--bootstrap-kubeconfig", str(first))
    words = ("create", "cluster", "-f", str(second), *by, "--components", str(folder))
    refused = machine.give(*words)
    assert "on your own infrastructure, Flux's manifests are needed" in " ".join(refused.err.split())
    before = asyncio.run(content_of(first))
    assert server.git("branch", "--list") == ""
    made = machine.give(*words, "--flux-manifests", str(of_flux))
    assert made.code == 0, made.err
    assert server.git("ls-tree", "-r", "--name-only", "main").split()[-1].startswith("clusters/second/")
    kubeconfig = machine.home / "second" / "second-eks-a-cluster.kubeconfig"
    asyncio.run(until_followed(kubeconfig, server.head(), "second"))
    assert asyncio.run(content_of(first)) == before
    deleted = machine.give("delete", "cluster", "second", *by)
    assert deleted.code == 0, deleted.err
    assert "branch main: remove clusters/second/second/eksa-system and the files" in " ".join(deleted.err.split())
    assert asyncio.run(content_of(first)) == before


async def content_of(kubeconfig: Path) -> set[str]:
    """The objects of a management cluster, whose record has no GitOps."""
    async with connection.connect(flags.Connection(kubeconfig)) as connected:
        (record,) = (await connected.client.list(Cluster.resource)).items
        assert "gitOpsRef" not in record.tree["spec"]
        side = await Side.of(connected.client)
        assert side is not None
        return {item.name for item in (await side.read()).items}
