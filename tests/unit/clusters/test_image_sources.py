"""From where each image of a release comes, on every machine of every provider, if there is a registry mirror.

Generated: provider x operating system x etcd x proxy x certificate x account x namespaces. What machines are given is
read as the programs on them read it (`tests/support/providers/image_sources.py`).
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.observe.rules import messages
from tests.support.objects.observed_clusters import RELEASES, observer, rendered_of
from tests.support.objects.rendered_manifests import FORK, objects
from tests.support.providers import snow, vsphere
from tests.support.providers.bottlerocket import on_bottlerocket
from tests.support.providers.every_provider import KINDS, SAMPLES, canary, registry
from tests.support.providers.examples import stored
from tests.support.providers.image_sources import PUBLIC, Reader, of_etcd, of_machine, parts, without_proxy
from tests.support.providers.nutanix import AUTHORITY
from tests.support.sampling import sampled
from tests.support.servers.admission_reviews import ask

MIRROR = "harbor.example.com"
ACCOUNT = f"{canary('mirror-user')}:{canary('mirror-password')}"
NAMESPACES: dict[str, list[Tree]] = {
    "no namespaces": [],
    "EKS": [{"registry": PUBLIC, "namespace": "eks/anywhere"}],
    "EKS and packages": [
        {"registry": PUBLIC, "namespace": "eks"},
        {"registry": "783794618700.dkr.ecr.us-west-2.amazonaws.com", "namespace": "packages"},
    ],
    "packages": [{"registry": "783794618700.dkr.ecr.us-west-2.amazonaws.com", "namespace": "packages"}],
    "EKS, without a path": [{"registry": PUBLIC, "namespace": ""}],
}
TRUST: dict[str, Tree] = {
    "a public certificate": {},
    "an authority": {"caCertContent": AUTHORITY},
    "no verification": {"insecureSkipVerify": True},
}


class Case(NamedTuple):
    kind: str
    bottlerocket: bool
    etcd: bool
    proxy: bool
    trust: str
    account: bool
    namespaces: str


def cases() -> Iterator[Case]:
    of_machines = [(kind, False) for kind in KINDS]
    of_machines += [("VSphereDatacenterConfig", True), ("SnowDatacenterConfig", True)]
    flags = (False, True)
    for machines, etcd, proxy, trust, account, namespaces in itertools.product(
        of_machines, flags, flags, TRUST, flags, NAMESPACES
    ):
        case = Case(*machines, etcd, proxy, trust, account, namespaces)
        is_possible = not (case.etcd and case.kind == "TinkerbellDatacenterConfig")
        if is_possible and not (case.bottlerocket and case.trust == "no verification"):  # which is refused
            yield case


CASES = list(cases())


def trees_of(case: Case) -> list[Tree]:
    trees = SAMPLES[case.kind].cluster("team-a", "any")
    spec = trees[0]["spec"]
    if not case.etcd:
        spec.pop("externalEtcdConfiguration", None)
    elif "externalEtcdConfiguration" not in spec:
        group = spec["controlPlaneConfiguration"].get("machineGroupRef")
        spec["externalEtcdConfiguration"] = {"count": 1, **({"machineGroupRef": group} if group else {})}
    proxy = spec.pop("proxyConfiguration")
    if case.proxy:
        spec["proxyConfiguration"] = proxy | {"noProxy": ["corp.example.com"]}
    spec["registryMirrorConfiguration"] = {
        "endpoint": MIRROR,
        "port": "5000",
        "authenticate": case.account,
        **TRUST[case.trust],
        **({"ociNamespaces": NAMESPACES[case.namespaces]} if NAMESPACES[case.namespaces] else {}),
    }
    if case.bottlerocket:
        trees = on_bottlerocket(trees, users=[{"name": "ec2-user", "sshAuthorizedKeys": [vsphere.KEY_OF_ANN]}])
        for tree in trees:
            if tree["kind"].endswith("MachineConfig"):
                tree["spec"].pop("hostOSConfiguration", None)
                if tree["kind"] == snow.MACHINES:
                    tree["spec"].pop("users", None)
                    tree["spec"] |= {"containersVolume": {"size": 25}}
    return trees


@cache
def release_images() -> tuple[str, ...]:
    """The images of all releases: those of Bundles, and those of EKS Distro."""
    text = b"".join(msgspec.json.encode(object_) for object_ in RELEASES.objects()).decode()
    matches = set(re.findall(r'"uri":"([^"]+)"', text))
    assert len(matches) > 20
    return tuple(sorted(item for item in matches if not item.startswith("http")))


def readers(trees: list[Tree]) -> Iterator[tuple[str, Tree, Reader]]:
    """The machines of rendered objects: what they are of, what they are given, and how that is read."""
    secrets = {
        tree["metadata"]["name"]: {name: base64.b64decode(value).decode() for name, value in tree["data"].items()}
        for tree in trees
        if tree["kind"] == "Secret" and "data" in tree
    }
    for item in trees:
        spec = item.get("spec", {})
        if item["kind"] == "KubeadmControlPlane":
            yield "control plane", spec["kubeadmConfigSpec"], of_machine(spec["kubeadmConfigSpec"], secrets)
        elif item["kind"] == "KubeadmConfigTemplate":
            yield "workers", spec["template"]["spec"], of_machine(spec["template"]["spec"], secrets)
        elif item["kind"] == "EtcdadmCluster":
            yield "etcd", spec["etcdadmConfigSpec"], of_etcd(spec["etcdadmConfigSpec"])


def path_of(case: Case, registry_: str) -> str | None:
    """The path of the mirror's API for a registry; None if it is not mirrored."""
    asked = NAMESPACES[case.namespaces] or [{"registry": PUBLIC, "namespace": ""}]
    first = next((item["namespace"] for item in asked if item["registry"] == registry_), None)
    return None if first is None else f"/v2/{first}".rstrip("/")


@pytest.mark.parametrize(
    "case", sampled([(case,) for case in CASES], *range(0, len(CASES), 23)), ids=lambda case: "-".join(map(str, case))
)
def test_every_image_of_release_comes_from_mirror(case: Case) -> None:
    secrets = [registry(["team-a"]), *SAMPLES[case.kind].credentials("team-a")]
    secrets[0]["metadata"]["annotations"]["anywhere.eks.amazonaws.com/credentials-servers"] = f"{MIRROR}:5000"
    scope = observer(*stored(trees_of(case)), *secrets, FORK).scope(Key("team-a", "any"))
    assert scope is not None
    made = objects(rendered_of(scope))
    seen = set()
    for role, config, sources in readers(made):
        seen.add(role)
        for image in (*release_images(), "783794618700.dkr.ecr.us-west-2.amazonaws.com/a/b:1"):
            name, path, tag = parts(image)
            mirrored = path_of(case, name)
            if role == "etcd" and name != PUBLIC:  # which pulls nothing else, and has no place for another registry
                continue
            first, *_ = sources(image)
            root = f"https://{name}/v2" if mirrored is None else f"https://{MIRROR}:5000{mirrored}"
            assert first.manifest == f"{root}/{path}/manifests/{tag}", (role, image)
            if mirrored is not None:
                assert (first.authority == AUTHORITY) is (case.trust == "an authority"), role
                is_file = role != "etcd" and not case.bottlerocket
                assert first.verified is not (is_file and case.trust == "no verification"), role
                # Of other machines, Cluster API reads the Secret itself.
                assert first.account == (ACCOUNT if is_file and case.account else ""), role
        if case.proxy:
            assert without_proxy(no_proxy(config, made), MIRROR), role
    for item in made:  # actions of bare metal, which an installer pulls without any hosts.toml
        if item["kind"] == "TinkerbellMachineTemplate" and path_of(case, PUBLIC) is not None:
            assert f"{PUBLIC}/" not in item["spec"]["template"]["spec"]["templateOverride"]
    assert seen == {"control plane", "workers", *(["etcd"] if case.etcd else [])}


def no_proxy(config: Tree, made: list[Tree]) -> list[str]:
    """The hosts that a machine reaches without its proxy."""
    for part in (config, config.get("clusterConfiguration", {}), config.get("joinConfiguration", {})):
        if "noProxy" in part.get("proxy", {}):
            result: list[str] = part["proxy"]["noProxy"]
            return result
    text = json.dumps(config)
    for item in made:
        if item["kind"] == "Secret" and "http-proxy.conf" in item.get("data", {}):
            text += base64.b64decode(item["data"]["http-proxy.conf"]).decode()
    match = re.search(r"NO_PROXY=([^\"\\\n]+)", text)
    assert match is not None, "no proxy at all"
    return match[1].split(",")


@pytest.mark.parametrize("name", NAMESPACES)
def test_mirror_without_images_of_release_gets_warning(name: str) -> None:
    mirror: dict[str, Any] = {"endpoint": MIRROR}
    mirror |= {"ociNamespaces": NAMESPACES[name]} if NAMESPACES[name] else {}
    trees = SAMPLES["DockerDatacenterConfig"].cluster("team-a", "any")
    trees[0]["spec"]["registryMirrorConfiguration"] = mirror
    warnings = [warning for warning in ask(trees[0], None).warnings if "ociNamespaces" in warning]
    assert bool(warnings) is (name == "packages")
    assert warnings in ([], [f"spec.registryMirrorConfiguration.ociNamespaces: {messages.not_mirrored([PUBLIC])}"])
