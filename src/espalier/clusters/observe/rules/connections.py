"""Rules about proxies and registry mirrors: a machine that reaches no registry never becomes a node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.network import PROXY_ADDRESS, ProxyConfiguration, RegistryMirrorConfiguration
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.vocabulary import sentences
from espalier.api.text.violations import Violation, shown
from espalier.clusters.design.registry_mirror import DEFAULT_REGISTRY
from espalier.clusters.observe.rules import messages
from espalier.releases.contents import images

_PROXY = re.compile(PROXY_ADDRESS)
_CREDENTIALS = re.compile("^(https?://)?[^/@ ]+@")
_EXAMPLE = "http://proxy.example.com:3128"
_PORT = re.compile(r"[0-9]{1,5}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\]")
_REGISTRY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")
_NAMESPACE = re.compile(r"([A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)?")
_UNSAFE = re.compile(r'[\s"\\,]')


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Proxies and registry mirrors that nodes could not use."""
    if spec.proxy_configuration is not None:
        yield from _proxy(spec.proxy_configuration)
    if spec.registry_mirror_configuration is not None:
        yield from _mirror(spec.registry_mirror_configuration)


def warnings(spec: eksa.ClusterSpec, bundles: Bundles | None) -> Iterator[str]:
    """A registry mirror that has not all images of the release. `bundles` are those of the cluster, if they exist."""
    mirror = spec.registry_mirror_configuration
    if mirror is None or not mirror.oci_namespaces:
        return
    entries = bundles.spec.versions_bundles if bundles is not None else []
    used = {uri.partition("/")[0] for entry in entries for uri in images(entry).values()} or {DEFAULT_REGISTRY}
    if missing := used - {mapping.registry for mapping in mirror.oci_namespaces}:
        yield f"spec.registryMirrorConfiguration.ociNamespaces: {messages.not_mirrored(missing)}"


def without_credentials(proxy: ProxyConfiguration) -> ProxyConfiguration:
    """The proxy's address, without user and password."""
    http, https = (_CREDENTIALS.sub(r"\1", url) for url in (proxy.http_proxy, proxy.https_proxy))
    return replace(proxy, http_proxy=http, https_proxy=https)


def _proxy(proxy: ProxyConfiguration) -> Iterator[Violation]:
    field = "spec.proxyConfiguration"
    for name, value in (("httpProxy", proxy.http_proxy), ("httpsProxy", proxy.https_proxy)):
        if not value:
            yield Violation(f"{field}.{name}", "nothing", _EXAMPLE, sentences.BOTH_PROXIES)
        elif not _PROXY.fullmatch(value) or _UNSAFE.search(value) or not _is_port(value.rstrip("/").rpartition(":")[2]):
            shown_value = sentences.PROXY_WITH_USER if "@" in value else value
            yield Violation(f"{field}.{name}", shown_value, _EXAMPLE, sentences.PROXY_ADDRESS)
    for index, name in enumerate(proxy.no_proxy):
        if not name or _UNSAFE.search(name):
            allowed = "a name, an address or a range"
            yield Violation(f"{field}.noProxy[{index}]", name or "nothing", allowed, "give one name for each item")


def _mirror(mirror: RegistryMirrorConfiguration) -> Iterator[Violation]:
    field = "spec.registryMirrorConfiguration"
    if not mirror.endpoint:
        yield Violation(f"{field}.endpoint", "nothing", "a name or an address", sentences.MIRROR_ENDPOINT)
    elif not _HOST.fullmatch(mirror.endpoint):
        message = "omit scheme and port: the scheme is https, and the port has its own field"
        yield Violation(f"{field}.endpoint", mirror.endpoint, "a name or an address", message)
    if mirror.port and not _is_port(mirror.port):
        yield Violation(f"{field}.port", mirror.port, "1 to 65535, in quotes", sentences.MIRROR_PORT)
    if mirror.ca_cert_content and not is_certificates(mirror.ca_cert_content):
        message = "containerd verifies the mirror with it"
        yield Violation(f"{field}.caCertContent", shown("…"), "certificates as PEM", message)
    seen: set[str] = set()
    for index, mapping in enumerate(mirror.oci_namespaces):
        at = f"{field}.ociNamespaces[{index}]"
        if not _REGISTRY.fullmatch(mapping.registry):
            yield Violation(
                f"{at}.registry", mapping.registry or "nothing", "a registry like public.ecr.aws", "not a registry"
            )
        elif mapping.registry in seen:
            yield Violation(
                f"{at}.registry", mapping.registry, "", "duplicate registry: one of the two would be dropped"
            )
        seen.add(mapping.registry)
        if not _NAMESPACE.fullmatch(mapping.namespace):
            yield Violation(
                f"{at}.namespace", mapping.namespace, "a path like eks-anywhere/images", "not a path of a registry"
            )


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and 0 < int(text) < 65536


def is_certificates(text: str) -> bool:
    """True for PEM certificates."""
    from cryptography import x509  # noqa: PLC0415  loads much, which most commands do not need

    try:
        return bool(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False
