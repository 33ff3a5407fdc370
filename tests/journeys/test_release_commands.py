"""`espalier releases`, folders of releases, and which release the command line gives to clusters."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import espalier.releases
from espalier.api.eksa.releases.release import EKSARelease
from espalier.cli.kit.connecting.home import Home
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.environment import LocalEnvironment, local_environment
from tests.support.environments.managing import unasked

pytestmark = pytest.mark.embedded

DATA = Path(espalier.releases.__file__).parent / "data"
EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
MANIFEST = """apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Release
metadata:
  name: eks-a-release
spec:
  latestVersion: VERSION
  releases:
  - {date: '2026-09-01T00:00:00Z', version: VERSION, number: 1, gitCommit: COMMIT, bundleManifestUrl: embed:///FILE}
"""


def mirror(folder: Path, version: str, *, commit: str = "c", bundles: str = "bundles-1.yaml") -> str:
    """A folder that offers one release."""
    shutil.copytree(DATA, folder, dirs_exist_ok=True)
    text = MANIFEST.replace("VERSION", version).replace("COMMIT", commit).replace("FILE", bundles)
    (folder / "releases.yaml").write_text(text)
    return str(folder)


@pytest.mark.demand("V25")
@pytest.mark.soak
def test_releases_of_a_folder_are_never_overwritten(env: LocalEnvironment, tmp_path: Path) -> None:
    first = mirror(tmp_path / "first", "v0.25.7", bundles="bundles-2.yaml")
    result = env.espalier("releases", "import", first)
    assert (result.code, result.out.splitlines()) == (
        0,
        [
            "release.distro.eks.amazonaws.com/kubernetes-1-34-eks-1 is there",
            "release.distro.eks.amazonaws.com/kubernetes-1-35-eks-1 is there",
            "bundles.anywhere.eks.amazonaws.com/bundles-2 is there",
            "eksarelease.anywhere.eks.amazonaws.com/eksa-v0-25-7 created",
        ],
    )
    assert env.espalier("releases", "import", first).out.count(" is there") == 4

    other = env.espalier("releases", "import", mirror(tmp_path / "other", "v0.25.7", commit="d"))
    assert other.code == 1
    assert "eksarelease.anywhere.eks.amazonaws.com/eksa-v0-25-7 differs, left as it is" in other.out
    assert "give the release another version" in other.err

    shown = env.espalier("releases", "show", "v0.25.7")
    assert "bundles-2" in shown.out
    assert "2026-12-02" in shown.out
    missing = env.espalier("releases", "show", "v0.99.0")
    assert (missing.code, "there is no release v0.99.0" in missing.err) == (1, True)


@pytest.mark.demand(V28="its own EKS Distro as well")
def test_own_release_is_imported_with_its_eks_distro(env: LocalEnvironment, tmp_path: Path) -> None:
    folder = Path(mirror(tmp_path / "own", "v0.26.0+own.1", bundles="bundles-9.yaml"))
    old, new = "kubernetes-1-36-eks-1", "kubernetes-1-36-eks-9"
    bundles = (folder / "bundles-1.yaml").read_text().replace("name: bundles-1\n", "name: bundles-9\n")
    (folder / "bundles-9.yaml").write_text(bundles.replace(old, new))
    distro = (folder / "eks-distro" / f"{old}.yaml").read_text().replace(old, new)
    (folder / "eks-distro" / f"{new}.yaml").write_text(distro.replace("v3.6.8-eks-1-36-1", "v3.6.9-own"))
    result = env.espalier("releases", "import", str(folder))
    assert result.code == 0, result
    assert f"release.distro.eks.amazonaws.com/{new} created" in result.out
    shown = env.espalier("releases", "show", "v0.26.0+own.1", "-o", "json")
    assert shown.code == 0, shown
    objects = json.loads(shown.out)["items"]
    assert [object_["kind"] for object_ in objects] == ["Release", "Release", "Release", "Bundles", "EKSARelease"]
    assert "etcd:v3.6.9-own" in json.dumps(objects)

    (folder / "eks-distro" / f"{new}.yaml").write_text(distro.replace("v3.6.8-eks-1-36-1", "v3.6.10-own"))
    again = env.espalier("releases", "import", str(folder))
    assert (again.code, f"release.distro.eks.amazonaws.com/{new} differs, left as it is" in again.out) == (1, True)


@pytest.mark.demand("V25")
def test_list_tells_the_installed_and_the_built_in(env: LocalEnvironment) -> None:
    rows = json.loads(env.espalier("releases", "list", "-o", "json").out)["releases"]
    by_version = {row["version"]: (row["offered"], row["installed"]) for row in rows}
    embedded = ("v0.26.0", "v0.25.1", "v0.25.0", "v0.24.2")
    assert {version: by_version[version] for version in embedded} == dict.fromkeys(embedded, (True, True))
    assert by_version.get("v0.25.7", (False, True)) == (False, True)
    assert "eksarelease.anywhere.eks.amazonaws.com/eksa-v0-24-2" in env.names("releases", "list")


@pytest.mark.demand("V26")
def test_without_cluster_releases_of_build_are_listed(tmp_path: Path) -> None:
    result = LocalEnvironment(tmp_path).espalier("releases", "list")
    assert result.code == 0
    assert " ".join(result.out.splitlines()[1].split()) == "v0.26.0 2026-08-14 1.34, 1.35, 1.36 bundles-1 yes unknown"
    assert "Not known which are installed" in result.err


@pytest.mark.demand("V15")
def test_manifest_of_another_release_is_refused(env: LocalEnvironment) -> None:
    result = env.apply(EXAMPLE.replace("spec:\n  cluster", "spec:\n  eksaVersion: v0.25.1\n  cluster", 1))
    assert result.code == 1
    assert "standard input:7: spec.eksaVersion: this espalier is of release v0.26.0" in result.err
    assert "use the espalier of v0.25.1" in result.err
    assert env.names("get", "clusters") == ["cluster.anywhere.eks.amazonaws.com/laptop"]


@pytest.mark.demand("V1")
def test_command_line_gives_clusters_its_own_release(env: LocalEnvironment) -> None:
    plot = EXAMPLE.replace("name: garden", "name: plot")
    release = ("get", "clusters", "plot", "-o", "jsonpath={.spec.eksaVersion}")
    assert env.apply(plot, "create", "--timeout", "300s").code == 0
    assert env.espalier(*release).out == "v0.26.0"
    assert env.apply(plot, "upgrade", "--timeout", "300s").code == 0
    assert env.espalier(*release).out == "v0.26.0"
    assert env.espalier("delete", "cluster", "plot").code == 0


@pytest.mark.demand("V25")
def test_creation_installs_missing_releases(env: LocalEnvironment) -> None:
    name = "eksa-v0-26-0"
    asyncio.run(deleted(env, name))
    assert f"eksarelease.anywhere.eks.amazonaws.com/{name}" not in installed(env)
    assert env.apply(EXAMPLE.replace("name: garden", "name: bed"), "create", "--no-wait").code == 0
    assert f"eksarelease.anywhere.eks.amazonaws.com/{name}" in installed(env)
    assert env.espalier("delete", "cluster", "bed").code == 0


@pytest.mark.demand(V25="so does an upgrade by the command line")
@pytest.mark.soak
def test_upgrading_a_cluster_brings_them_as_well(env: LocalEnvironment) -> None:
    name = "eksa-v0-26-0"
    bed = EXAMPLE.replace("name: garden", "name: bed")
    assert env.apply(bed, "create", "--timeout", "300s").code == 0
    asyncio.run(deleted(env, name))
    result = env.apply(bed.replace("count: 2", "count: 1"), "upgrade", "--timeout", "300s")
    assert result.code == 0, result.err
    assert f"eksarelease.anywhere.eks.amazonaws.com/{name}" in installed(env)
    assert env.espalier("delete", "cluster", "bed").code == 0


async def deleted(env: LocalEnvironment, name: str) -> None:
    access = Kubeconfig.load([Home(env.home).kubeconfig]).context()
    client = Client(HttpTransport(access, environment={}))
    async with unasked(client):  # the record of the management cluster uses it
        await client.delete(EKSARelease.resource, name)
    await client.close()


def installed(env: LocalEnvironment) -> list[str]:
    rows = json.loads(env.espalier("releases", "list", "-o", "json").out)["releases"]
    return [
        f"eksarelease.anywhere.eks.amazonaws.com/eksa-{row['version'].replace('.', '-')}"
        for row in rows
        if row["installed"]
    ]


@pytest.mark.soak
def test_environment_lives_on_releases_of_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    release = ("get", "clusters", "laptop", "-o", "jsonpath={.spec.eksaVersion}")
    with local_environment(home, "--releases", mirror(tmp_path / "old", "v0.25.1", bundles="bundles-2.yaml")) as env:
        assert env.espalier(*release).out == "v0.25.1"
        assert "v0.26.0" not in env.espalier("get", "clusters", "-o", "yaml").out
    with local_environment(home) as env:  # the releases of this build: the management cluster is upgraded to them
        assert env.espalier(*release).out == "v0.26.0"
    with local_environment(home, "--releases", mirror(tmp_path / "far", "v0.28.0")) as env:
        assert env.espalier(*release).out == "v0.26.0"  # two minors at once are not taken
        assert "upgrade to a release of v0.27 first" in (home / "world.log").read_text()


def test_unusable_folder_is_told_before_the_start(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path)
    result = env.espalier("up", "--releases", mirror(tmp_path / "bad", "next"))
    assert result.code == 1
    assert "Release eks-a-release: spec.releases[0].version" in result.err
    away = env.espalier("manager", "--releases", str(tmp_path / "nowhere"))
    assert (away.code, f"{tmp_path}/nowhere: no such folder" in away.err) == (1, True)
