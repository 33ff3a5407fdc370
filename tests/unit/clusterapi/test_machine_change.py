"""Changes with which Cluster API replaces a machine, updates it in place, or does nothing."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.capi.cluster import ContractReference
from espalier.api.capi.kubeadm import (
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmControlPlane,
)
from espalier.api.capi.machine import Machine, MachineTemplate
from espalier.api.meta import ObjectMeta, Tree
from espalier.clusterapi.changes.machine_change import (
    ChangeKind,
    MachineParts,
    Template,
    machine_change,
    of_control_plane,
    of_control_plane_machine,
    of_machine_template,
)

LOCAL_MODE = "ControlPlaneKubeletLocalMode"
CONFIG: Tree = {
    "clusterConfiguration": {
        "imageRepository": "registry.example/eks-distro/kubernetes",
        "dns": {"imageTag": "v1.13.1"},
        "apiServer": {"extraArgs": [{"name": "profiling", "value": "false"}]},
    },
    "initConfiguration": {"nodeRegistration": {"criSocket": "/run/containerd.sock"}},
    "joinConfiguration": {"nodeRegistration": {"criSocket": "/run/containerd.sock"}},
    "files": [{"path": "/etc/kubernetes/audit-policy.yaml", "content": "rules: []"}],
}


def control_plane(version: str = "v1.35.4", template: str = "garden-control-plane-1", **config: Any) -> MachineParts:
    tree = {
        "metadata": {"name": "garden"},
        "spec": {
            "version": version,
            "machineTemplate": {
                "metadata": {"labels": {"team": "orchard"}},
                "spec": {
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "DockerMachineTemplate",
                        "name": template,
                    },
                    "deletion": {"nodeDrainTimeoutSeconds": 60},
                },
            },
            "kubeadmConfigSpec": {**CONFIG, **config},
        },
    }
    return of_control_plane(msgspec.convert(tree, KubeadmControlPlane))


def machine(
    config: Tree | None = None,
    cloned_from: str = "garden-control-plane-1",
    *,
    drain: int = 60,
    version: str = "v1.35.4",
    **labels: str,
) -> MachineParts:
    spec = {
        "clusterName": "garden",
        "bootstrap": {},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": "m"},
        "version": version,
        "deletion": {"nodeDrainTimeoutSeconds": drain},
    }
    metadata = {"name": "m", "labels": {"team": "orchard", "cluster.x-k8s.io/cluster-name": "garden", **labels}}
    typed = msgspec.convert({"metadata": metadata, "spec": spec}, Machine)
    kubeadm_config = KubeadmConfig(spec=msgspec.convert(config or started(), KubeadmConfigSpec))
    infrastructure = ObjectMeta(
        annotations={
            "cluster.x-k8s.io/cloned-from-name": cloned_from,
            "cluster.x-k8s.io/cloned-from-groupkind": "DockerMachineTemplate.infrastructure.cluster.x-k8s.io",
        }
    )
    return of_control_plane_machine(typed, kubeadm_config, infrastructure)


def with_gates(gates: dict[str, bool]) -> Tree:
    """The control plane's config for a machine, as Cluster API derives it."""
    config = copy.deepcopy(CONFIG)
    if gates:
        config["clusterConfiguration"]["featureGates"] = gates
    return config


def started() -> Tree:
    """The config of the machine that initialized the cluster."""
    config = with_gates({LOCAL_MODE: True})
    del config["joinConfiguration"]
    config["clusterConfiguration"]["controlPlaneEndpoint"] = "127.0.0.1:6443"
    return config


def joined() -> Tree:
    """The config of a machine that joined."""
    config = with_gates({LOCAL_MODE: True})
    del config["initConfiguration"]
    config["joinConfiguration"]["discovery"] = {"bootstrapToken": {"token": "abc", "apiServerEndpoint": "127.0.0.1"}}
    config["joinConfiguration"]["controlPlane"] = {}
    return config


@pytest.mark.parametrize("config", [started(), joined()], ids=["that began the cluster", "that joined"])
def test_machine_in_its_desired_state_does_not_change(config: Tree) -> None:
    assert machine_change(machine(config), control_plane()).kind is ChangeKind.NOTHING


OTHER_SOCKET: Tree = {"nodeRegistration": {"criSocket": "/other.sock"}}
ONLY_TO_JOIN: dict[str, Any] = {
    "joinConfiguration": {"nodeRegistration": {"criSocket": "/run/containerd.sock", "name": "x"}}
}


def test_initializing_machine_may_differ_from_joined() -> None:
    """As in Cluster API, which compares it in both ways."""
    desired = control_plane(**ONLY_TO_JOIN)
    assert machine_change(machine(started()), desired).kind is ChangeKind.NOTHING
    assert machine_change(machine(joined()), desired).fields == ("bootstrap.joinConfiguration.nodeRegistration.name",)


def test_differences_omit_fields_of_joining_machines() -> None:
    desired = control_plane(**ONLY_TO_JOIN, files=[])
    assert machine_change(machine(started()), desired).fields == ("bootstrap.files",)


@pytest.mark.parametrize(
    ("desired", "fields"),
    [
        (control_plane(version="v1.36.3"), ("version",)),
        (control_plane(template="garden-control-plane-2"), ("infrastructure",)),
        (
            control_plane(files=[{"path": "/etc/kubernetes/audit-policy.yaml", "content": "rules: [x]"}]),
            ("bootstrap.files",),
        ),
        (
            control_plane(initConfiguration=OTHER_SOCKET, joinConfiguration=OTHER_SOCKET),
            ("bootstrap.joinConfiguration.nodeRegistration.criSocket",),
        ),
        (
            control_plane(version="v1.36.3", template="garden-control-plane-2"),
            ("version", "infrastructure"),
        ),
    ],
)
def test_other_version_or_template_replaces_machine(desired: MachineParts, fields: tuple[str, ...]) -> None:
    change = machine_change(machine(), desired)
    assert change.kind is ChangeKind.REPLACE
    assert change.fields == fields


def test_another_coredns_replaces_no_machine() -> None:
    cluster = {**CONFIG["clusterConfiguration"], "dns": {"imageTag": "v1.14.2"}}
    assert not machine_change(machine(), control_plane(clusterConfiguration=cluster))


def test_labels_and_drain_timeouts_change_in_place() -> None:
    change = machine_change(machine(drain=5, team="meadow"), control_plane())
    assert change.kind is ChangeKind.IN_PLACE
    assert change.fields == ("deletion.nodeDrainTimeoutSeconds", "labels.team")


def test_labels_set_by_others_make_no_difference() -> None:
    assert not machine_change(machine(added="by-hand"), control_plane())


def test_annotations_of_cluster_api_make_no_difference() -> None:
    old, other = (machine(**dict[str, Any]({"machine-template-hash": text})) for text in ("1", "2"))
    assert not machine_change(old, other)


def test_only_desired_failure_domain_replaces_machine() -> None:
    first, other, anywhere = (MachineParts(version="v1.35.4", failure_domain=name) for name in ("a", "b", ""))
    assert machine_change(first, first).kind is ChangeKind.NOTHING
    assert machine_change(first, other).fields == ("failureDomain",)
    assert machine_change(first, anywhere).kind is ChangeKind.NOTHING


def test_an_empty_field_equals_an_absent_one() -> None:
    empty: Tree = {"labels": {}, "deletion": {"nodeDrainTimeoutSeconds": None}, "readinessGates": []}
    never: Tree = {"deletion": {"nodeDrainTimeoutSeconds": 0}}
    assert not machine_change(MachineParts(in_place=empty), MachineParts())
    assert machine_change(MachineParts(in_place=never), MachineParts()).kind is ChangeKind.IN_PLACE


def test_worker_with_bootstrap_data_has_no_template() -> None:
    assert MachineParts(bootstrap={"dataSecretName": "s"}, is_of_group=True).bootstrap_template == ""


def test_unknown_parts_of_a_machine_do_not_replace_it() -> None:
    unknown = MachineParts(version="v1.35.4", in_place=machine().in_place, has_foreign_fields=True)
    assert not machine_change(unknown, control_plane(template="garden-control-plane-7", files=[]))


def test_another_template_replaces_workers() -> None:
    def template(config: str, infrastructure: str, failure_domain: str = "", drain: int = 1) -> MachineParts:
        def reference(kind: str, name: str) -> dict[str, str]:
            return msgspec.to_builtins(ContractReference(api_group="g", kind=kind, name=name))  # type: ignore[no-any-return]

        spec = {
            "clusterName": "garden",
            "version": "v1.35.4",
            "bootstrap": {"configRef": reference("KubeadmConfigTemplate", config)},
            "infrastructureRef": reference("DockerMachineTemplate", infrastructure),
            "failureDomain": failure_domain,
            "deletion": {"nodeDrainTimeoutSeconds": drain},
        }
        return of_machine_template(msgspec.convert({"spec": spec}, MachineTemplate))

    current = template("garden-md-0-1", "garden-md-0-1")
    assert not machine_change(current, template("garden-md-0-1", "garden-md-0-1"))
    assert machine_change(current, template("garden-md-0-2", "garden-md-0-1")).fields == ("bootstrap.configRef.name",)
    assert machine_change(current, template("garden-md-0-1", "garden-md-0-2")).fields == ("infrastructure",)
    assert machine_change(current, template("garden-md-0-1", "garden-md-0-1", "b")).fields == ("failureDomain",)
    assert machine_change(current, template("garden-md-0-1", "garden-md-0-1", drain=2)).kind is ChangeKind.IN_PLACE


versions = st.sampled_from(["v1.34.4", "v1.35.4"])
templates = st.none() | st.builds(Template, st.just("K.g"), st.sampled_from(["a-1", "a-2"]))
parts = st.builds(
    MachineParts,
    version=versions,
    bootstrap=st.none() | st.sampled_from([{}, started(), joined(), {"format": "ignition"}]),
    infrastructure=templates,
    in_place=st.dictionaries(st.sampled_from(["minReadySeconds"]), st.integers(0, 2)),
)


@given(parts, parts)
def test_replacement_does_not_depend_on_the_direction(machine_parts: MachineParts, other: MachineParts) -> None:
    assert machine_change(machine_parts, machine_parts).kind is ChangeKind.NOTHING
    there, back = machine_change(machine_parts, other), machine_change(other, machine_parts)
    assert (there.kind, there.fields) == (back.kind, back.fields)


@pytest.mark.parametrize(("version", "gates"), [("v1.35.4", {LOCAL_MODE: True}), ("v1.36.0", {}), ("v1.30.9", {})])
def test_additions_of_cluster_api_replace_no_machine(version: str, gates: dict[str, bool]) -> None:
    """Seen on Cluster API 1.13: it asks kubeadm for a feature that later versions of it have anyway."""
    asked = control_plane(version)
    assert machine_change(machine(with_gates(gates), version=version), asked).kind is ChangeKind.NOTHING
    other = with_gates({LOCAL_MODE: False})
    change = machine_change(machine(other, version=version), asked)
    assert change.kind is ChangeKind.REPLACE
    assert [field.startswith("bootstrap.clusterConfiguration.featureGates") for field in change.fields] == [True]


def test_a_feature_gate_of_the_control_plane_is_kept() -> None:
    asked = control_plane(clusterConfiguration={**CONFIG["clusterConfiguration"], "featureGates": {LOCAL_MODE: False}})
    assert machine_change(machine(with_gates({LOCAL_MODE: False})), asked).kind is ChangeKind.NOTHING
