"""The manifest to begin with is taken as it is, by our reader, admission and rendering."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from espalier.api.manifests.manifests import read_manifests
from espalier.cli.main import program
from espalier.providers.kinds import MANIFESTS

EXAMPLES = Path(__file__).parents[3] / "examples"


def output_of(*arguments: str, stdin: str = "") -> str:
    done = CliRunner().invoke(program, ["generate", *arguments], input=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


ETCD = [False, True]
OPTIONS = [(provider, etcd) for provider in MANIFESTS for etcd in ETCD if not (etcd and provider == "tinkerbell")]


@pytest.mark.parametrize(("provider", "etcd"), OPTIONS)
def test_generated_manifest_is_valid_and_renders(provider: str, etcd: bool) -> None:
    options = ["--external-etcd"] if etcd else []
    manifest = output_of("clusterconfig", "garden", "--provider", provider, "--management-cluster", "laptop", *options)
    documents = read_manifests(manifest.encode(), source="garden.yaml")
    assert documents[0].kind == "Cluster"
    assert documents[0].tree["spec"]["managementCluster"] == {"name": "laptop"}
    assert ("externalEtcdConfiguration" in documents[0].tree["spec"]) == etcd
    judged = CliRunner().invoke(program, ["validate", "-f", "-"], input=manifest)
    assert judged.exit_code == 0, judged.output
    objects = output_of("objects", "-f", "-", stdin=manifest)
    assert ("kind: EtcdadmCluster" in objects) == etcd
    assert "kind: KubeadmControlPlane" in objects


def test_bare_metal_has_no_external_etcd() -> None:
    arguments = ["clusterconfig", "garden", "-p", "tinkerbell", "--external-etcd"]
    done = CliRunner().invoke(program, ["generate", *arguments])
    assert done.exit_code != 0
    assert "bare metal has no external etcd" in str(done.exception)


@pytest.mark.parametrize("provider", MANIFESTS)
def test_the_first_lines_say_how_to_name_a_manager(provider: str) -> None:
    """Without `--management-cluster` the manifest is a management cluster's."""
    manifest = output_of("clusterconfig", "garden", "-p", provider)
    comment = " ".join(line for line in manifest.splitlines() if line.startswith("#"))
    assert "the manifest of a management cluster, which `espalier create cluster -f FILE` creates" in comment
    assert "set spec.managementCluster.name to the cluster that manages this one" in manifest
    judged = CliRunner().invoke(program, ["validate", "-f", "-"], input=manifest)
    assert judged.exit_code == 0, judged.output
    followed = manifest.replace("managementCluster:\n    name: garden", "managementCluster:\n    name: laptop")
    judged = CliRunner().invoke(program, ["validate", "-f", "-"], input=followed)
    assert judged.exit_code == 0, judged.output


@pytest.mark.parametrize("provider", MANIFESTS)
@pytest.mark.parametrize(("name", "manager"), [("yes", "no"), ("null", "on"), ("true", "off")])
def test_ambiguous_name_is_quoted(provider: str, name: str, manager: str) -> None:
    manifest = output_of("clusterconfig", name, "-p", provider, "--management-cluster", manager)
    cluster, *others = yaml.safe_load_all(manifest)
    assert cluster["metadata"] == {"name": name}
    assert cluster["spec"]["datacenterRef"]["name"] == name
    assert cluster["spec"]["managementCluster"] == {"name": manager}
    assert all(isinstance(other["metadata"]["name"], str) for other in others)


def test_cluster_alone_is_its_own_management_cluster() -> None:
    documents = read_manifests(output_of("clusterconfig", "garden", "-p", "docker").encode(), source="garden.yaml")
    cluster, datacenter = (document.tree for document in documents)
    assert cluster["spec"]["managementCluster"] == {"name": "garden"}
    assert cluster["spec"]["kubernetesVersion"] == "1.36"
    assert datacenter["metadata"] == {"name": "garden"}


def test_a_name_that_no_cluster_can_have_is_refused() -> None:
    for arguments, field in ((["Garden_1"], "metadata.name"), (["garden", "--management-cluster", "Foo_Bar"], "--man")):
        done = CliRunner().invoke(program, ["generate", "clusterconfig", *arguments, "-p", "docker"])
        assert done.exit_code != 0
        assert field in str(done.exception)
        assert "must be a DNS label that begins with a letter" in str(done.exception)


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_group_named_control_plane_has_own_templates(version: str, tmp_path: Path) -> None:
    """As from a manager: other content has the next name, the same content is one template."""
    documents = list(yaml.safe_load_all((EXAMPLES / "docker.yaml").read_text()))
    spec = next(document for document in documents if document["kind"] == "Cluster")["spec"]
    (group,) = copy.deepcopy(spec["workerNodeGroupConfigurations"])
    spec["workerNodeGroupConfigurations"] = [group | {"name": "control-plane", "kubernetesVersion": version}]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = CliRunner().invoke(program, ["generate", "objects", "-f", str(file)])
    assert result.exit_code == 0, result.output
    made = list(yaml.safe_load_all(result.stdout))
    names = Counter((item["kind"], item["metadata"]["name"]) for item in made)
    assert set(names.values()) == {1}
    machines = sorted(name for kind, name in names if kind == "DockerMachineTemplate")
    (deployment,) = (item for item in made if item["kind"] == "MachineDeployment")
    used = deployment["spec"]["template"]["spec"]["infrastructureRef"]["name"]
    assert used == machines[-1]
    assert len(machines) == (1 if version == spec["kubernetesVersion"] else 2)


def test_each_manifest_has_an_address_of_its_own() -> None:
    """Clusters of two of them can be in one environment. Docker has none: its load balancer has an address."""
    hosts = {
        provider: host_of(output_of("clusterconfig", "garden", "-p", provider))
        for provider in MANIFESTS
        if provider != "docker"
    }
    assert len(set(hosts.values())) == len(hosts) == len(MANIFESTS) - 1
    examples = {provider: host_of((EXAMPLES / f"{provider}.yaml").read_text()) for provider in hosts}
    assert examples == hosts


def host_of(text: str) -> str:
    (cluster,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "Cluster")
    host: str = cluster["spec"]["controlPlaneConfiguration"]["endpoint"]["host"]
    return host


@pytest.mark.parametrize("provider", ["vsphere", "nutanix", "cloudstack", "snow"])
def test_a_heading_says_which_command_writes_secrets(provider: str) -> None:
    heading = output_of("clusterconfig", "garden", "-p", provider).partition("apiVersion")[0]
    assert "`espalier create cluster` writes " in heading
    assert f"docs/{provider}.md" in heading


MIRROR = "\nspec:\n  registryMirrorConfiguration: {endpoint: harbor.example.com, authenticate: true}\n"
VSPHERE = [f"EKSA_VSPHERE_{part}" for part in ("USERNAME", "PASSWORD", "CP_USERNAME", "CP_PASSWORD")]


@pytest.mark.parametrize(
    ("example", "mirror", "variables"),
    [
        ("docker", "\nspec:\n", []),
        ("docker", MIRROR, ["REGISTRY_USERNAME", "REGISTRY_PASSWORD"]),
        ("cloudstack", "\nspec:\n", []),  # its objects name the Secret
        ("snow", "\nspec:\n", ["EKSA_AWS_CREDENTIALS_FILE", "EKSA_AWS_CA_BUNDLES_FILE"]),
        ("vsphere", "\nspec:\n", VSPHERE),
    ],
)
def test_placeholders_of_credentials_are_named(example: str, mirror: str, variables: list[str]) -> None:
    manifest = (EXAMPLES / f"{example}.yaml").read_text().replace("\nspec:\n", mirror, 1)
    done = CliRunner().invoke(program, ["generate", "objects", "-f", "-"], input=manifest)
    assert done.exit_code == 0, done.output
    warned = [line for line in done.stderr.splitlines() if "placeholders" in line]
    names = ", ".join(f"${variable}" for variable in variables)
    assert [line.split(": ")[1] for line in warned] == ([names] if names else [])
    assert "$REGISTRY" not in done.stdout
