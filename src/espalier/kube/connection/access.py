"""Access to one API server: the result of a kubeconfig context or a pod's service account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

LARGEST_ANSWER = 64 * 1024**2
"""The maximum bytes of a response, or of a watch event. Only pages of enormous objects are larger; then the client
requests smaller pages."""

LARGEST_REMOTE_ANSWER = 8 * 1024**2
"""The same for API servers of others (workload clusters), which share this process. An object has at most 3 MiB."""


def without_user(url: str) -> str:
    """An address without user name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


InteractiveMode = Literal["Never", "IfAvailable", "Always"]


class RedactedRepr(msgspec.Struct, frozen=True):
    """A value of which only the fields that `shown` names are printed: the others are secret, or may be."""

    shown: ClassVar[tuple[str, ...]] = ()

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.shown]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class ExecPlugin(RedactedRepr, frozen=True):
    """A credential plugin (`client.authentication.k8s.io`)."""

    shown = ("command", "api_version", "interactive_mode", "args", "install_hint", "cluster")

    command: str
    api_version: str
    interactive_mode: InteractiveMode
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """Facts of the cluster for a plugin that requests them (`provideClusterInfo`)."""


class Impersonation(msgspec.Struct, frozen=True):
    """Impersonation (`as`, `as-uid`, `as-groups`, `as-user-extra`)."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def headers(self) -> list[tuple[str, str]]:
        """The impersonation headers; one for each group."""
        headers = [("Impersonate-User", self.user)]
        if self.uid:
            headers.append(("Impersonate-Uid", self.uid))
        headers += [("Impersonate-Group", group) for group in self.groups]
        headers += [(f"Impersonate-Extra-{key}", value) for key, values in self.extra.items() for value in values]
        return headers


class Access(RedactedRepr, frozen=True):
    """Coordinates of an API server and credentials for it. Secrets are not part of the printed form.

    `certificate_authority`, `client_certificate` and `client_key` are PEM. Without a certificate authority the
    system's are trusted. A `token_file` is read again when it is a minute old, and wins over `token`. `largest_answer`
    is in bytes.
    """

    shown = (
        "server",
        "insecure_skip_tls_verify",
        "tls_server_name",
        "token_file",
        "exec_plugin",
        "impersonation",
        "namespace",
    )

    server: str
    certificate_authority: bytes | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    token: str = ""
    token_file: Path | None = None
    exec_plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None
    namespace: str = "default"
    largest_answer: int = LARGEST_ANSWER

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("server", without_user(self.server)), *super().__rich_repr__()[1:]]
