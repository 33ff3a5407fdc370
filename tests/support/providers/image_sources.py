"""Where machines pull images from: a reader of the files and settings that they are given.

It follows the programs on the machines, as their sources and docs say:

- containerd (docs/hosts.md, core/remotes/docker/config): `certs.d/REGISTRY/hosts.toml` names hosts, tried in order
  before `server`. Without `override_path`, `/v2` is appended to a host whose path has none; with it, the path is the
  root of the API.
- Bottlerocket (settings.container-registry): for each registry endpoints, tried before the registry itself; containerd
  appends `/v2` to an endpoint without a path.
- the bootstrap provider of etcdadm (pkg/userdata): one endpoint for public.ecr.aws, with `https://` before it.
"""

from __future__ import annotations

import base64
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from espalier.api.meta import Tree

FOLDER = "/etc/containerd/certs.d"
PUBLIC = "public.ecr.aws"


class Source(NamedTuple):
    """One place from which an image is pulled."""

    manifest: str
    """The URL of its manifest."""
    authority: str = ""
    """The certificates with which it is verified, besides those of the machine."""
    verified: bool = True
    account: str = ""
    """User and password, with a colon between them."""


Reader = Callable[[str], list[Source]]
"""The sources of an image, in the order in which they are tried."""


def of_machine(config: Tree, secrets: Mapping[str, Mapping[str, str]]) -> Reader:
    """The reader of a kubeadm configuration; `secrets` is the data of Secrets, decoded."""
    if config.get("format") == "bottlerocket":
        return _of_bottlerocket(config)
    files = {file["path"]: _content(file, secrets) for file in config.get("files", ())}

    def sources(image: str) -> list[Source]:
        registry, path, tag = parts(image)
        value = files.get(f"{FOLDER}/{registry}/hosts.toml")
        if value is None:
            return [Source(_manifest(f"https://{registry}/v2", path, tag))]
        assert any("config_path" in file and FOLDER in file for file in files.values()), "nobody reads the hosts.toml"
        parsed = tomllib.loads(value)
        hosts = [*parsed.get("host", {}).items(), (parsed["server"], {})]
        return [_of_host(url, settings, files, path, tag) for url, settings in hosts]

    return sources


def _of_host(url: str, settings: Mapping[str, Any], files: Mapping[str, str], path: str, tag: str) -> Source:
    assert settings == {} or {"pull", "resolve"} <= set(settings["capabilities"])
    root = url.rstrip("/") if settings.get("override_path") or "/v2" in urlsplit(url).path else f"{url.rstrip('/')}/v2"
    authority = settings.get("ca", "")
    header = settings.get("header", {}).get("authorization", "Basic ")
    return Source(
        _manifest(root, path, tag),
        authority=files[authority] if authority else "",
        verified=not settings.get("skip_verify", False),
        account=base64.b64decode(header.removeprefix("Basic ")).decode(),
    )


def _of_bottlerocket(config: Tree) -> Reader:
    results = [config[name] for name in ("clusterConfiguration", "joinConfiguration") if name in config]
    mirrors = [item.get("registryMirror") for item in results]
    assert all(mirror == mirrors[0] for mirror in mirrors), "a machine that joins would use another mirror"
    mirror = mirrors[0] or {}
    endpoints = {item["registry"]: item["endpoints"] for item in mirror.get("mirrors", ())}
    endpoints |= {PUBLIC: [mirror["endpoint"]]} if mirror.get("endpoint") else {}
    return _by_endpoints(endpoints, mirror.get("caCert", ""))


def of_etcd(config: Tree) -> Reader:
    """The reader of an etcdadm configuration."""
    mirror = config.get("registryMirror")
    if mirror is None:
        return _by_endpoints({}, "")
    return _by_endpoints({PUBLIC: [mirror["endpoint"]]}, mirror.get("caCert", ""))


def _by_endpoints(endpoints: Mapping[str, Sequence[str]], authority: str) -> Reader:
    def sources(image: str) -> list[Source]:
        registry, path, tag = parts(image)
        urls = [f"https://{item}" for item in endpoints.get(registry, ())]
        roots = [url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v2" for url in urls]
        return [
            *(Source(_manifest(root, path, tag), authority=authority) for root in roots),
            Source(_manifest(f"https://{registry}/v2", path, tag)),
        ]

    return sources


def _content(file: Tree, secrets: Mapping[str, Mapping[str, str]]) -> str:
    if "content" in file:
        return str(file["content"])
    source = file["contentFrom"]["secret"]
    return secrets[source["name"]][source["key"]]


def parts(image: str) -> tuple[str, str, str]:
    """Registry, path, and tag or digest of an image."""
    registry, _, rest = image.partition("/")
    path, at, digest = rest.partition("@")
    if at:
        return registry, path, digest
    path, _, tag = rest.rpartition(":")
    return registry, path, tag


def _manifest(root: str, path: str, tag: str) -> str:
    return f"{root}/{path}/manifests/{tag}"


def without_proxy(hosts: Sequence[str], host: str) -> bool:
    """True if a list of NO_PROXY has a host, as Go reads it: by name, by a suffix after a dot, or as an address."""
    return any(host == item or host.endswith(f".{item.lstrip('.')}") for item in hosts)
