"""Sources of tokens and client certificates, and their renewal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from espalier.api.trees import json_trees
from espalier.kube.connection.access import Access, ExecPlugin, RedactedRepr
from espalier.kube.errors import KubeError

_TOKEN_FILE_AGE = 60.0
"""Seconds after which a token file is read again; service account tokens are rotated well before they expire."""


class CredentialsError(KubeError):
    """No credentials are available; the request was not sent."""


class Credential(RedactedRepr, frozen=True):
    """Credentials of a request; either part may be missing. Not part of the printed form."""

    token: str = ""
    certificate: bytes | None = None
    key: bytes | None = None


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """The credential for the next request. Raises `CredentialsError`."""

    def reject(self, credential: Credential) -> bool:
        """The server refused `credential` (401); returns True if `current` may return another one."""


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """The credential."""
        return self._credential

    def reject(self, credential: Credential) -> bool:
        """There are no others."""
        return False


class TokenFile:
    """A token in a file that is renewed by others."""

    def __init__(self, path: Path, fixed: Credential) -> None:
        self._path = path
        self._fixed = fixed
        self._token = ""
        self._read_at = float("-inf")

    async def current(self) -> Credential:
        """The token in the file, read at most a minute ago."""
        now = asyncio.get_running_loop().time()
        if now - self._read_at >= _TOKEN_FILE_AGE:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                raise CredentialsError(f"cannot read the token file {self._path}: {error.strerror}") from error
            self._read_at = now
        return Credential(self._token, self._fixed.certificate, self._fixed.key)

    def reject(self, credential: Credential) -> bool:
        """The file may have a newer token."""
        self._read_at = float("-inf")
        return True


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    status: _ExecStatus


class ExecCredentials:
    """Credentials of a plugin, cached until they expire or the server refuses them.

    `now` tells the wall clock time that expiry is compared with; `interactive` whether there is a terminal.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        now: Callable[[], datetime],
        interactive: bool,
        environment: Mapping[str, str],
    ) -> None:
        self._plugin = plugin
        self._now = now
        self._interactive = interactive and plugin.interactive_mode != "Never"
        self._environment = environment
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None

    async def current(self) -> Credential:
        """The plugin's credential; concurrent callers wait for one run of it."""
        async with self._lock:
            if self._credential is None or (self._expires is not None and self._now() >= self._expires):
                status = _read_output(self._plugin, await self._run())
                self._expires = status.expiration_timestamp
                if self._expires is not None and self._expires.tzinfo is None:
                    self._expires = self._expires.replace(tzinfo=UTC)
                certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
                self._credential = Credential(status.token, certificate or None, key or None)
            return self._credential

    def reject(self, credential: Credential) -> bool:
        """Run the plugin again."""
        if self._credential is credential:
            self._credential = None
        return True

    async def _run(self) -> bytes:
        plugin = self._plugin
        if plugin.interactive_mode == "Always" and not self._interactive:
            raise CredentialsError(f"the credential plugin {plugin.command} needs a terminal, and there is none")
        spec: dict[str, Any] = {"interactive": self._interactive}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**self._environment, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=None if self._interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
            raise CredentialsError(
                f"cannot run the credential plugin {plugin.command}: {error.strerror}{hint}"
            ) from error
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise CredentialsError(f"the credential plugin {plugin.command} failed with exit code {process.returncode}")
        return output


def credentials_of(
    access: Access, *, now: Callable[[], datetime], environment: Mapping[str, str] | None = None
) -> Credentials:
    """The source of credentials that `access` names."""
    fixed = Credential(access.token, access.client_certificate, access.client_key)
    if access.exec_plugin is not None:
        terminal = sys.stdin is not None and sys.stdin.isatty()
        variables = os.environ if environment is None else environment
        return ExecCredentials(access.exec_plugin, now=now, interactive=terminal, environment=variables)
    if access.token_file is not None:
        return TokenFile(access.token_file, fixed)
    return FixedCredentials(fixed)


def _read_output(plugin: ExecPlugin, output: bytes) -> _ExecStatus:
    """The credential that a plugin printed. The output is secret: no error shows it."""
    try:
        answer = json_trees.decode(output, _ExecCredential)
    except msgspec.MsgspecError:
        raise CredentialsError(f"the credential plugin {plugin.command} did not print an ExecCredential") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise CredentialsError(
            f"the credential plugin {plugin.command} printed a {answer.kind} of {answer.api_version}, "
            f"not an ExecCredential of {plugin.api_version}"
        )
    status = answer.status
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialsError(
            f"the credential plugin {plugin.command} gave a client certificate or a key without the other"
        )
    if not status.token and not status.client_certificate_data:
        raise CredentialsError(f"the credential plugin {plugin.command} gave neither a token nor a client certificate")
    return status
