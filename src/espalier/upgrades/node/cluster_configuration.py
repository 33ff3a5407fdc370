"""kubeadm's ClusterConfiguration in the ConfigMap `kubeadm-config` of a workload cluster. Pure.

kubeadm renders the static pods of control plane nodes from it. An upgrade changes what Cluster API changes before it
rolls machines out; kubeadm itself sets `kubernetesVersion`. The text comes from a cluster that may be hostile.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from espalier.api.meta import Tree
from espalier.api.text.printable import in_one_line
from espalier.api.text.versions import parsed
from espalier.api.text.violations import ManifestError
from espalier.api.trees import yaml_text
from espalier.api.trees.json_trees import decode
from espalier.api.trees.yaml_trees import trees
from espalier.api.version_matrix import etcd_minors_for, minor_of
from espalier.clusterapi.changes.in_place_fields import COMPONENT_PARTS, COMPONENTS, ETCD_PARTS
from espalier.clusterapi.kubernetes_versions import minor

API_VERSION = "kubeadm.k8s.io/v1beta4"
MAX_CHARACTERS = 256 * 1024
"""The longest accepted text; kubeadm writes a few thousand characters."""
LONGEST_PROBLEM = 300
"""The most characters of untrusted text in a message."""
_ECDSA_GATE = "PublicKeysECDSA"
_REMOVED_GATES = {
    "WaitForAllControlPlaneComponents": minor("1.35"),
    "ControlPlaneKubeletLocalMode": minor("1.36"),
    "NodeLocalCRISocket": minor("1.37"),
    _ECDSA_GATE: minor("1.37"),
}
"""Feature gate -> the minor of Kubernetes whose kubeadm no longer knows it."""


class WantedConfiguration(NamedTuple):
    """The wanted kubeadm-config."""

    version: str
    etcd_tag: str = ""
    """Empty keeps the tag of etcd's image."""
    parts: Tree | None = None
    """The ClusterConfiguration of the control plane; without it, no other part changes."""


def read(config_map: Tree) -> Tree:
    """The ClusterConfiguration in a ConfigMap. Raises `ValueError` with the problem."""
    text = (config_map.get("data") or {}).get("ClusterConfiguration")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it has no ClusterConfiguration")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"its ClusterConfiguration has {len(text)} characters, more than {MAX_CHARACTERS}")
    try:
        parsed_text: Any = (
            decode(text.encode()) if text.lstrip().startswith("{") else trees(text, "ClusterConfiguration")
        )
    except (ManifestError, ValueError) as error:
        raise ValueError(in_one_line(str(error))[:LONGEST_PROBLEM]) from None
    tree = parsed_text[0] if isinstance(parsed_text, list) and len(parsed_text) == 1 else parsed_text
    if not isinstance(tree, dict):
        raise ValueError("its ClusterConfiguration is not a map")
    if tree.get("apiVersion") != API_VERSION:
        shown = in_one_line(str(tree.get("apiVersion", "missing")))[:LONGEST_PROBLEM]
        advice = "migrate it with kubeadm config migrate, of 1.36 or earlier from v1beta3"
        raise ValueError(f"its apiVersion is {shown}, allowed: {API_VERSION}; {advice}")
    return tree


def version_of(configuration: Tree) -> str:
    """The version that kubeadm renders the control plane with; empty when the configuration has none."""
    version = configuration.get("kubernetesVersion")
    return in_one_line(version)[:LONGEST_PROBLEM] if isinstance(version, str) else ""


def obstacle(configuration: Tree, requested: WantedConfiguration) -> str:
    """The message on why a control plane with this configuration can't be upgraded as asked for; empty if it can."""
    current, wanted = parsed(version_of(configuration)), parsed(requested.version)
    if current is None or wanted is None:
        return f"found kubernetesVersion {version_of(configuration) or 'nothing'}, allowed: a version like v1.36.3"
    if current.finalize_version() > wanted.finalize_version():
        return (
            f"kubernetesVersion {version_of(configuration)} is newer than {requested.version}: downgrades are refused"
        )
    before = _inner(configuration, "etcd", "local").get("imageTag")
    after = _etcd(requested).get("imageTag")
    old, new = (parsed(tag) if isinstance(tag, str) else None for tag in (before, after))
    if old is not None and new is not None and new.finalize_version() < old.finalize_version():
        return f"etcd {in_one_line(str(before))} is newer than {after}: kubeadm does not downgrade it"
    reachable = etcd_minors_for(str(before)) if old is not None and new is not None else ()
    if reachable and minor_of(str(after)) not in reachable:
        return (
            f"etcd {in_one_line(str(before))} can't become {after}: it is upgraded one minor version at a time; "
            f"upgrade to a release with etcd {reachable[-1]} first"
        )
    return ""


def has_external_etcd(configuration: Tree) -> bool:
    """True if etcd does not run on the control plane nodes."""
    return bool(_inner(configuration, "etcd").get("external"))


def wanted(configuration: Tree, requested: WantedConfiguration) -> Tree:
    """The configuration to write for kubeadm: the present configuration, with the parts that are asked for."""
    result = {**configuration}
    if requested.parts is not None:
        gates = requested.parts.get("featureGates")
        result = _with(result, {"featureGates": gates})
        result = _with(
            result, {"imageRepository": requested.parts.get("imageRepository") or result.get("imageRepository")}
        )
        for component in COMPONENTS:
            of_component, present = _inner(requested.parts, component), _inner(result, component)
            changed = _with(present, {part: of_component.get(part) for part in COMPONENT_PARTS})
            if changed != present:  # kubeadm writes empty components, too
                result = _with(result, {component: changed})
    gates = {
        gate: on
        for gate, on in _inner(result, "featureGates").items()
        if gate not in _REMOVED_GATES or minor(requested.version) < _REMOVED_GATES[gate]
    }
    if _ECDSA_GATE not in gates and _inner(result, "featureGates").get(_ECDSA_GATE) is True:
        # What replaces the gate: without it, kubeadm would make RSA keys from now on.
        result["encryptionAlgorithm"] = result.get("encryptionAlgorithm") or "ECDSA-P256"
    result = _with(result, {"featureGates": gates})
    etcd = _etcd(requested)
    if etcd and not has_external_etcd(configuration):
        result["etcd"] = {**_inner(result, "etcd"), "local": _with(_inner(result, "etcd", "local"), etcd)}
    return result


def _etcd(requested: WantedConfiguration) -> Tree:
    """The fields of etcd.local; None for a field to remove. The tag is that of the upgrade, if it names a tag."""
    parts = _inner(requested.parts or {}, "etcd", "local")
    fields: Tree = {part: parts.get(part) for part in ETCD_PARTS} if parts else {}
    return fields | ({"imageTag": requested.etcd_tag} if requested.etcd_tag else {})


def text_of(configuration: Tree, before: str) -> str:
    """The configuration as text, in the format it had before: YAML or JSON."""
    if before.lstrip().startswith("{"):
        return json.dumps(configuration, indent=2, sort_keys=True)
    return yaml_text.dump(configuration, sort_keys=True, allow_unicode=True)


def _inner(tree: Tree, *path: str) -> Tree:
    """An inner map; empty if there is none."""
    value: Any = tree
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _with(tree: Tree, fields: Tree) -> Tree:
    """A map with these fields; those of them that are empty are removed."""
    return {name: value for name, value in {**tree, **fields}.items() if name not in fields or value}
