"""The files that make a node of a base: name, address, bootstrap data, kubelet, pod network. Pure.

Settings that Kubernetes needs in this kind of container are here, not in the Cluster: a manifest for the local
environment works unchanged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.realnodes.nspawn.system import registry

_SEED = "/var/lib/cloud/seed/nocloud"
_SCRIPTS = "/var/lib/cloud/scripts"
_UNITS = "/etc/systemd/system"
KUBELET_DROPINS = "/etc/kubernetes/kubelet.conf.d"
CNI_CONFIGURATION = "/etc/cni/net.d/10-pods.conflist"
PROXY_CONFIGURATION = "/usr/local/share/kube-proxy.yaml"
POD_RANGE = "/etc/cni/pod-range"
"""The file with the node's pod CIDR."""

PATCHES = "/usr/local/share/kubeadm-patches"
STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

PREFLIGHT = ("FileContent--proc-sys-net-bridge-bridge-nf-call-iptables", "Mem", "NumCPU", "Swap", "SystemVerification")
"""kubeadm's preflight checks of the host: kernel, control groups, swap."""


@dataclass(frozen=True)
class NodeFile:
    """Content of a file; with `link`, the file is a symbolic link to that."""

    content: bytes = b""
    mode: int = 0o644
    link: str = ""

    def write(self, path: Path) -> None:
        """Put the file in place of what is at `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if self.link:
            path.symlink_to(self.link)
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self.mode)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, self.mode)
            file.write(self.content)


@dataclass(frozen=True)
class Identity:
    """Identity of a node."""

    name: str
    address: str
    prefix_length: int
    gateway: str
    provider_id: str
    instance_id: str


def node_files(
    identity: Identity, *, bootstrap: bytes, pods: str, image_names: Mapping[str, Sequence[str]]
) -> dict[str, NodeFile]:
    """Every file of a node by path. `pods` is the cluster's range; `image_names` gives images further names."""
    return {
        **_host(identity),
        **_cloud_init(identity, bootstrap),
        **_kubernetes(identity),
        **_control_groups(),
        **_pod_network(pods),
        **_images(image_names, f"http://{identity.gateway}:{registry.PORT}"),
    }


def _text(content: str, mode: int = 0o644) -> NodeFile:
    return NodeFile(content.encode(), mode)


def _host(identity: Identity) -> dict[str, NodeFile]:
    name, address = identity.name, identity.address
    interfaces = (
        "auto lo\niface lo inet loopback\n\nauto host0\niface host0 inet static\n"
        f"  address {address}/{identity.prefix_length}\n  gateway {identity.gateway}\n"
    )
    return {
        "/etc/hostname": _text(f"{name}\n"),
        "/etc/hosts": _text(f"127.0.0.1 localhost\n{address} {name}\n"),
        "/etc/network/interfaces": _text(interfaces),
        # Nobody answers there: names outside of the cluster fail at once instead of after a time.
        "/etc/resolv.conf": _text(f"nameserver {identity.gateway}\noptions timeout:1 attempts:1\n"),
        "/etc/sysctl.d/90-node.conf": _text("net.ipv4.ip_forward = 1\n"),
    }


def _cloud_init(identity: Identity, bootstrap: bytes) -> dict[str, NodeFile]:
    """The NoCloud data source, and of cloud-init the modules that Cluster API's bootstrap data use."""
    meta_data = {"instance-id": identity.instance_id, "local-hostname": identity.name, "local_hostname": identity.name}
    settings = {
        "datasource_list": ["NoCloud"],
        "network": {"config": "disabled"},
        "users": [],
        "cloud_init_modules": ["bootcmd", "write-files", "disk_setup", "mounts", "users-groups"],
        "cloud_config_modules": ["ntp", "timezone", "runcmd"],
        # Names of images, then what the bootstrap data run, then the pod network.
        "cloud_final_modules": ["scripts-per-instance", "scripts-user", "scripts-per-boot"],
    }
    return {
        f"{_SEED}/meta-data": _text(json.dumps(meta_data)),
        f"{_SEED}/user-data": NodeFile(bootstrap, 0o600),
        "/etc/cloud/cloud.cfg.d/99-node.cfg": _text(json.dumps(settings, indent=1) + "\n"),
    }


def _kubernetes(identity: Identity) -> dict[str, NodeFile]:
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "providerID": identity.provider_id,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
    }
    checks = ",".join(PREFLIGHT)
    proxy = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        # The limit of tracked connections is the host's: in a container it can only be read.
        "conntrack": {"maxPerCore": 0},
    }
    kubeadm = (
        "#!/bin/sh\n"
        "# kubeadm, told which of its checks are about the host that nodes share, what kube-proxy leaves alone, and\n"
        "# unless the manifest has patches of its own to look at static pods every second.\n"
        f"checks={checks}\n"
        'case "$1 $2" in "init --config" | "join --config")\n'
        "  grep -q '^patches:' \"$3\" ||\n"
        rf"    sed -i -E 's,^kind: (Init|Join)Configuration$,&\npatches:\n  directory: {PATCHES},' "
        '"$3" ;;\n'
        "esac\n"
        'case "$1 $2" in\n'
        '"init --config")\n'
        f'  grep -q KubeProxyConfiguration "$3" || cat {PROXY_CONFIGURATION} >> "$3"\n'
        '  exec /usr/local/bin/kubeadm "$@" --ignore-preflight-errors="$checks" ;;\n'
        '"init "* | "join "*) exec /usr/local/bin/kubeadm "$@" --ignore-preflight-errors="$checks" ;;\n'
        '*) exec /usr/local/bin/kubeadm "$@" ;;\n'
        "esac\n"
    )
    return {
        f"{KUBELET_DROPINS}/10-node.conf": _text(json.dumps(kubelet, indent=1) + "\n"),
        # The last flag counts: Cluster API's are before it, and manifests ask for systemd's control groups.
        "/etc/default/kubelet": _text(f"KUBELET_EXTRA_ARGS=--config-dir={KUBELET_DROPINS} --cgroup-driver=cgroupfs\n"),
        "/usr/local/sbin/kubeadm": _text(kubeadm, 0o755),
        **{f"{PATCHES}/{name}0+strategic.json": _text(_watched_closely(name)) for name in STATIC_PODS},
        PROXY_CONFIGURATION: _text(f"---\n{json.dumps(proxy, indent=1)}\n"),
    }


def _watched_closely(name: str) -> str:
    """A patch of a static pod's probes. kubeadm's first check comes after ten seconds: the pod is ready after three."""
    probe = {"initialDelaySeconds": 1, "periodSeconds": 1, "failureThreshold": 240}
    return json.dumps({"spec": {"containers": [{"name": name, "startupProbe": probe}]}}) + "\n"


def _control_groups() -> dict[str, NodeFile]:
    """On cgroup v1 systemd-nspawn mounts most hierarchies read-only; they show this node's sub-tree alone."""
    script = (
        "#!/bin/sh\n"
        "while read -r _ point kind options _; do\n"
        '  case "$kind $options" in\n'
        '  "cgroup "ro*) mount -o remount,bind,rw "$point" ;;\n'
        "  esac\n"
        "done < /proc/self/mounts\n"
    )
    unit = (
        "[Unit]\nDescription=Control groups for kubelet\nDefaultDependencies=no\n"
        "Before=basic.target containerd.service kubelet.service\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/sbin/node-control-groups\n"
        "[Install]\nWantedBy=basic.target\n"
    )
    name = "node-control-groups.service"
    return {
        "/usr/local/sbin/node-control-groups": _text(script, 0o755),
        f"{_UNITS}/{name}": _text(unit),
        f"{_UNITS}/basic.target.wants/{name}": NodeFile(link=f"{_UNITS}/{name}"),
    }


def _pod_network(pods: str) -> dict[str, NodeFile]:
    """Replaces kindnetd on a node: the CNI configuration with the node's pod CIDR.

    Traffic to pods keeps its source address; traffic out of the cluster is masqueraded.
    """
    conflist = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni-ipam-state",
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "ranges": [[{"subnet": "@POD_RANGE@"}]],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    script = (
        "#!/bin/sh\n"
        "# Waits for the range that the cluster gives this node, then configures the plugins with it.\n"
        "[ -e /etc/kubernetes/kubelet.conf ] || exit 0\n"
        "nft -f /usr/local/share/pods.nft\n"
        f"[ ! -e {POD_RANGE} ] || exit 0\n"
        # Of the collection, because kubelet may not have registered the node yet.
        "timeout 300 kubectl --kubeconfig /etc/kubernetes/kubelet.conf get nodes --watch "
        '--field-selector metadata.name="$(hostname)" '
        "-o 'jsonpath={.spec.podCIDR}{\"\\n\"}' | while read -r range; do\n"
        '  [ -n "$range" ] || continue\n'
        f'  sed "s,@POD_RANGE@,$range," /usr/local/share/pods.conflist > {CNI_CONFIGURATION}\n'
        f'  echo "$range" > {POD_RANGE}\n'
        "  pkill -P $$ -x timeout\n"
        "  break\n"
        "done\n"
        f"[ -e {POD_RANGE} ]\n"
    )
    outside = (
        "table ip node-pods {\n"
        "  chain outside {\n"
        "    type nat hook postrouting priority srcnat;\n"
        f"    ip saddr {pods} ip daddr != {pods} oifname host0 masquerade\n"
        "  }\n"
        "}\n"
    )
    return {
        "/usr/local/share/pods.nft": _text(outside),
        "/usr/local/share/pods.conflist": _text(json.dumps(conflist, indent=1) + "\n"),
        f"{_SCRIPTS}/per-boot/pod-network": _text(script, 0o755),
        "/etc/cni/net.d/.keep": _text(""),
    }


def _images(names: Mapping[str, Sequence[str]], mirror: str) -> dict[str, NodeFile]:
    """Additional names for the images of the base; other images are pulled from a registry on the bridge."""
    hosts = f'[host."{mirror}"]\n  capabilities = ["pull", "resolve"]\n'
    files = {"/etc/containerd/certs.d/_default/hosts.toml": _text(hosts)}
    tag = "ctr --namespace k8s.io images tag --force"
    lines = [f"{tag} {' '.join((image, *others))} > /dev/null\n" for image, others in names.items()]
    if lines:
        script = "#!/bin/sh\n# The names by which clusters ask for images of the base.\nset -e\n"
        files[f"{_SCRIPTS}/per-instance/image-names"] = _text(script + "".join(lines), 0o755)
    return files
