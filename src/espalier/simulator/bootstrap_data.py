"""Bootstrap data, which a machine reads at its first boot to become a node.

Real machines get cloud-init or ignition documents with files and commands. A simulated machine only needs the settings,
so the document here is a cloud-config with a `kubeadm` section, in JSON, which is valid YAML. It has no certificates:
simulated machines take them from the cluster's Secrets.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.capi.bottlerocket import FORMAT as BOTTLEROCKET
from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec, NodeRegistration
from espalier.api.core import Taint
from espalier.api.meta import Part, Tree
from espalier.api.text.violations import ManifestError
from espalier.api.trees.json_trees import decode
from espalier.api.trees.yaml_trees import trees

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
CONTROL_PLANE_TAINT = Taint(key=CONTROL_PLANE_LABEL, effect="NoSchedule")

_HEADER = b"#cloud-config\n"
_KUBEADM_FOLDER = "/run/kubeadm/"


class Kubeadm(Part):
    """The settings of a machine. `init` is true if it initializes the cluster; `version` is its Kubernetes version."""

    version: str
    init: bool = False
    control_plane: bool = False
    node_name: str = ""
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    cluster: ClusterConfiguration | None = None


class WrittenFile(Part, kw_only=False):
    """A file that is written to the machine; simulated machines need no content."""

    path: str
    permissions: str = ""


class CloudConfig(Part):
    """The cloud-config. `runcmd` is informational: the commands of a real machine; empty for Bottlerocket."""

    kubeadm: Kubeadm
    write_files: list[WrittenFile] = msgspec.field(name="write_files", default_factory=list)
    runcmd: list[str] = []


def render(spec: KubeadmConfigSpec, *, version: str, init: bool, control_plane: bool, node_name: str) -> bytes:
    """The bootstrap data of a machine. `node_name` is the default, if the configuration has no name of its own."""
    configuration = spec.init_configuration if init else spec.join_configuration
    registration = (configuration and configuration.node_registration) or NodeRegistration()
    kubeadm = _settings(
        registration,
        version=version,
        init=init,
        control_plane=control_plane,
        node_name=node_name,
        cluster=spec.cluster_configuration,
    )
    action = "init" if init else "join"
    document = CloudConfig(
        kubeadm=kubeadm,
        write_files=[WrittenFile(file.path, file.permissions) for file in spec.files],
        runcmd=[]
        if spec.format == BOTTLEROCKET
        else [
            *spec.pre_kubeadm_commands,
            f"kubeadm {action} --config /run/kubeadm/kubeadm.yaml",
            *spec.post_kubeadm_commands,
        ],
    )
    return _HEADER + msgspec.json.encode(document)


def read(data: bytes, *, version: str = "", node_name: str = "") -> Kubeadm:
    """Parse bootstrap data of this module's `render`, or of Cluster API's kubeadm provider.

    The provider's lack `version` and `node_name`, which are the machine's. A joining machine reads the cluster's
    configuration in the cluster. Raises `ValueError` for other formats, without quoting the data: they contain keys.
    """
    try:
        return decode(data.removeprefix(_HEADER), CloudConfig).kubeadm
    except msgspec.MsgspecError:
        return _read_provider_data(data, version, node_name)


def _read_provider_data(data: bytes, version: str, node_name: str) -> Kubeadm:
    documents = {document.get("kind"): document for document in _kubeadm_documents(data)}
    cluster, init, join = (documents.get(f"{kind}Configuration") for kind in ("Cluster", "Init", "Join"))
    if init is None and join is None:
        raise ValueError("the bootstrap data can't be read: they configure neither kubeadm init nor kubeadm join")
    try:
        return _settings(
            msgspec.convert((init or join or {}).get("nodeRegistration") or {}, NodeRegistration),
            version=version,
            init=init is not None,
            control_plane=init is not None or "controlPlane" in (join or {}),
            node_name=node_name,
            cluster=msgspec.convert(cluster, ClusterConfiguration) if cluster else None,
        )
    except msgspec.ValidationError as error:
        raise ValueError(f"the bootstrap data can't be read: {error}") from None


def _kubeadm_documents(data: bytes) -> Iterator[Tree]:
    """The kubeadm configuration among the files that a cloud-config writes."""
    try:
        (config,) = trees(data, "")
        for file in config["write_files"]:
            if str(file["path"]).startswith(_KUBEADM_FOLDER):
                yield from (tree for tree in trees(str(file["content"]), "") if isinstance(tree, dict))
    except (ManifestError, ValueError, TypeError, KeyError):
        raise ValueError("the bootstrap data can't be read: not a cloud-config with write_files") from None


def _settings(
    registration: NodeRegistration,
    *,
    version: str,
    init: bool,
    control_plane: bool,
    node_name: str,
    cluster: ClusterConfiguration | None,
) -> Kubeadm:
    taints = registration.taints
    if taints is None:
        taints = [CONTROL_PLANE_TAINT] if control_plane else []
    return Kubeadm(
        version=version,
        init=init,
        control_plane=control_plane,
        # Templates of names are for machines with instance metadata, which simulated ones lack.
        node_name=node_name if "{{" in registration.name or not registration.name else registration.name,
        labels=_node_labels(registration),
        taints=taints,
        cluster=cluster,
    )


def _node_labels(registration: NodeRegistration) -> dict[str, str]:
    text = next((arg.value for arg in registration.kubelet_extra_args if arg.name == "node-labels"), "")
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name.strip(): value.strip() for name, _, value in pairs}
