"""The repository that a FluxConfig or GitOpsConfig names, with its defaults filled in, and the credentials for it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from espalier.api.eksa.gitops import FluxConfig, Github, GithubProviderConfig, GitOpsConfig
from espalier.api.meta import Tree
from espalier.gitops.hub import SERVER
from espalier.gitops.layout import FLUX_NAMESPACE, base_of
from espalier.gitops.repository import Access

GITHUB_USER = "git"
"""GitHub takes a token as the password of any user."""


class NoRepository(ValueError):
    """A configuration that names no repository."""


@dataclass(frozen=True)
class Target:
    """Where the files of a management cluster and of its workload clusters are."""

    url: str
    branch: str
    base: str
    """Folder in the repository."""
    namespace: str
    """Of Flux."""

    @property
    def is_ssh(self) -> bool:
        """True if it is reached by SSH: a key and known hosts are needed; else a user and a password or token."""
        return self.url.startswith("ssh://")


def target_of(config: FluxConfig | GitOpsConfig, management: str, server: str = SERVER) -> Target:
    """The repository of a management cluster of this name; `server` is that of GitHub. Raises `NoRepository`."""
    if isinstance(config, GitOpsConfig):
        hub = config.spec.flux.github if config.spec.flux is not None else None
        if hub is None:
            raise NoRepository(f"GitOpsConfig {config.metadata.name}: spec.flux.github is missing; name a repository")
        return Target(
            f"{server}/{hub.owner}/{hub.repository}.git",
            hub.branch or "main",
            base_of(management, hub.cluster_config_path),
            hub.flux_system_namespace or FLUX_NAMESPACE,
        )
    spec = config.spec
    if spec.github is not None:
        url = f"{server}/{spec.github.owner}/{spec.github.repository}.git"
    elif spec.git is not None:
        url = spec.git.repository_url
    else:
        raise NoRepository(f"FluxConfig {config.metadata.name}: found neither spec.git nor spec.github; give either")
    base = base_of(management, spec.cluster_config_path)
    return Target(url, spec.branch or "main", base, spec.system_namespace or FLUX_NAMESPACE)


def hub_of(config: FluxConfig | GitOpsConfig) -> GithubProviderConfig | Github | None:
    """The owner and name of a repository at GitHub; None for one at another server."""
    if isinstance(config, GitOpsConfig):
        return config.spec.flux.github if config.spec.flux is not None else None
    return config.spec.github


@dataclass(frozen=True)
class Credentials:
    """Credentials for a repository: user and password (or token), or an SSH key without passphrase and the known hosts
    (contents of files). They are given to Flux in a Secret, and written nowhere else.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    identity: bytes = field(default=b"", repr=False)
    known_hosts: bytes = b""

    def lacking(self, target: Target) -> str:
        """The missing credentials for a repository, as a sentence; empty if nothing is."""
        if target.is_ssh:
            names = {"private key": self.identity, "known hosts": self.known_hosts}
            missing = [f"no {name}" for name, content in names.items() if not content]
            return f"{target.url}: found {' and '.join(missing)}" if missing else ""
        return "" if self.password else f"{target.url}: found no token or password"

    def secret(self, name: str, namespace: str) -> Tree:
        """The Secret by which Flux reaches the repository."""
        data = {
            "username": (self.username or GITHUB_USER).encode() if self.password else b"",
            "password": self.password.encode(),
            "identity": self.identity,
            "known_hosts": self.known_hosts,
        }
        return {
            "metadata": {"name": name, "namespace": namespace},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items() if value},
        }

    @contextmanager
    def access(self, target: Target) -> Iterator[Access]:
        """The same for us, while the block lasts: ssh reads files."""
        with tempfile.TemporaryDirectory(prefix="espalier-git-") as folder:
            files: dict[str, Path | None] = {}
            for name, content in (("identity", self.identity), ("known_hosts", self.known_hosts)):
                files[name] = Path(folder, name) if content else None
                if content:
                    Path(folder, name).touch(mode=0o600)
                    Path(folder, name).write_bytes(content)
            username = (self.username or GITHUB_USER) if self.password else None
            yield Access(target.url, username, self.password or None, files["identity"], files["known_hosts"])
