"""The state of Cluster API objects after a node was upgraded, in which nothing is left to roll out. Pure.

Order and content are the proposal's: Machine (version, and the ClusterConfiguration it was created with),
KubeadmConfig, infrastructure machine (the template it was cloned from); last the MachineSet of a worker node group.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfigTemplate
from espalier.api.eksa.vocabulary.upgrade_keys import UNFINISHED
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.clusterapi.changes.bootstrap_changes import changes_since, traits
from espalier.clusterapi.changes.machine_change import CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME, control_plane_bootstrap
from espalier.kube.merge_patch import difference
from espalier.upgrades import names, unfinished
from espalier.upgrades.observed.cluster_view import MachineView

_OWN_OF_JOIN = ("discovery", "caCertPath", "controlPlane")
"""Parts that the bootstrap provider sets for a joining machine, and that it keeps."""


def encoded(tree: Tree) -> str:
    """A spec, encoded for an upgrade: the same text for the same content."""
    return base64.b64encode(msgspec.json.encode(tree, order="sorted")).decode()


def decoded(text: str) -> Tree:
    """The decoded spec of an upgrade. Raises `ValueError` if it is invalid."""
    spec: Any = json_trees.decode(base64.b64decode(text, validate=True))
    if not isinstance(spec, dict):
        raise ValueError("not an object")
    return spec


def changes(machine: MachineView | None, wanted: Tree) -> str:
    """The files and flags to change on a node, encoded for a NodeUpgrade; empty for none.

    Empty as well for a machine whose KubeadmConfig is gone, as the state of its node is unknown.
    """
    if machine is None or machine.config is None:
        return ""
    present = unfinished.uncertain(traits(machine.config.tree.get("spec") or {}), machine.object)
    bootstrap_changes = changes_since(present, wanted)
    return encoded(bootstrap_changes) if bootstrap_changes else ""


def missing(tree: Tree, wanted: Tree) -> Tree:
    """The patch that gives an object what is wanted; empty if it has that."""
    return difference(tree, wanted)


def replacement(present: Tree, wanted: Tree) -> Tree:
    """The patch that makes a spec equal to the wanted spec, which removes all else."""
    return difference(present, wanted, exact=True)


def control_plane_machine(control_plane: Tree, version: str) -> Tree:
    """The patch of a Machine of a control plane whose spec is `control_plane`."""
    configuration = (control_plane.get("kubeadmConfigSpec") or {}).get("clusterConfiguration") or {}
    text = msgspec.json.encode(configuration, order="sorted").decode()
    annotations = {names.CLUSTER_CONFIGURATION_ANNOTATION: text, UNFINISHED: None}
    return {"metadata": {"annotations": annotations}, "spec": {"version": version}}


def control_plane_config(control_plane: Tree, version: str, present: Tree) -> Tree:
    """The spec of such a machine's KubeadmConfig: it keeps init or join, whichever it has; gates fit the version."""
    wanted = {**control_plane_bootstrap(control_plane.get("kubeadmConfigSpec") or {}, version)}
    for section in ("initConfiguration", "joinConfiguration"):
        if section not in present:
            wanted.pop(section, None)
    if "joinConfiguration" in present:
        own_fields = {
            name: present["joinConfiguration"][name] for name in _OWN_OF_JOIN if name in present["joinConfiguration"]
        }
        wanted["joinConfiguration"] = (wanted.get("joinConfiguration") or {}) | own_fields
    configuration = {**(wanted.get("clusterConfiguration") or {})}
    endpoint = (present.get("clusterConfiguration") or {}).get("controlPlaneEndpoint")
    if endpoint:
        configuration["controlPlaneEndpoint"] = endpoint
    return wanted | {"clusterConfiguration": configuration}


def worker_config(template: Tree, name: str, present: Tree) -> tuple[Tree, Tree]:
    """The metadata and spec of a worker's KubeadmConfig that matches its template.

    `template` is the spec of the KubeadmConfigTemplate `name`; the discovery settings of the join stay.
    """
    wanted = {**((template.get("template") or {}).get("spec") or {})}
    joined = present.get("joinConfiguration") or {}
    own_fields = {part: joined[part] for part in _OWN_OF_JOIN if part in joined}
    if own_fields or "joinConfiguration" in wanted:
        wanted["joinConfiguration"] = (wanted.get("joinConfiguration") or {}) | own_fields
    if "format" in present:
        wanted.setdefault("format", present["format"])
    group_kind = f"{KubeadmConfigTemplate.resource.kind}.{KubeadmConfigTemplate.resource.group}"
    return {"annotations": {CLONED_FROM_NAME: name, CLONED_FROM_GROUP_KIND: group_kind}}, wanted


def infrastructure_machine(reference: Tree) -> Tree:
    """The patch of an infrastructure machine: the template it was cloned from."""
    group_kind = f"{reference['kind']}.{reference.get('apiGroup', '')}"
    annotations = {CLONED_FROM_NAME: reference["name"], CLONED_FROM_GROUP_KIND: group_kind}
    return {"metadata": {"annotations": annotations}}


def worker(version: str) -> Tree:
    """The patch of a Machine of a worker node group."""
    return {"metadata": {"annotations": {UNFINISHED: None}}, "spec": {"version": version}}
