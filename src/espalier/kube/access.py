"""How to reach one API server, and as whom: what a kubeconfig context or a pod's service account comes down to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that gives credentials (`client.authentication.k8s.io`)."""

    command: str
    api_version: str
    interactive_mode: InteractiveMode
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the plugin is told about the cluster, when it asked to be (`provideClusterInfo`)."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom the user acts as (`as`, `as-uid`, `as-groups`, `as-user-extra`)."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """The request headers that say so; one for each group."""
        headers = [("Impersonate-User", self.user)]
        if self.uid:
            headers.append(("Impersonate-Uid", self.uid))
        headers += [("Impersonate-Group", group) for group in self.groups]
        headers += [(f"Impersonate-Extra-{key}", value) for key, values in self.extra.items() for value in values]
        return headers


@dataclass(frozen=True, slots=True)
class Access:
    """Coordinates of an API server and credentials for it. Secrets are not part of the printed form.

    `certificate_authority`, `client_certificate` and `client_key` are PEM. Without a certificate authority the
    system's are trusted. A `token_file` is read again when it is a minute old, and wins over `token`.
    """

    server: str
    certificate_authority: bytes | None = field(default=None, repr=False)
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    exec_plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None
    namespace: str = "default"
