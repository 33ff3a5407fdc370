"""EKS Anywhere v0.26.1 as a folder of releases: its manifest, and Bundles with every field of its API.

Both are as its release program writes them: Go's text of a time as date, an empty status, Bundles without a namespace.

CloudStack left with v0.26.0: entries have `cloudStack` with placeholders instead of references.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import espalier.releases
from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.manifests.schema import violations
from espalier.clusters.observe.rules import releases as rules
from espalier.clusters.observe.rules.warnings import support
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases, images, invalid_images

DATA = Path(espalier.releases.__file__).parent / "data"
VERSION, BUNDLES = "v0.26.1", 124
FIELDS = """
aws
  clusterTemplate: Manifest
  components: Manifest
  controller: Image
  kubeProxy: Image
  metadata: Manifest
  version: str
bootstrap: ProviderBundle
bottlerocketBootstrapContainers.multiNetworkBootstrap: Image
bottlerocketHostContainers
  admin: Image
  control: Image
  kubeadmBootstrap: Image
certManager
  acmesolver: Image
  cainjector: Image
  controller: Image
  ctl: Image
  manifest: Manifest
  startupapicheck: Image
  version: str
  webhook: Image
cilium
  cilium: Image
  helmChart: Image
  manifest: Manifest
  operator: Image
  version: str
cloudStack
  clusterAPIController: Image
  components: Manifest
  kubeRbacProxy: Image
  kubeVip: Image
  metadata: Manifest
  version: str
clusterAPI: ProviderBundle
controlPlane: ProviderBundle
docker
  clusterTemplate: Manifest
  components: Manifest
  kubeProxy: Image
  manager: Image
  metadata: Manifest
  version: str
eksD
  ami: OsArchives
  channel: str
  components: str
  containerd: Archive
  crictl: Archive
  etcdadm: Archive
  gitCommit: str
  imagebuilder: Archive
  kindNode: Image
  kubeVersion: str
  manifestUrl: str
  name: str
  ova: OsArchives
  raw: OsArchives
eksa
  cliTools: Image
  clusterController: Image
  components: Manifest
  diagnosticCollector: Image
  version: str
endOfStandardSupport: str
etcdadmBootstrap: ProviderBundle
etcdadmController: ProviderBundle
flux
  helmController: Image
  kustomizeController: Image
  notificationController: Image
  sourceController: Image
  version: str
haproxy.image: Image
kindnetd
  manifest: Manifest
  version: str
kubeVersion: str
nutanix
  cloudProvider: Image
  clusterAPIController: Image
  clusterTemplate: Manifest
  components: Manifest
  kubeVip: Image
  metadata: Manifest
  version: str
packageController
  credentialProviderPackage: Image
  helmChart: Image
  packageController: Image
  tokenRefresher: Image
  version: str
snow
  bottlerocketBootstrapSnow: Image
  components: Manifest
  kubeVip: Image
  manager: Image
  metadata: Manifest
  version: str
tinkerbell
  clusterAPIController: Image
  clusterTemplate: Manifest
  components: Manifest
  envoy: Image
  kubeVip: Image
  metadata: Manifest
  tinkerbellStack
    actions
      cexec: Image
      imageToDisk: Image
      kexec: Image
      ociToDisk: Image
      reboot: Image
      writeFile: Image
    boots: Image
    hegel: Image
    hook
      bootkit: Image
      docker: Image
      initramfs: HookArchives
      iso: HookArchives
      kernel: Image
      vmlinuz: HookArchives
    rufio: Image
    stack: Image
    tink
      nginx: Image
      tinkController: Image
      tinkRelay: Image
      tinkRelayInit: Image
      tinkServer: Image
      tinkWorker: Image
    tinkerbellChart: Image
    tinkerbellCrds: Image
  version: str
upgrader.upgrader: Image
vSphere
  clusterAPIController: Image
  clusterTemplate: Manifest
  components: Manifest
  driver: Image
  kubeProxy: Image
  kubeVip: Image
  manager: Image
  metadata: Manifest
  syncer: Image
  version: str
"""
"""The fields of an entry in the Bundles of v0.26.1, with their types; of two levels in one line where one is alone."""
NOW = datetime(2026, 8, 20, tzinfo=UTC)


_IMAGE = {"name": "a", "uri": "example.org/a:v1", "imageDigest": "sha256:" + 64 * "0", "os": "linux", "arch": ["amd64"]}
_IMAGE |= {"osName": "ubuntu", "description": "an image"}
_ARCHIVE = {name: value for name, value in _IMAGE.items() if name != "imageDigest"} | {"sha256": "00", "sha512": "00"}
_MANIFEST = {"uri": "https://example.org/a.yaml"}
_HOOK = {"amd": _ARCHIVE, "arm": _ARCHIVE}
_OS = {"bottlerocket": _ARCHIVE}
_PROVIDER = {"version": "v1", "controller": _IMAGE, "kubeProxy": _IMAGE, "components": _MANIFEST, "metadata": _MANIFEST}
VALUES: dict[str, Any] = {
    "str": "v1",
    "Archive": _ARCHIVE,
    "HookArchives": _HOOK,
    "Image": _IMAGE,
    "Manifest": _MANIFEST,
    "OsArchives": _OS,
    "ProviderBundle": _PROVIDER,
}


PLACEHOLDER = {"uri": "<placeholder>"}
DEPRECATED = {
    "version": "deprecated",
    "components": PLACEHOLDER,
    "metadata": PLACEHOLDER,
    **{image: {"name": image, **PLACEHOLDER} for image in ("clusterAPIController", "kubeRbacProxy", "kubeVip")},
}


def of_fields(lines: list[str]) -> dict[str, Any]:
    """An entry with all fields of a list, which is indented by two spaces a level."""
    tree: dict[str, Any] = {}
    levels = [tree]
    for line in lines:
        path, _, type_ = line.strip().partition(": ")
        levels = levels[: (len(line) - len(line.lstrip())) // 2 + 1]
        *above, name = path.split(".")
        place = levels[-1]
        for part in above:
            place = place.setdefault(part, {})
        place[name] = VALUES[type_] if type_ else {}
        levels.append(place[name])
    return tree


def complete(entry: dict[str, Any], fields: dict[str, Any]) -> None:
    """Add the fields that an entry lacks."""
    for name, value in fields.items():
        if isinstance(value, dict) and isinstance(entry.get(name), dict):
            complete(entry[name], value)
        else:
            entry.setdefault(name, value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("releases") / "data"
    shutil.copytree(DATA, target)
    bundles = yaml.safe_load((target / "bundles-1.yaml").read_text())
    bundles["metadata"] = {"name": f"bundles-{BUNDLES}", "creationTimestamp": "2026-08-13T21:10:03Z"}
    bundles["status"] = {}
    bundles["spec"] |= {"number": BUNDLES, "cliMinVersion": VERSION, "cliMaxVersion": VERSION}
    for entry in bundles["spec"]["versionsBundles"]:
        entry.setdefault("endOfStandardSupport", "")  # a date, not any text
        complete(entry, of_fields(FIELDS.strip("\n").split("\n")))
        entry["cloudStack"] = DEPRECATED
    bundles["spec"]["versionsBundles"][0]["endOfStandardSupport"] = "2026-08-31"
    (target / f"bundles-{BUNDLES}.yaml").write_text(yaml.safe_dump(bundles))
    manifest = yaml.safe_load((target / "releases.yaml").read_text())
    release = {
        "date": "2026-08-13 23:33:21.123456789 +0000 UTC",
        "version": VERSION,
        "number": BUNDLES,
        "gitCommit": "af33358",
        "gitTag": VERSION,
        "bundleManifestUrl": f"embed:///bundles-{BUNDLES}.yaml",
        "eksABinary": {"linux": _ARCHIVE, "darwin": _ARCHIVE},
        "eksACLI": {name: {"amd64": _ARCHIVE, "arm64": _ARCHIVE} for name in ("linux", "darwin")},
    }
    manifest["spec"]["releases"].insert(0, release)
    manifest["spec"]["latestVersion"] = VERSION
    manifest["metadata"] = {"name": "eks-anywhere", "creationTimestamp": "2026-08-13T23:33:21Z"}
    manifest["status"] = {}
    (target / "releases.yaml").write_text(yaml.safe_dump(manifest))
    return target


@pytest.fixture(scope="module")
def releases(folder: Path) -> Releases:
    return Releases.load(folder)


def spec(kind: str, kubernetes: str = "1.36") -> ClusterSpec:
    reference = {"kind": kind, "name": "garden"}
    return msgspec.convert(
        {"kubernetesVersion": kubernetes, "eksaVersion": VERSION, "datacenterRef": reference}, ClusterSpec
    )


def test_the_newest_release_of_the_manifest_is_taken(releases: Releases) -> None:
    assert str(releases.newest().version) == VERSION
    assert releases.newest().bundles.spec.number == BUNDLES
    assert "v0.26.0" in map(str, releases.versions)


def test_objects_of_a_published_release_can_be_created(releases: Releases) -> None:
    """An API server takes a date as RFC 3339 has it, and Bundles lie where releases refer to them."""
    release = releases.newest()
    assert release.eksa_release.spec.date == "2026-08-13T23:33:21Z"
    assert release.eksa_release.spec.bundles_ref.namespace == SYSTEM_NAMESPACE
    assert release.bundles.metadata.namespace == SYSTEM_NAMESPACE
    assert violations(EKSARelease, msgspec.to_builtins(release.eksa_release)) == []
    assert violations(Bundles, msgspec.to_builtins(release.bundles)) == []


@pytest.mark.parametrize("kind", sorted(set(PROVIDERS) - {"CloudStackDatacenterConfig"}))
def test_bundles_without_cloudstack_serve_others(releases: Releases, kind: str) -> None:
    bundles = releases.release(VERSION).bundles
    assert list(rules.components(spec(kind), PROVIDERS[kind], bundles)) == []


def test_cloudstack_is_refused_with_what_is_lacking(releases: Releases) -> None:
    kind = "CloudStackDatacenterConfig"
    (violation,) = rules.components(spec(kind), PROVIDERS[kind], releases.release(VERSION).bundles)
    assert "cloudStack.kubeVip" in str(violation)
    assert list(rules.components(spec(kind), PROVIDERS[kind], releases.release("v0.26.0").bundles)) == []


def test_placeholders_are_no_images(releases: Releases) -> None:
    """The webhook refuses Bundles with invalid images, whoever would use them."""
    bundles = releases.release(VERSION).bundles
    assert list(invalid_images(bundles)) == []
    for entry in bundles.spec.versions_bundles:
        assert "cloudStack" not in {path.partition(".")[0] for path in images(entry)}


def test_the_end_of_standard_support_is_warned_of(releases: Releases) -> None:
    bundles = releases.release(VERSION).bundles
    (warning,) = support(spec("DockerDatacenterConfig", "1.34"), bundles, NOW)
    assert "Kubernetes 1.34 (support ends on 2026-08-31)" in warning
