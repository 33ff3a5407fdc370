"""Changes to kubeadm's ClusterConfiguration: only what is to change changes."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from espalier.upgrader.cluster_configuration import for_version, has_external_etcd, value, with_value, without
from espalier.upgrader.failures import StepFailed

CONFIGURATION = """\
apiServer:
  certSANs:
  - localhost
  extraArgs:
  - name: profiling
    value: "false"
apiVersion: kubeadm.k8s.io/v1beta4
dns:
  imageTag: v1.13.1
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
    - name: imageTag
      value: not-this
    imageTag: 3.6.6-0
featureGates:
  ControlPlaneKubeletLocalMode: true
kind: ClusterConfiguration
"""

PATHS = [("dns", "imageTag"), ("etcd", "local", "imageTag")]
NAMES = some.sampled_from(["dns", "etcd", "local", "imageTag", "featureGates", "kind", "name"])
TREES = some.recursive(
    some.text("abc1.-", min_size=1).map(lambda text: f"x{text}"),
    lambda inner: some.dictionaries(NAMES, inner, min_size=1) | some.lists(inner, min_size=1, max_size=3),
    max_leaves=12,
)


def test_the_tag_of_etcd_is_set_and_a_gate_that_is_gone_goes_with_its_folder() -> None:
    wanted = yaml.safe_load(CONFIGURATION)
    wanted["etcd"]["local"]["imageTag"] = "3.6.8-0"
    del wanted["featureGates"]

    assert yaml.safe_load(for_version(CONFIGURATION, 36, "3.6.8-0")) == wanted


def test_what_needs_no_change_stays_as_it_is() -> None:
    assert for_version(CONFIGURATION, 35, "") == CONFIGURATION
    assert for_version(CONFIGURATION, 35, "3.6.6-0") == CONFIGURATION


def test_json_is_taken_as_well() -> None:
    text = json.dumps(yaml.safe_load(CONFIGURATION), indent=2)

    assert yaml.safe_load(for_version(text, 36, "3.6.8-0")) == yaml.safe_load(for_version(CONFIGURATION, 36, "3.6.8-0"))
    assert for_version(text, 35, "") == text
    assert has_external_etcd(json.dumps({"etcd": {"external": {"endpoints": ["https://10.0.0.1:2379"]}}}))


def test_a_tag_without_a_local_etcd_is_refused() -> None:
    with pytest.raises(StepFailed, match=r"kubeadm-config has no etcd\.local"):
        for_version("etcd:\n  external:\n    endpoints:\n    - https://10.0.0.1:2379\n", 36, "3.6.8-0")


@given(some.dictionaries(NAMES, TREES, min_size=1), some.sampled_from(PATHS))
def test_in_any_mapping_that_kubeadm_could_write_only_the_value_changes(
    tree: dict[str, object], path: tuple[str, ...]
) -> None:
    text = yaml.safe_dump(tree, default_flow_style=False)
    parent: object = tree
    for name in path[:-1]:
        parent = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(parent, dict) or not isinstance(parent.get(path[-1], ""), str):
        return

    changed = with_value(text, path, "v9")

    assert value(changed, path) == "v9"
    parent[path[-1]] = "v9"
    assert yaml.safe_load(changed) == tree
    del parent[path[-1]]
    if parent:
        assert yaml.safe_load(without(changed, path)) == tree
