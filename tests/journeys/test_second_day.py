"""Commands of the second day in the local environment, as operators type them."""

from __future__ import annotations

import asyncio
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.core import ROLE, ROLE_BINDING
from espalier.api.eksa.cluster import Cluster
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.flags import Connection
from tests.support.environments.environment import LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()


@pytest.fixture(scope="module")
def garden(env: LocalEnvironment) -> LocalEnvironment:
    """An environment with cluster `garden`."""
    made = env.apply(EXAMPLE)
    assert made.code == 0, made.err
    return env


def test_support_bundle_of_a_cluster_is_packed(garden: LocalEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    done = garden.espalier("generate", "support-bundle", "garden", "-o", str(file))
    assert done.code == 0, done.err
    with tarfile.open(file) as bundle:
        report = bundle.extractfile("bundle/report.json")
        assert report is not None
        assert json.load(report)["notRead"] == []
        machines = bundle.extractfile("bundle/objects/machines.cluster.x-k8s.io.json")
        assert machines is not None
        assert len(json.load(machines)) == 3
        everything = b"".join(
            (bundle.extractfile(member) or pytest.fail("no file")).read() for member in bundle.getmembers()
        )
    assert b"PRIVATE KEY" not in everything
    by_file = garden.espalier("generate", "support-bundle", "-f", "-", "-o", str(tmp_path / "f.tar.gz"), stdin=EXAMPLE)
    assert by_file.code == 0, by_file.err
    both = garden.espalier("generate", "support-bundle", "garden", "--all")
    assert (both.code, "NAME: found garden and --all; allowed is" in both.err) == (2, True)
    again = garden.espalier("generate", "support-bundle", "garden", "-o", str(file))
    assert (again.code, "which exists" in again.err) == (1, True)


def test_support_bundle_of_a_dead_api_server(garden: LocalEnvironment, tmp_path: Path) -> None:
    kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "bundle.tar.gz"
    text = (garden.home / "kubeconfig").read_text()
    server = next(line.split()[-1] for line in text.splitlines() if "server:" in line)
    kubeconfig.write_text(text.replace(server, "https://127.0.0.1:1"))
    done = garden.espalier("generate", "support-bundle", "--all", "-o", str(file), "--kubeconfig", str(kubeconfig))
    assert done.code == 1, done.err
    assert "could not be read: logs and messages" in " ".join(done.err.split())
    assert "with 0 objects and 0 logs" in " ".join(done.err.split())
    assert "reads failed, first version of the API server" in " ".join(done.err.split())
    assert file.exists()


def machines(garden: LocalEnvironment) -> dict[str, set[str]]:
    """Names of the machines of the control plane (empty) and of each group."""
    tree = json.loads(garden.espalier("describe", "cluster", "garden", "--all", "-o", "json").out)["tree"]
    named: dict[str, set[str]] = {}

    def visit(member: Any, owner: str) -> None:
        owner = member["name"] if member["kind"] in ("KubeadmControlPlane", "MachineDeployment") else owner
        if member["kind"] == "Machine":
            named.setdefault(owner, set()).add(member["name"])
        for child in member.get("children", ()):
            visit(child, owner)

    visit(tree, "")
    return named


def test_restart_replaces_all_machines_of_a_group(garden: LocalEnvironment) -> None:
    before = machines(garden)
    done = garden.espalier("rollout", "restart", "garden", "md-0", "--timeout", "300s")
    assert done.code == 0, done.err
    after = machines(garden)
    assert len(after["garden-md-0"]) == 2
    assert not after["garden-md-0"] & before["garden-md-0"]
    assert after["garden"] == before["garden"]
    undone = garden.espalier("rollout", "undo", "garden", "md-0")
    assert (undone.code, "there is nothing to undo" in undone.err) == (1, True)


def test_paused_group_is_left_alone_until_resumed(garden: LocalEnvironment) -> None:
    assert garden.espalier("rollout", "pause", "garden", "md-0").code == 0
    refused = garden.espalier("rollout", "restart", "garden", "md-0")
    assert (refused.code, "is paused" in refused.err) == (1, True)
    assert garden.espalier("rollout", "resume", "garden", "md-0").code == 0


def test_certificates_are_renewed_with_their_machines(garden: LocalEnvironment) -> None:
    before, old = machines(garden), garden.espalier("kubeconfig", "garden").out
    listed = garden.espalier("renew", "certificates", "garden", "--dry-run", "server")
    assert (listed.code, machines(garden)) == (0, before)
    (machine,) = before["garden"]
    assert f"Machine {machine}: API server, front proxy, etcd" in listed.out
    done = garden.espalier("renew", "certificates", "-f", "-", "--timeout", "300s", stdin=EXAMPLE)
    assert done.code == 0, done.err
    after = machines(garden)
    assert not after["garden"] & before["garden"]
    assert after["garden-md-0"] == before["garden-md-0"]
    assert garden.espalier("kubeconfig", "garden").out != old


def test_kubeconfig_is_merged_and_acts_as_a_user(garden: LocalEnvironment, tmp_path: Path) -> None:
    file, own = tmp_path / "config", str(garden.home / "kubeconfig")
    for _ in range(2):
        done = garden.espalier("kubeconfig", "garden", "--merge", "--kubeconfig", own, KUBECONFIG=str(file))
        assert (done.code, done.out) == (0, ""), done.err
    assert f"context garden-admin@garden is in {file}" in done.err
    assert file.stat().st_mode & 0o777 == 0o600
    acting = garden.espalier("kubeconfig", "garden", "--as", "jane", "--as-group", "dev").out
    user = yaml.safe_load(acting)["users"][0]["user"]
    assert (user["as"], user["as-groups"]) == ("jane", ["dev"])
    done = garden.espalier("kubeconfig", "garden", "--as", "jane", "--merge", "--kubeconfig", own, KUBECONFIG=str(file))
    assert done.code == 0, done.err
    merged = yaml.safe_load(file.read_text())
    acting_as = {entry["name"]: entry["user"].get("as") for entry in merged["users"]}
    assert acting_as == {"garden-admin@garden": None, "garden-admin-as-jane@garden": "jane"}
    assert merged["current-context"] == "garden-admin@garden"
    for flags, message in (
        (("--as", "jane", "--user", "joe"), "--as: found it beside --user"),
        (("--as", ""), "--as: found '', allowed is the name of a user"),
        (("--as", "jane", "--as-group", ""), "--as-group: found '', allowed is the name of a group"),
        (("--as-group", "dev"), "--as-group: found it without --as"),
    ):
        refused = garden.espalier("kubeconfig", "garden", *flags)
        assert (refused.code, refused.out, message in refused.err) == (2, "", True), refused.err


def test_fleet_is_on_one_screen(garden: LocalEnvironment) -> None:
    shown = garden.espalier("top")
    assert (shown.code, shown.out.splitlines()[0]) == (0, "2 clusters: 2 ready")
    (facts,) = (
        row for row in json.loads(garden.espalier("top", "-o", "json").out)["clusters"] if row["name"] == "garden"
    )
    assert facts["machines"] == {"wanted": 3, "ready": 3, "outdated": 0}


def test_what_may_not_be_listed_is_named(garden: LocalEnvironment, tmp_path: Path) -> None:
    """Rather than shown as if there was none of it."""
    reader = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader", "namespace": "default"}}
    rule = {"apiGroups": [Cluster.resource.group], "resources": [Cluster.resource.plural], "verbs": ["get", "list"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    jane = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}

    async def grant() -> None:
        async with connection.connect(Connection(garden.home / "kubeconfig")) as connected:
            await connected.client.create(ROLE, reader | {"kind": "Role", "rules": [rule]})
            binding = reader | {"kind": "RoleBinding", "roleRef": reference, "subjects": [jane]}
            await connected.client.create(ROLE_BINDING, binding)

    asyncio.run(grant())
    config = yaml.safe_load((garden.home / "kubeconfig").read_text())
    config["users"][0]["user"]["as"] = "jane"
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    shown = garden.espalier("top", "-n", "default", "--kubeconfig", str(own))
    assert (shown.code, "garden" in shown.out, "/3" in shown.out) == (0, True, False), shown.err
    assert "Note: machines are not shown: kubeadmcontrolplanes.controlplane.cluster.x-k8s.io is forbidden" in shown.err
    described = garden.espalier("describe", "cluster", "garden", "-n", "default", "--kubeconfig", str(own))
    assert described.code == 0, described.err
    assert {"Event", "KubeadmControlPlane", "DockerDatacenterConfig"} <= set(re.split(r"[,:\s]+", described.err)), (
        described.err
    )


def test_components_without_deployments_are_told(garden: LocalEnvironment) -> None:
    shown = garden.espalier("upgrade", "plan", "management-components")
    assert shown.code == 0, shown.err
    assert "the local environment has it in one process" in " ".join(shown.err.split())
    assert "Cluster API" in shown.out
    refused = garden.espalier("upgrade", "plan", "management-components", "--release", "v9")
    assert (refused.code, "--release: there is no release v9; this build has" in refused.err) == (1, True)
