"""Flags of `espalier create|upgrade|delete cluster` that contradict each other, or the manifest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from espalier.api.eksa.gitops import GitOpsConfig
from espalier.api.manifests.manifests import read_manifests
from espalier.api.resource import Key
from espalier.cli.clusters import lifecycle
from espalier.cli.clusters.manifests import documents
from espalier.cli.kit import flags
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.management import access, bootstraps, changing, commands, deleting, self_managed
from espalier.cli.management.bootstraps import LocalBootstrap, Nodes
from espalier.cli.management.components import git_ops
from espalier.cli.management.own_infrastructure import Given, bootstrap_of, check_flags
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.management import record as records
from tests.support.environments.managed_clusters import EXAMPLES

MANAGEMENT, WORKLOAD = str(EXAMPLES / "management.yaml"), str(EXAMPLES / "docker.yaml")


def call(command: Any, **given: object) -> None:
    """Call a command as the command line does, with the defaults of its flags."""
    unset = {option.name: False if getattr(option, "is_flag", False) else None for option in command.params}
    defaults = {"filename": (), "timeout": "1h", "wait": True, "dry_run": "none", "output_format": ""}
    defaults |= {
        "boot_seconds": 0.1,
        "all_kinds": False,
        "name": None,
        "nodes": "simulated",
        "node_addresses": "",
        "image": "",
    }
    wanted = {name: defaults.get(name, value) for name, value in unset.items() if name != "help"}
    asyncio.run(command.callback(**wanted | given))


@pytest.mark.parametrize(
    ("command", "given", "words"),
    [
        ("delete", {}, "name either one cluster or a manifest"),
        ("delete", {"name": "a", "filename": (WORKLOAD,)}, "name either one cluster or a manifest"),
        ("delete", {"name": "a", "all_kinds": True}, "--all-kinds deletes objects of a manifest"),
        ("delete", {"filename": (WORKLOAD,), "all_kinds": True, "wait": False}, "omit --no-wait"),
        ("create", {"filename": (WORKLOAD,), "flux_manifests": Path()}, "only management clusters get Flux"),
        ("create", {"filename": (MANAGEMENT,), "wait": False}, "--no-wait: the command itself makes each step"),
        ("create", {"filename": (MANAGEMENT,), "output_format": "yaml"}, "--output: objects of a management cluster"),
        ("create", {"filename": (MANAGEMENT,), "all_kinds": True}, "--all-kinds: apply the other objects"),
        ("create", {"filename": (WORKLOAD,), "nodes": "real"}, "--nodes: only management clusters"),
        (
            "create",
            {"filename": (MANAGEMENT,), "nodes": "real", "bootstrap_kubeconfig": Path("a")},
            "--nodes: with --b",
        ),
        ("create", {"filename": (MANAGEMENT,), "node_addresses": "10.9.0.0/24"}, "allowed with --nodes real alone"),
        ("create", {"filename": (MANAGEMENT,), "components": Path()}, "give its --bootstrap-kubeconfig FILE"),
        ("create", {"filename": (MANAGEMENT,), "image": "a"}, "--image: allowed with --components alone"),
        (
            "create",
            {"filename": (WORKLOAD,), "components": Path(), "bootstrap_kubeconfig": Path("a")},
            "--components: only management clusters get Cluster API",
        ),
        ("upgrade", {"filename": (WORKLOAD,), "components": Path()}, "only management clusters that a command created"),
        ("create", {"filename": (MANAGEMENT,), "push": True}, "a management cluster with spec.gitOpsRef is always"),
        ("create", {"filename": (WORKLOAD,), "push": True, "output_format": "yaml"}, "--output: with --push"),
        ("upgrade", {"filename": (WORKLOAD,), "push": True, "all_kinds": True}, "--all-kinds: --push commits"),
    ],
)
def test_a_flag_without_a_meaning_is_refused(command: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(Usage, match=words):
        call(getattr(commands, f"{command}_cluster"), **given)


def test_components_are_for_other_bootstraps_than_ours(tmp_path: Path) -> None:
    """The local environment has its own; any other management cluster needs them."""
    home, given = Home(tmp_path), Given(tmp_path)
    for name, port in (("local", 1), ("other", 2)):
        kubeconfig = Kubeconfig.of_cluster(
            name, server=f"https://127.0.0.1:{port}", certificate_authority=b"", user="u", credentials="t"
        )
        (tmp_path / name).write_bytes(kubeconfig.to_bytes())
    home.kubeconfig.write_bytes((tmp_path / "local").read_bytes())
    local, other = (bootstrap_of(tmp_path / name, home) for name in ("local", "other"))
    assert [check_flags(local, None), check_flags(other, given)] == [[], []]
    (reason,) = check_flags(local, given)
    assert reason.startswith("--components: allowed with --bootstrap-kubeconfig of a management cluster outside")
    (reason,) = check_flags(other, None)
    assert reason.startswith("--bootstrap-kubeconfig: found the API server https://127.0.0.1:2, allowed is")


@pytest.mark.parametrize("spec", ["spec: []", "spec: text", "spec:", ""])
def test_a_spec_that_is_none_is_no_management_cluster(spec: str) -> None:
    text = f"apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\n{spec}\n"
    result = documents.Examined([*read_manifests(text.encode(), source="a")], [], [])
    assert not self_managed.is_self_managed(result)


def test_a_folder_without_manifests_of_flux_is_said(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no YAML files in this folder"):
        git_ops._read(tmp_path)


def test_earlier_form_of_the_configuration_is_known() -> None:
    tree = {"kind": "GitOpsConfig", "metadata": {"name": "a"}, "spec": {"flux": {"github": {}}}}
    tree["spec"] = {"flux": {"github": {"owner": "o", "repository": "r", "fluxSystemNamespace": "flux"}}}
    prepared: Any = [(GitOpsConfig.resource, tree)]
    assert git_ops.namespace_of({"kind": "GitOpsConfig", "name": "a"}, prepared) == "flux"
    assert git_ops.namespace_of({"kind": "FluxConfig", "name": "a"}, prepared) == "flux-system"


def test_a_bootstrap_that_ended_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for what it would do."""
    monkeypatch.setattr(bootstraps, "_PATIENCE", 1.0)
    bootstrap = LocalBootstrap(Home(tmp_path), Nodes())
    with pytest.raises(Failure, match="the bootstrap has ended; see"):
        asyncio.run(bootstrap.connect())


def test_a_command_of_the_bootstrap_that_fails_is_said(tmp_path: Path) -> None:
    bootstrap = LocalBootstrap(Home(tmp_path), Nodes())
    with pytest.raises(Failure, match=r"the bootstrap in .*: .*--nonsense") as failed:
        asyncio.run(bootstrap._espalier("up", "--nonsense"))
    assert failed.value.exit == 2


@pytest.mark.parametrize("was_there", [False, True])
def test_bootstrap_that_can_not_start_leaves_nothing(tmp_path: Path, was_there: bool) -> None:
    """The folder of an earlier one stays."""
    home = Home(tmp_path / "oak")
    if was_there:
        home.root.mkdir()
    bootstrap = LocalBootstrap(home, Nodes(is_real=True, addresses="nonsense"))
    with pytest.raises(Failure, match="nonsense"):
        asyncio.run(bootstrap.start())
    assert home.root.exists() is was_there


def test_machines_of_a_cluster_are_started_as_they_are(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert self_managed.resumption(home) == f"ESPALIER_HOME={tmp_path} espalier up --detach"
    home.components.write_text("{}")
    assert self_managed.resumption(home) == f"ESPALIER_HOME={tmp_path} espalier up --detach --nodes real"
    assert LocalBootstrap(home, Nodes()).has_real_nodes


def reached_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(_key: Key, _flag: flags.Connection) -> None:
        return None

    monkeypatch.setattr(access, "of_management_cluster", nowhere)


def test_cluster_without_a_kubeconfig_is_not_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    reached_by_nobody(monkeypatch)
    with pytest.raises(Failure, match="management"):
        asyncio.run(changing.upgrade_components("management", flags.Connection(), timeout=1.0, dry_run=False))


def test_a_faulty_manifest_is_refused_before_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(_key: Key, _flag: flags.Connection) -> None:
        raise AssertionError("nothing is connected to")

    monkeypatch.setattr(access, "of_management_cluster", asked)
    text = Path(MANAGEMENT).read_text().replace('kubernetesVersion: "1.35"', 'kubernetesVersion: "1.99"')
    parsed = [*read_manifests(text.encode(), source="manifest")]
    with pytest.raises(Exception, match=r"1\.99"):
        asyncio.run(changing.upgrade(parsed, [], flags.Connection(), timeout=1.0, dry_run=False))


class Unused:
    """A bootstrap that is not in use."""

    async def is_in_use(self, _key: Key) -> bool:
        return False


def test_a_cluster_without_a_kubeconfig_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    reached_by_nobody(monkeypatch)
    key = Key("default", "management")
    checked = deleting._checked(
        Unused(),  # type: ignore[arg-type]
        key,
        flags.Connection(),
        Progress(),
        dry_run=False,
        by_git=False,
    )
    with pytest.raises(Failure, match="management"):
        asyncio.run(checked)


async def test_kubeconfig_goes_before_the_bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted removal of the bootstrap leaves nobody who could tell whose kubeconfig it is."""
    monkeypatch.chdir(tmp_path)
    key = Key("default", "management")
    made = Kubeconfig.of_cluster(
        "management", server="https://127.0.0.1:1", certificate_authority=b"", user="admin", credentials="token"
    )
    path = lifecycle.kubeconfig_path(key)
    path.parent.mkdir()
    path.write_bytes(made.to_bytes())

    class Ending(Unused):
        flag = stopped = ""

        async def start(self) -> None: ...

        async def connect(self) -> Client:
            return Client(HttpTransport(made.context()))

        async def delete(self, _key: Key) -> None:
            raise Failure("killed")

    async def content(*_arguments: object) -> bytes:
        return made.to_bytes()

    async def checked(*_arguments: object, **_flags: object) -> tuple[bytes, str, str]:
        return made.to_bytes(), "", ""

    async def begun(*_arguments: object) -> records.Record:
        return records.Record("delete", *key, "v0.26.0")

    async def done(*_arguments: object) -> None: ...

    monkeypatch.setattr(deleting, "_checked", checked)
    monkeypatch.setattr(deleting, "_begun", begun)
    monkeypatch.setattr(deleting, "run", done)
    monkeypatch.setattr(records, "read_kubeconfig", content)
    with pytest.raises(Failure, match="killed"):
        await deleting.delete(Ending(), key, flags.Connection(), timeout=60, dry_run=False)  # type: ignore[arg-type]
    assert not path.exists()
