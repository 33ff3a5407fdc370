import json
import subprocess
from pathlib import Path

import pytest
import yaml

from espalier.local.nspawn.node_files import Identity, NodeFile, node_files

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


def test_bootstrap_data_are_what_cloud_init_finds_and_nobody_else_reads() -> None:
    seed = FILES["/var/lib/cloud/seed/nocloud/user-data"]
    assert (seed.content, seed.mode) == (b"## template: jinja\n#cloud-config\n", 0o600)
    meta_data = yaml.safe_load(FILES["/var/lib/cloud/seed/nocloud/meta-data"].content)
    assert meta_data == {
        "instance-id": "0f3a9c1d",
        "local-hostname": "garden-abcde",
        "local_hostname": "garden-abcde",
    }


def test_kubelet_is_told_of_its_container_beside_what_the_cluster_asks_for() -> None:
    kubelet = json.loads(FILES["/etc/kubernetes/kubelet.conf.d/10-node.conf"].content)
    assert kubelet["providerID"] == "docker:////garden-abcde"
    assert (kubelet["failCgroupV1"], kubelet["failSwapOn"], kubelet["cgroupDriver"]) == (False, False, "cgroupfs")
    assert b"--config-dir=/etc/kubernetes/kubelet.conf.d" in FILES["/etc/default/kubelet"].content


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
