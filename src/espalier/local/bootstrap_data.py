"""What a machine reads at its first boot: how it becomes a node of which cluster.

Real machines get cloud-init or ignition documents with files and commands. A simulated machine needs the decisions in
them alone, so the document here is a cloud-config whose `kubeadm` section holds them; JSON is YAML, so it still reads
as one. Certificates are not in it: simulated machines take them from the cluster's Secrets.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

import msgspec

from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec, NodeRegistration
from espalier.api.core import Taint
from espalier.api.meta import Part

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
CONTROL_PLANE_TAINT = Taint(key=CONTROL_PLANE_LABEL, effect="NoSchedule")

_HEADER = b"#cloud-config\n"


class Kubeadm(Part):
    """The decisions. `init` is true on the machine that starts the cluster; `version` is the kubelet's."""

    version: str
    init: bool = False
    control_plane: bool = False
    node_name: str = ""
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    cluster: ClusterConfiguration | None = None


class WrittenFile(Part, kw_only=False):
    """A file that the machine gets; its content stays where it came from."""

    path: str
    permissions: str = ""


class CloudConfig(Part):
    """The document. `runcmd` is there for readers: what a real machine would run."""

    kubeadm: Kubeadm
    write_files: list[WrittenFile] = msgspec.field(name="write_files", default_factory=list)
    runcmd: list[str] = []


def render(spec: KubeadmConfigSpec, *, version: str, init: bool, control_plane: bool, node_name: str) -> bytes:
    """The bootstrap data of a machine. `node_name` is used when the configuration names none."""
    configuration = spec.init_configuration if init else spec.join_configuration
    registration = (configuration and configuration.node_registration) or NodeRegistration()
    taints = registration.taints
    if taints is None:
        taints = [CONTROL_PLANE_TAINT] if control_plane else []
    kubeadm = Kubeadm(
        version=version,
        init=init,
        control_plane=control_plane,
        # The template that machines of cloud providers use; simulated ones have no instance metadata.
        node_name=node_name if "{{" in registration.name or not registration.name else registration.name,
        labels=_node_labels(registration),
        taints=taints,
        cluster=spec.cluster_configuration,
    )
    action = "init" if init else "join"
    document = CloudConfig(
        kubeadm=kubeadm,
        write_files=[WrittenFile(file.path, file.permissions) for file in spec.files],
        runcmd=[
            *spec.pre_kubeadm_commands,
            f"kubeadm {action} --config /run/kubeadm/kubeadm.yaml",
            *spec.post_kubeadm_commands,
        ],
    )
    return _HEADER + msgspec.json.encode(document)


def read(data: bytes) -> Kubeadm:
    """The decisions in bootstrap data. Raises `ValueError` when they are not of this form."""
    try:
        return msgspec.json.decode(data.removeprefix(_HEADER), type=CloudConfig).kubeadm
    except msgspec.MsgspecError as error:
        raise ValueError(f"the bootstrap data cannot be read: {error}") from None


def _node_labels(registration: NodeRegistration) -> dict[str, str]:
    text = next((arg.value for arg in registration.kubelet_extra_args if arg.name == "node-labels"), "")
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name.strip(): value.strip() for name, _, value in pairs}
