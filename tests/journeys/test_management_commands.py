"""`espalier create cluster` of a management cluster, as it is called: on a machine on which nothing runs."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from espalier.api.capi.cluster import Cluster as CapiCluster
from espalier.api.core import NODE
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.manifests import read_manifests
from espalier.api.resource import Key
from espalier.cli.clusters.access.kubeconfig import read as kubeconfig_of
from espalier.cli.clusters.chosen_release import own_version
from espalier.cli.clusters.manifests import documents
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.management import changing, creating, deleting
from espalier.cli.management.bootstraps import Nodes
from espalier.kube.client import PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.management import record as records
from espalier.management.steps import Refused
from espalier.providers.registry import PROVIDERS
from tests.support.environments.bootstraps import applied, until_gone, until_ready
from tests.support.environments.environment import CommandResult, LocalEnvironment
from tests.support.environments.managed_clusters import EXAMPLES

pytestmark = pytest.mark.embedded

OWN = own_version()
MANIFEST = EXAMPLES / "management.yaml"
WORKLOAD = (EXAMPLES / "docker.yaml").read_text().replace("name: laptop", "name: management")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[LocalEnvironment]:
    """A machine; what runs there in the end is stopped."""
    home = tmp_path / "home"
    home.mkdir()
    machine = LocalEnvironment(home)
    yield machine
    for folder in home.glob("management-clusters/*"):
        machine.espalier("down", "--delete-data", ESPALIER_HOME=str(folder))


def folder_of(machine: LocalEnvironment) -> Path:
    return machine.home / "management-clusters" / "management"


def in_one_line(told: CommandResult) -> str:
    return " ".join(told.err.split())


@pytest.mark.demand("L54", L49="created", L50="to a bootstrap cluster")
def test_a_management_cluster_is_created_from_nothing(machine: LocalEnvironment) -> None:
    listed = machine.espalier("create", "cluster", "-f", str(MANIFEST), "--dry-run=server")
    assert (listed.code, listed.out.splitlines()[0]) == (0, "1. start the bootstrap")
    assert not folder_of(machine).exists()
    made = machine.espalier("create", "cluster", "-f", str(MANIFEST), COLUMNS="80")
    assert made.code == 0, made.err
    assert "cluster default/management manages itself" in made.err
    assert str(folder_of(machine)) in made.err
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    left = {path.name for path in folder_of(machine).iterdir()}
    assert left == {"bootstrap", "clusters", "world.lock", "world.log"}
    told = machine.espalier("create", "cluster", "-f", "-", stdin=WORKLOAD, KUBECONFIG=str(kubeconfig))
    assert told.code == 0, told.err
    again = machine.espalier("create", "cluster", "-f", str(MANIFEST))
    assert (again.code, "already exists, and manages itself" in in_one_line(again)) == (1, True)
    other = MANIFEST.read_text().replace("metadata:\n", "metadata:\n  namespace: prod\n")
    again = machine.espalier("create", "cluster", "-f", "-", stdin=other)
    message = "error: cluster default/management already exists, and manages itself: choose another name, for folder"
    assert (again.code, message in in_one_line(again)) == (1, True), again.err


@pytest.mark.demand("L70")
def test_scenario_1_with_one_management_cluster(machine: LocalEnvironment, tmp_path: Path) -> None:
    """L70: create management; create, upgrade and delete a workload cluster; delete management."""
    made = machine.espalier("create", "cluster", "-f", str(MANIFEST))
    assert made.code == 0, made.err
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    asyncio.run(workload_by_the_api(kubeconfig, tmp_path))
    deleted = machine.espalier("delete", "cluster", "management")
    assert deleted.code == 0, deleted.err
    assert "cluster default/management is gone" in deleted.err
    for told in (made, deleted):
        steps = [line for line in told.err.splitlines() if line.endswith(" s)")]
        assert len(steps) > 3
        assert [line for line in steps if not re.search(r" \(after \d+ s\)$", line)] == []
    assert not folder_of(machine).exists()
    assert not kubeconfig.exists()


def test_one_of_another_namespace_is_deleted(machine: LocalEnvironment) -> None:
    """By its name alone: the kubeconfig in this folder says which it is."""
    text = MANIFEST.read_text().replace("metadata:\n", "metadata:\n  namespace: team\n")
    made = machine.espalier("create", "cluster", "-f", "-", stdin=text)
    assert made.code == 0, made.err
    deleted = machine.espalier("delete", "cluster", "management", COLUMNS="80")
    assert deleted.code == 0, deleted.err
    assert "cluster team/management is gone" in deleted.err
    assert not folder_of(machine).exists()


def test_one_of_a_chosen_context_is_deleted(machine: LocalEnvironment, tmp_path: Path) -> None:
    """Of several files, whose first and whose current context are of another cluster."""
    assert machine.espalier("create", "cluster", "-f", str(MANIFEST)).code == 0
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    context, other = Kubeconfig.load([kubeconfig]).current_context, tmp_path / "other"
    Kubeconfig.of_cluster(
        "other", server="https://127.0.0.1:1", certificate_authority=b"", user="u", credentials="t"
    ).merge_into(other)
    words = ("delete", "cluster", "management", "--context", context, "--timeout", "300s")
    deleted = machine.espalier(*words, KUBECONFIG=f"{other}:{kubeconfig}")
    assert deleted.code == 0, deleted.err
    assert (folder_of(machine).exists(), kubeconfig.exists()) == (False, False)


def test_a_kubeconfig_with_a_plugin_deletes_nothing(machine: LocalEnvironment, tmp_path: Path) -> None:
    """The bootstrap needs a copy of it: said before a bootstrap is started."""
    assert machine.espalier("create", "cluster", "-f", str(MANIFEST)).code == 0
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    tree = yaml.safe_load(kubeconfig.read_text())
    fields = tree["users"][0]["user"]
    (tmp_path / "key.pem").write_bytes(base64.b64decode(fields.pop("client-key-data")))
    (tmp_path / "cert.pem").write_bytes(base64.b64decode(fields.pop("client-certificate-data")))
    status = {
        "clientKeyData": (tmp_path / "key.pem").read_text(),
        "clientCertificateData": (tmp_path / "cert.pem").read_text(),
    }
    version = "client.authentication.k8s.io/v1"
    (tmp_path / "credential").write_text(
        json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    )
    fields["exec"] = {
        "apiVersion": version,
        "command": "cat",
        "args": [str(tmp_path / "credential")],
        "interactiveMode": "Never",
    }
    given = tmp_path / "given"
    given.write_text(yaml.safe_dump(tree))
    refused = machine.espalier("delete", "cluster", "management", "--kubeconfig", str(given))
    assert (refused.code, "exec.command names a file of this machine" in in_one_line(refused)) == (1, True), refused.err
    assert not Home(folder_of(machine)).has_bootstrap()


async def workload_by_the_api(kubeconfig: Path, folder: Path) -> None:
    """A workload cluster is applied, changed and deleted as kubectl does it."""
    async with connection.connect(flags.Connection(kubeconfig)) as connected:
        client = connected.client
        trees = [manifest.tree for manifest in read_manifests(WORKLOAD.encode(), source="workload.yaml")]
        for tree in trees:
            tree["metadata"]["namespace"] = "default"
        await applied(client, sorted(trees, key=lambda tree: bool(tree["kind"] == "Cluster")))
        upgraded = {"spec": {"kubernetesVersion": "1.36"}}
        await client.patch(Cluster.resource, "garden", "default", patch=upgraded, type=PatchType.MERGE)
        await until_ready(client, Key("default", "garden"))
        content = await kubeconfig_of(client, Key("default", "garden"))
        (folder / "garden.kubeconfig").write_bytes(content)
        async with connection.connect(flags.Connection(folder / "garden.kubeconfig")) as workload:
            nodes = (await workload.client.list(NODE)).items
            assert {node.tree["status"]["nodeInfo"]["kubeletVersion"][:5] for node in nodes} == {"v1.36"}
        await client.delete(Cluster.resource, "garden", "default")
        await until_gone(client, Key("default", "garden"))
        (left,) = (await client.list(CapiCluster.resource)).items
        assert left.name == "management"


@pytest.mark.demand("L48", L49="upgraded")
def test_a_command_upgrades_a_management_cluster(machine: LocalEnvironment, tmp_path: Path) -> None:
    assert machine.espalier("create", "cluster", "-f", str(MANIFEST)).code == 0
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    shown = ("get", "clusters", "management", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].message}")
    text = MANIFEST.read_text().replace("count: 2", "count: 1")
    listed = machine.espalier("upgrade", "cluster", "-f", "-", "--dry-run=server", stdin=text)
    assert (listed.code, "3. upgrade cluster default/management" in listed.out) == (0, True), listed.err
    result = machine.espalier("upgrade", "cluster", "-f", "-", "--keep-release", stdin=text)
    assert (result.code, "gets the release of this espalier" in in_one_line(result)) == (2, True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lost = machine.espalier("upgrade", "cluster", "-f", "-", stdin=text, folder=elsewhere)
    assert (lost.code, in_one_line(lost)) == (
        1,
        "error: no kubeconfig of cluster default/management here: neither "
        "management/management-eks-a-cluster.kubeconfig nor the kubeconfig in use is its own; give it with "
        "--kubeconfig",
    )
    fixed = text.replace("192.168.0.0/16", "172.16.0.0/16")
    refused = machine.espalier("upgrade", "cluster", "-f", "-", stdin=fixed)
    assert (refused.code, "spec.clusterNetwork.pods" in in_one_line(refused)) == (1, True), refused.err
    made = machine.espalier("upgrade", "cluster", "-f", "-", stdin=text, COLUMNS="80")
    assert made.code == 0, made.err
    assert machine.espalier(*shown, KUBECONFIG=str(kubeconfig)).out.startswith("2 nodes are ready")
    parts = machine.espalier("upgrade", "management-components", "management")
    assert (parts.code, "eksa-system/espalier-controller-manager: " in parts.out) == (0, True), parts.err


def test_one_with_clusters_is_not_deleted(machine: LocalEnvironment) -> None:
    assert machine.espalier("create", "cluster", "-f", str(MANIFEST)).code == 0
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    told = machine.espalier("create", "cluster", "-f", "-", stdin=WORKLOAD, KUBECONFIG=str(kubeconfig))
    assert told.code == 0, told.err
    for words in (["management"], ["-f", str(MANIFEST)]):
        refused = machine.espalier("delete", "cluster", *words)
        assert (refused.code, "it manages default/garden; delete them first" in in_one_line(refused)) == (1, True)
    listed = machine.espalier("delete", "cluster", "garden", "--dry-run=server", KUBECONFIG=str(kubeconfig))
    assert (listed.code, "would be deleted" in listed.err) == (0, True)
    assert machine.espalier("delete", "cluster", "garden", KUBECONFIG=str(kubeconfig)).code == 0
    listed = machine.espalier("delete", "cluster", "management", "--dry-run=server")
    assert (listed.code, "2. move cluster default/management to the bootstrap" in listed.out) == (0, True)
    assert "not checked" not in listed.err


def test_a_dry_run_starts_no_machines(machine: LocalEnvironment) -> None:
    assert machine.espalier("create", "cluster", "-f", str(MANIFEST)).code == 0
    home = Home(folder_of(machine))
    assert machine.espalier("down", ESPALIER_HOME=str(home.root)).code == 0
    for wanted in (False, True):  # created, and in the middle of a deletion
        home.want_bootstrap(wanted=wanted)
        listed = machine.espalier("delete", "cluster", "management", "--dry-run=server")
        assert (listed.code, "2. move cluster default/management to the bootstrap" in listed.out) == (0, True)
        message = f"not checked: the clusters that it manages, for its machines do not run; `ESPALIER_HOME={home.root}"
        assert message in in_one_line(listed)
    home.want_bootstrap(wanted=False)
    again = machine.espalier("create", "cluster", "-f", str(MANIFEST), "--dry-run=server")
    assert (again.code, "already exists, and manages itself" in in_one_line(again)) == (1, True)
    upgraded = machine.espalier("upgrade", "cluster", "-f", str(MANIFEST))
    assert (upgraded.code, "its simulated machines do not run; `ESPALIER_HOME=" in in_one_line(upgraded)) == (1, True)
    assert not home.is_running()


@pytest.mark.parametrize("case", ["kubeconfig", "name", "release", "folder"])
def test_bad_input_is_refused_before_anything_starts(machine: LocalEnvironment, case: str) -> None:
    text, message = MANIFEST.read_text(), ""
    if case == "kubeconfig":
        (machine.home / "management").mkdir()
        (machine.home / "management" / "management-eks-a-cluster.kubeconfig").write_text("other")
        message = "management-eks-a-cluster.kubeconfig already exists, and would be overwritten"
    elif case == "name":
        text, message = (
            text.replace("name: management", "name: bootstrap"),
            "is the name of the bootstrap; choose another",
        )
    elif case == "release":
        text = text.replace("spec:\n  cluster", "spec:\n  eksaVersion: v0.25.0\n  cluster", 1)
        message = "this espalier is of release"
    else:
        (machine.home / "management-clusters").write_text("a file, where a folder is needed")
        message = "management-clusters"
    told = machine.espalier("create", "cluster", "-f", "-", stdin=text)
    assert (told.code in (1, 2), message in in_one_line(told)) == (True, True), told.err
    assert told.err.count("error: ") == 1, told.err
    assert not folder_of(machine).exists()


def test_an_existing_environment_can_be_the_bootstrap(machine: LocalEnvironment) -> None:
    local = ("--bootstrap-kubeconfig", str(machine.home / "kubeconfig"))
    machine.up("--boot-seconds", "0.05")
    try:
        made = machine.espalier("create", "cluster", "-f", str(MANIFEST), *local)
        assert made.code == 0, made.err
        kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
        machine.down()
        machine.up()
        assert machine.names("get", "clusters", "-A") == ["cluster.anywhere.eks.amazonaws.com/laptop"]
        own = machine.espalier("get", "clusters", "-A", "-o", "name", KUBECONFIG=str(kubeconfig))
        assert own.out.split() == ["cluster.anywhere.eks.amazonaws.com/management"]
        other = machine.espalier("create", "cluster", "-f", str(MANIFEST), "--bootstrap-kubeconfig", str(kubeconfig))
        assert (other.code, "allowed is the API server of the local environment" in in_one_line(other)) == (1, True)
        deleted = machine.espalier("delete", "cluster", "management", *local)
        assert deleted.code == 0, deleted.err
        assert [path.name for path in machine.home.glob("clusters/*")] == ["identity"]
    finally:
        machine.down()


def test_no_cluster_of_the_bootstrap_is_taken_over(machine: LocalEnvironment) -> None:
    """Neither its record nor a workload cluster, which would be overwritten and moved away."""
    local = ("--bootstrap-kubeconfig", str(machine.home / "kubeconfig"))
    machine.up("--boot-seconds", "0.05")
    try:
        workload = (EXAMPLES / "docker.yaml").read_text()
        assert machine.espalier("create", "cluster", "-f", "-", "--no-wait", stdin=workload).code == 0
        shown = ("get", "clusters", "-A", "-o", "jsonpath={.items[*].metadata.uid} {.items[*].metadata.generation}")
        before = machine.espalier(*shown).out
        assert len(before.split()) == 4
        for name in ("garden", "laptop"):
            text = MANIFEST.read_text().replace("name: management", f"name: {name}")
            for more in ((), ("--dry-run=server",)):
                told = machine.espalier("create", "cluster", "-f", "-", *local, *more, stdin=text)
                message = f"cluster default/{name} already exists in that environment, and would be overwritten"
                assert (told.code, message in in_one_line(told)) == (1, True), told.err
        assert machine.espalier(*shown).out == before
    finally:
        machine.down()


def test_a_bootstrap_in_use_deletes_no_other(machine: LocalEnvironment) -> None:
    """Said before the kubeconfig of the named cluster is asked for, also by a dry run."""
    local = ("--bootstrap-kubeconfig", str(machine.home / "kubeconfig"))
    record = records.Record("create", "team", "other", OWN)

    async def written() -> records.Record | None:
        async with connection.connect(flags.Connection(machine.home / "kubeconfig")) as connected:
            if await records.read(connected.client, record.key) is None:
                await records.write(connected.client, record)
            return await records.read(connected.client, record.key)

    machine.up("--boot-seconds", "0.05")
    try:
        asyncio.run(written())
        for more in ((), ("--dry-run=server",)):
            told = machine.espalier("delete", "cluster", "management", *local, *more)
            message = "it creates cluster team/other, and not default/management: delete that one first"
            assert (told.code, message in in_one_line(told)) == (1, True), told.err
        assert asyncio.run(written()) == record
    finally:
        machine.down()


def test_all_that_is_wrong_is_said_at_once(
    machine: LocalEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The manifest, the disk, and the file that would be overwritten."""
    manifest = tmp_path / "management.yaml"
    manifest.write_text(MANIFEST.read_text().replace("count: 1", "count: 2"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=5 << 20))
    monkeypatch.setenv("ESPALIER_HOME", str(machine.home))
    monkeypatch.chdir(machine.home)
    (machine.home / "management").mkdir()
    (machine.home / "management" / "management-eks-a-cluster.kubeconfig").write_text("other")
    examined = documents.examined([str(manifest)])
    with pytest.raises(Failure) as refused:
        asyncio.run(
            creating.create(
                examined.documents,
                examined.problems,
                flags.Connection(),
                timeout=10,
                dry_run=False,
                nodes=Nodes(0.05),
                providers=PROVIDERS,
            )
        )
    message = str(refused.value)
    assert "spec.controlPlaneConfiguration.count" in message
    assert "found 5 MiB of free space, a bootstrap needs 200 MiB" in message
    assert "would be overwritten by the kubeconfig of cluster default/management" in message
    assert not folder_of(machine).exists()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            records.Record("create", "default", "management", "v0.25.1"),
            "was started by the espalier of release v0",
        ),
        (
            records.Record("create", "default", "other", OWN),
            "it creates cluster default/other: go on with `espalier create cluster -f FILE --flag`, with the",
        ),
        (
            records.Record("delete", "team", "other", OWN),
            "it deletes cluster team/other: go on with `espalier delete cluster other -n team --flag`, then create",
        ),
        (
            records.Record("delete", "team", "other", "v0.25.1"),
            "with that one, or delete what it made with `espalier delete cluster other -n team --flag`",
        ),
        (
            records.Record("delete", "default", "management", OWN),
            "it deletes cluster default/management: go on with `espalier delete cluster management --flag`",
        ),
    ],
    ids=["release", "cluster", "other-deletion", "other-release", "operation"],
)
def test_a_bootstrap_of_another_operation_is_refused(record: records.Record, message: str) -> None:
    with pytest.raises(Refused, match=message):
        creating.record_of(record, Key("default", "management"), OWN, "{}", " --flag")


@pytest.mark.parametrize("operation", ["create", "delete"])
def test_no_other_cluster_is_deleted_than_named(operation: str) -> None:
    record = records.Record(operation, "team", "other", OWN)
    for key in (Key("default", "management"), Key("default", "other")):
        with pytest.raises(Refused, match=f"cluster team/other, and not {key}: .* cluster other -n team --flag`"):
            deleting.record_of(record, key, OWN, " --flag")
    with pytest.raises(Refused, match="cluster team/other, and not default/management"):
        deleting.record_of(record, Key("default", "management"), OWN)
    asked = records.Record("delete", "team", "other", OWN)
    assert deleting.record_of(record, Key("team", "other"), OWN, " --flag") == asked
    assert deleting.record_of(record, Key("default", "other"), OWN) == asked, "the bootstrap is for this name alone"


def workers(count: int) -> str:
    tree = {"kind": "Cluster", "metadata": {"name": "management"}, "spec": {"groups": [{"count": count}]}}
    return records.manifest_of([tree])


def test_a_manifest_may_change_until_it_is_made() -> None:
    record = records.Record("create", "default", "management", OWN, manifest=workers(2))
    assert creating.record_of(record, record.key, OWN, workers(3)).manifest == workers(3)
    made = msgspec.structs.replace(record, step="create")
    assert creating.record_of(made, record.key, OWN, workers(2)) == made
    message = r"Cluster management: spec.groups\[0\].count: found 3, begun with 2; go on with the manifest"
    with pytest.raises(Refused, match=message):
        creating.record_of(made, record.key, OWN, workers(3))


def test_a_record_of_an_earlier_build_goes_on() -> None:
    """It does not say what it was begun with; nor does an edited one."""
    for manifest in ("", "{", "[]"):
        made = records.Record("create", "default", "management", OWN, "create", manifest)
        assert creating.record_of(made, made.key, OWN, workers(3)) == made


def test_an_upgrade_to_another_manifest_begins_again() -> None:
    begun = records.Record("upgrade", "default", "management", OWN, "change", workers(2))
    begins = [msgspec.structs.replace(begun, step="", manifest=workers(count)) for count in (2, 3)]
    assert changing.record_of(begun, begins[0]) == begun
    assert changing.record_of(begun, begins[1]) == begins[1]
    assert changing.record_of(None, begins[0]) == begins[0]
