"""Setup of every node of a cluster before kubeadm runs: a proxy, and a mirror of registries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from espalier.api.capi.kubeadm import File, FileSource, SecretKey
from espalier.api.core import Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.network import ProxyConfiguration, Ranges, RegistryMirrorConfiguration
from espalier.clusterapi.contract import MOVE_LABELS
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cluster import meta

CREDENTIALS = "registry-credentials"
"""The Secret with `username` and `password` for mirrors that require them, as in EKS Anywhere."""

PROXY_FILE = "/etc/systemd/system/containerd.service.d/http-proxy.conf"
APPENDED = "/etc/containerd/config_append.toml"
_LOCAL = ("localhost", "127.0.0.1", ".svc")


class Setup(NamedTuple):
    """Files and commands, in order."""

    files: list[File]
    commands: list[str]


NOTHING = Setup([], [])


class _File(NamedTuple):
    path: str
    content: str
    key: str = ""
    """The Secret's field with the content, if it contains a password."""


def setup(render_input: RenderInput) -> Setup:
    """The setup; empty for most clusters."""
    files = [_written(render_input, file) for file in _files(render_input)]
    appends = (
        [f"cat {APPENDED} >> /etc/containerd/config.toml"] if render_input.spec.registry_mirror_configuration else []
    )
    restarts = ["systemctl daemon-reload", "systemctl restart containerd"] if files else []
    return Setup(files, [*appends, *restarts])


def needs_secret(spec: eksa.ClusterSpec) -> bool:
    """True if nodes get files with passwords."""
    return asks_for_password(spec) or (spec.proxy_configuration is not None and _has_password(spec.proxy_configuration))


def asks_for_password(spec: eksa.ClusterSpec) -> bool:
    """True if the registry mirror requires a password."""
    mirror = spec.registry_mirror_configuration
    return mirror is not None and mirror.authenticate


def secret_name(cluster: str) -> str:
    """Name of the Secret with the files that contain passwords: a new one is used by new machines, and replaces
    none.
    """
    return f"{cluster}-node-files"


def secret(render_input: RenderInput) -> Secret:
    """The same Secret, with content."""
    metadata = meta(render_input, secret_name(render_input.name))
    metadata.labels = metadata.labels | MOVE_LABELS
    return Secret(
        metadata=metadata,
        type="Opaque",
        data={file.key: file.content.encode() for file in _files(render_input) if file.key},
    )


def _files(render_input: RenderInput) -> Iterator[_File]:
    if (proxy := render_input.spec.proxy_configuration) is not None:
        yield _proxy(render_input, proxy)
    if (mirror := render_input.spec.registry_mirror_configuration) is not None:
        yield from _mirror(render_input, mirror)


def _written(render_input: RenderInput, file: _File) -> File:
    if not file.key:
        return File(path=file.path, owner="root:root", permissions="0644", content=file.content)
    source = FileSource(secret=SecretKey(name=secret_name(render_input.name), key=file.key))
    return File(path=file.path, owner="root:root", permissions="0600", content_from=source)


def _has_password(proxy: ProxyConfiguration) -> bool:
    return "@" in proxy.http_proxy or "@" in proxy.https_proxy


def reached_directly(render_input: RenderInput, proxy: ProxyConfiguration) -> list[str]:
    """Hosts that bypass the proxy, in the order of EKS Anywhere."""
    network = render_input.spec.cluster_network
    ranges = [*_ranges(network.pods), *_ranges(network.services)] if network is not None else []
    return list(dict.fromkeys([*ranges, *proxy.no_proxy, *_LOCAL, *render_input.provider.no_proxy(render_input)]))


def _proxy(render_input: RenderInput, proxy: ProxyConfiguration) -> _File:
    variables = {
        "HTTP_PROXY": proxy.http_proxy,
        "HTTPS_PROXY": proxy.https_proxy,
        "NO_PROXY": ",".join(reached_directly(render_input, proxy)),
    }
    # In a unit, a percent sign begins a specifier unless it is doubled.
    lines = ["[Service]", *(f'Environment="{name}={value}"'.replace("%", "%%") for name, value in variables.items())]
    return _File(PROXY_FILE, "\n".join(lines) + "\n", "http-proxy.conf" if _has_password(proxy) else "")


def _ranges(ranges: Ranges | None) -> list[str]:
    return ranges.cidr_blocks if ranges is not None else []


def _mirror(render_input: RenderInput, mirror: RegistryMirrorConfiguration) -> Iterator[_File]:
    append = f'[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "{registry_mirror.FOLDER}"\n'
    yield _File(APPENDED, append)
    if path := registry_mirror.authority(mirror):
        yield _File(path, mirror.ca_cert_content)
    credentials = next((data for name, data in render_input.data.items() if name.endswith(f"/{CREDENTIALS}")), {})
    for host in registry_mirror.hosts(mirror):
        content = registry_mirror.file(mirror, host, credentials if mirror.authenticate else None)
        yield _File(host.path, content, host.key if mirror.authenticate else "")
