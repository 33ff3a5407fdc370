"""A registry mirror from the nodes' point of view: the registries that it mirrors, and its host configuration for
containerd. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple

from espalier.api.capi.etcdadm import EtcdRegistryMirror
from espalier.api.eksa.parts.network import RegistryMirrorConfiguration

DEFAULT_PORT = "443"
DEFAULT_REGISTRY = "public.ecr.aws"
FOLDER = "/etc/containerd/certs.d"


class Host(NamedTuple):
    """A registry, and its mirror."""

    registry: str
    server: str
    """The registry itself, as a fallback for images that the mirror lacks."""
    endpoint: str
    """The mirror's API for it."""

    @property
    def images(self) -> str:
        """The mirror's prefix in names of images, instead of the registry's."""
        return self.endpoint.removeprefix("https://").replace("/v2", "", 1)

    @property
    def path(self) -> str:
        """The path of its file for containerd."""
        return f"{FOLDER}/{self.registry}/hosts.toml"

    @property
    def key(self) -> str:
        """The Secret's field with the file, if it contains a password."""
        return f"{self.registry.replace(':', '_')}.toml"  # no registry has an underscore in its name


def base(mirror: RegistryMirrorConfiguration) -> str:
    """Address and port of a mirror."""
    return f"{mirror.endpoint}:{mirror.port or DEFAULT_PORT}"


def authority(mirror: RegistryMirrorConfiguration) -> str:
    """The file with the mirror's CA certificate; empty without one."""
    return f"{FOLDER}/{base(mirror)}/ca.crt" if mirror.ca_cert_content else ""


def hosts(mirror: RegistryMirrorConfiguration) -> list[Host]:
    """The mirror under its own name, and the registries that it mirrors."""
    own = base(mirror)
    namespaces = {mapping.registry: mapping.namespace for mapping in mirror.oci_namespaces} or {DEFAULT_REGISTRY: ""}
    hosts = {own: Host(own, f"https://{own}", f"https://{own}")}
    for registry, namespace in namespaces.items():
        hosts[registry] = Host(registry, f"https://{registry}", f"https://{own}/v2/{namespace}".rstrip("/"))
    return list(hosts.values())


def endpoints(mirror: RegistryMirrorConfiguration) -> dict[str, str]:
    """The mirror's address for each registry, with its path, as machines without hosts.toml have it."""
    own = base(mirror)
    namespaces = {mapping.registry: mapping.namespace for mapping in mirror.oci_namespaces} or {DEFAULT_REGISTRY: ""}
    return {registry: f"{own}/v2/{namespace}" if namespace else own for registry, namespace in namespaces.items()}


def of_etcd(mirror: RegistryMirrorConfiguration | None) -> EtcdRegistryMirror | None:
    """The mirror of etcd machines, which know a single registry, that of EKS Distro; None if it is not mirrored."""
    endpoint = endpoints(mirror).get(DEFAULT_REGISTRY) if mirror is not None else None
    return EtcdRegistryMirror(endpoint=endpoint, ca_cert=mirror.ca_cert_content) if mirror and endpoint else None


def file(mirror: RegistryMirrorConfiguration, host: Host, credentials: Mapping[str, bytes] | None = None) -> str:
    """The hosts.toml of a registry."""
    lines = [f'server = "{host.server}"', "", f'[host."{host.endpoint}"]', '  capabilities = ["pull", "resolve"]']
    if host.registry != base(mirror):
        lines.append("  override_path = true")
    if path := authority(mirror):
        lines.append(f'  ca = "{path}"')
    if mirror.insecure_skip_verify:
        lines.append("  skip_verify = true")
    if credentials is not None:
        both = credentials.get("username", b"") + b":" + credentials.get("password", b"")
        basic = base64.b64encode(both).decode()
        lines += [f'  [host."{host.endpoint}".header]', f'    authorization = "Basic {basic}"']
    return "\n".join(lines) + "\n"
