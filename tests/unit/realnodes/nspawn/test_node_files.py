import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.realnodes.nspawn.node_files import PATCHES, PROXY_CONFIGURATION, Identity, NodeFile, node_files

GARDEN = Identity(
    name="garden-abcde",
    address="10.77.0.3",
    prefix_length=24,
    gateway="10.77.0.1",
    provider_id="docker:////garden-abcde",
    instance_id="0f3a9c1d",
)
FILES = node_files(
    GARDEN,
    bootstrap=b"## template: jinja\n#cloud-config\n",
    pods="192.168.0.0/16",
    image_names={"registry.k8s.io/pause:3.10.1": ["example.org/kindnetd:v1"]},
)


def test_bootstrap_data_are_private_for_cloud_init() -> None:
    seed = FILES["/var/lib/cloud/seed/nocloud/user-data"]
    assert (seed.content, seed.mode) == (b"## template: jinja\n#cloud-config\n", 0o600)
    meta_data = yaml.safe_load(FILES["/var/lib/cloud/seed/nocloud/meta-data"].content)
    assert meta_data == {
        "instance-id": "0f3a9c1d",
        "local-hostname": "garden-abcde",
        "local_hostname": "garden-abcde",
    }


def test_kubelet_settings_of_the_container_are_added() -> None:
    kubelet = json.loads(FILES["/etc/kubernetes/kubelet.conf.d/10-node.conf"].content)
    assert kubelet["providerID"] == "docker:////garden-abcde"
    assert (kubelet["failCgroupV1"], kubelet["failSwapOn"], kubelet["cgroupDriver"]) == (False, False, "cgroupfs")
    assert b"--config-dir=/etc/kubernetes/kubelet.conf.d" in FILES["/etc/default/kubelet"].content


INIT = "kind: ClusterConfiguration\n---\nkind: InitConfiguration\nnodeRegistration: {}\n"
JOIN = "kind: JoinConfiguration\ndiscovery: {}\n"


def kubeadm(tmp_path: Path, command: str, configuration: str) -> list[dict[str, Any]]:
    """The documents that kubeadm itself gets to see when somebody on the node runs it."""
    (tmp_path / "kubeadm").write_text('#!/bin/sh\ncat "$3"\n')
    (tmp_path / "kubeadm").chmod(0o755)
    (tmp_path / "proxy").write_bytes(FILES[PROXY_CONFIGURATION].content)
    script = FILES["/usr/local/sbin/kubeadm"].content.decode()
    script = script.replace("/usr/local/bin/kubeadm", str(tmp_path / "kubeadm"))
    script = script.replace(PROXY_CONFIGURATION, str(tmp_path / "proxy"))
    file = tmp_path / "kubeadm.yaml"
    file.write_text(configuration)
    output = subprocess.run(
        ["sh", "-c", script, "sh", command, "--config", file], check=True, capture_output=True, text=True
    ).stdout
    return list(yaml.safe_load_all(output))


def test_kubeadm_gets_checks_and_patches(tmp_path: Path) -> None:
    cluster, init, proxy = kubeadm(tmp_path, "init", INIT)
    assert cluster == {"kind": "ClusterConfiguration"}
    assert init == {"kind": "InitConfiguration", "patches": {"directory": PATCHES}, "nodeRegistration": {}}
    assert proxy["kind"] == "KubeProxyConfiguration"
    assert kubeadm(tmp_path, "join", JOIN) == [
        {"kind": "JoinConfiguration", "patches": {"directory": PATCHES}, "discovery": {}}
    ]


def test_patches_of_the_manifest_stay(tmp_path: Path) -> None:
    own = JOIN + "patches:\n  directory: /etc/own\n"
    assert kubeadm(tmp_path, "join", own)[0]["patches"] == {"directory": "/etc/own"}


def test_static_pods_are_watched_from_the_beginning() -> None:
    patch = json.loads(FILES[f"{PATCHES}/kube-apiserver0+strategic.json"].content)
    (container,) = patch["spec"]["containers"]
    assert container["name"] == "kube-apiserver"
    assert container["startupProbe"]["periodSeconds"] == 1


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if file.content.startswith(b"#!/bin/sh")])
def test_every_script_of_a_node_is_one(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    FILES[name].write(script)
    assert script.stat().st_mode & 0o111
    subprocess.run(["sh", "-n", script], check=True)


def test_a_file_takes_the_place_of_a_link(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    NodeFile(link="/dev/null").write(target)
    assert target.readlink() == Path("/dev/null")
    NodeFile(b"content", 0o600).write(target)
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"content", 0o600)
