"""The complete objects of a cluster on bare metal."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.meta import Tree
from tests.support.histories.golden_stories import compare_with_golden, text_of
from tests.support.providers.tinkerbell import MACHINES, everything, made, manifest, objects, of


@pytest.mark.parametrize("name", ["tinkerbell", "tinkerbell-everything"])
def test_a_cluster_on_bare_metal_becomes_these_objects(name: str) -> None:
    compare_with_golden(name, text_of(readable(objects(made(manifest() if name == "tinkerbell" else everything())))))


def test_red_hat_machines_have_this_workflow() -> None:
    trees = manifest()
    for name in ("forge", "forge-cp"):
        of(trees, MACHINES, name)["osFamily"] = "redhat"
    template = msgspec.to_builtins(made(trees).machine_template)
    compare_with_golden("tinkerbell-redhat", text_of(readable([template])))


def test_single_group_runs_pods_on_the_control_plane() -> None:
    trees = manifest(workerNodeGroupConfigurations=[])
    config = made(trees).control_plane.spec.kubeadm_config_spec
    assert config.init_configuration is not None
    assert config.join_configuration is not None
    for node in (config.init_configuration.node_registration, config.join_configuration.node_registration):
        assert node is not None
        assert node.taints == []
    assert "name: svc_election\n" in config.files[0].content
    of(trees, "TinkerbellDatacenterConfig")["skipLoadBalancerDeployment"] = True
    assert "svc_election" not in made(trees).control_plane.spec.kubeadm_config_spec.files[0].content


def test_api_server_address_may_be_held_elsewhere() -> None:
    trees = manifest()
    trees[0]["spec"]["controlPlaneConfiguration"]["skipLoadBalancerDeployment"] = True
    config = made(trees).control_plane.spec.kubeadm_config_spec
    assert not [file for file in config.files if "kube-vip" in file.path]
    assert not [command for command in config.pre_kubeadm_commands if "kube-vip" in command]


def readable(trees: list[Tree]) -> list[Tree]:
    """Workflows line by line."""
    for tree in trees:
        if tree["kind"] == "TinkerbellMachineTemplate":
            machine = tree["spec"]["template"]["spec"]
            machine["templateOverride"] = machine["templateOverride"].splitlines()
    return trees
