"""Typed entries of a kubeconfig, and the access that they describe."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from espalier.kube.connection.access import (
    LARGEST_ANSWER,
    LARGEST_REMOTE_ANSWER,
    Access,
    ExecPlugin,
    Impersonation,
    InteractiveMode,
    RedactedRepr,
    without_user,
)
from espalier.kube.errors import KubeError

T = TypeVar("T")
Kind = Literal["cluster", "user", "context"]

_EXEC_VERSIONS = frozenset({"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"})


class KubeconfigError(KubeError):
    """A kubeconfig is missing or wrong; the message says where."""


class _Fields(msgspec.Struct, rename="kebab", kw_only=True):
    """Base of the entries' types; unknown fields are left alone."""


class _Cluster(_Fields):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _EnvironmentVariable(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] = msgspec.field(default_factory=list)
    env: list[_EnvironmentVariable] = msgspec.field(default_factory=list)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode | None = None


class _User(_Fields):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: list[str] = msgspec.field(name="as-groups", default_factory=list)
    impersonate_extra: dict[str, list[str]] = msgspec.field(name="as-user-extra", default_factory=dict)
    username: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: _Exec | None = None


class ContextFields(_Fields):
    """The fields of a context."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Entry(RedactedRepr, frozen=True):
    """One named entry, as it stands in its file. `folder` is None when it came from elsewhere, over the API say."""

    shown = ("kind", "name", "source", "folder")

    kind: Kind
    name: str
    fields: Mapping[str, Any]
    source: str
    folder: Path | None

    def __str__(self) -> str:
        return f'{self.source}: {self.kind} "{self.name}"'

    def local(self, field_name: str, path: str) -> Path:
        """A file or program that a field names; only files of this machine may name some."""
        if self.folder is None:
            raise KubeconfigError(f"{self}: {field_name} names a file of this machine, and only a local kubeconfig may")
        return self.folder / path

    def read(self, type_: type[T]) -> T:
        """The fields, typed. Raises `KubeconfigError` that names the wrong one."""
        try:
            return msgspec.convert(_without_nulls(self.fields), type_, strict=False)
        except msgspec.ValidationError as error:
            raise KubeconfigError(f"{self}: {error}") from None

    def data(self, field_name: str, path: str, encoded: str) -> bytes | None:
        """The content of a `<field_name>-data` field, or of the file that `<field_name>` names; the data wins."""
        if encoded:
            try:
                return base64.b64decode("".join(encoded.split()), validate=True)
            except binascii.Error:
                raise KubeconfigError(f"{self}: {field_name}-data is not base64") from None
        if path:
            file = self.local(field_name, path)
            try:
                return file.read_bytes()
            except OSError as error:
                raise KubeconfigError(f"{self}: {field_name}: cannot read {file}: {error.strerror}") from None
        return None


def access_of(context: Entry, cluster: Entry, user: Entry | None) -> Access:
    """The access of a context with its cluster and user. Reads the files they name."""
    fields = cluster.read(_Cluster)
    is_local = cluster.folder is not None
    for name, address in (("server", fields.server), ("proxy-url", fields.proxy_url or "http://")):
        if not address.startswith(("https://", "http://")):
            raise KubeconfigError(f"{cluster}: {name} must be an address that begins with http:// or https://")
    if without_user(fields.server) != fields.server:
        raise KubeconfigError(
            f"{cluster}: server holds a user name or password: API servers no longer accept them; use a certificate or "
            "token"
        )
    if not is_local:
        _check_guarded(cluster, fields)
    authority = cluster.data("certificate-authority", fields.certificate_authority, fields.certificate_authority_data)
    return Access(
        server=fields.server,
        certificate_authority=authority,
        insecure_skip_tls_verify=fields.insecure_skip_tls_verify,
        tls_server_name=fields.tls_server_name,
        proxy_url=fields.proxy_url,
        namespace=context.read(ContextFields).namespace or "default",
        largest_answer=LARGEST_ANSWER if is_local else LARGEST_REMOTE_ANSWER,
        **(_user(user, cluster, authority) if user else {}),
    )


def _check_guarded(cluster: Entry, fields: _Cluster) -> None:
    """Validate a kubeconfig from the API: credentials are only sent to a server that TLS authenticates."""
    if not fields.server.startswith("https://"):
        raise KubeconfigError(
            f"{cluster}: server: found an address that begins with http://; a kubeconfig that is not a local file must "
            "have one that begins with https://"
        )
    if fields.insecure_skip_tls_verify:
        raise KubeconfigError(
            f"{cluster}: insecure-skip-tls-verify: found true; a kubeconfig that is not a local file must name the "
            "authority of its server in certificate-authority-data instead"
        )


def encode_data(content: bytes) -> str:
    """The form of a `-data` field."""
    return base64.b64encode(content).decode()


def _user(entry: Entry, cluster: Entry, authority: bytes | None) -> dict[str, Any]:
    user = entry.read(_User)
    if user.username:
        raise KubeconfigError(
            f"{entry}: username and password: API servers no longer accept them; use a certificate or token"
        )
    if user.auth_provider is not None:
        raise KubeconfigError(f"{entry}: auth-provider is no longer supported; use an exec plugin")
    certificate = entry.data("client-certificate", user.client_certificate, user.client_certificate_data)
    key = entry.data("client-key", user.client_key, user.client_key_data)
    if (certificate is None) != (key is None):
        given, missing = ("client-certificate", "client-key") if key is None else ("client-key", "client-certificate")
        raise KubeconfigError(f"{entry}: {given} is given without {missing}")
    impersonation = None
    if user.impersonate:
        extra = {name: tuple(values) for name, values in user.impersonate_extra.items()}
        groups = tuple(user.impersonate_groups)
        impersonation = Impersonation(user.impersonate, user.impersonate_uid, groups, extra)
    elif user.impersonate_groups or user.impersonate_uid or user.impersonate_extra:
        raise KubeconfigError(f"{entry}: as-groups, as-uid and as-user-extra need as")
    return {
        "client_certificate": certificate,
        "client_key": key,
        "token": user.token,
        "token_file": entry.local("tokenFile", user.token_file) if user.token_file else None,
        "exec_plugin": _plugin(user.exec, entry, cluster, authority) if user.exec else None,
        "impersonation": impersonation,
    }


def _plugin(plugin: _Exec, entry: Entry, cluster: Entry, authority: bytes | None) -> ExecPlugin:
    if plugin.api_version not in _EXEC_VERSIONS:
        raise KubeconfigError(
            f"{entry}: exec.apiVersion: found {plugin.api_version!r}, allowed are {', '.join(sorted(_EXEC_VERSIONS))}"
        )
    mode = plugin.interactive_mode
    if mode is None:
        if plugin.api_version.endswith("/v1"):
            raise KubeconfigError(f"{entry}: exec.interactiveMode must be Never, IfAvailable or Always")
        mode = "IfAvailable"
    # As kubectl: a bare name is looked up in PATH, a relative path starts at the file.
    path = entry.local("exec.command", plugin.command)
    command = str(path) if os.sep in plugin.command else plugin.command
    return ExecPlugin(
        command=command,
        api_version=plugin.api_version,
        interactive_mode=mode,
        args=tuple(plugin.args),
        env={variable.name: variable.value for variable in plugin.env},
        install_hint=plugin.install_hint,
        cluster=_cluster_info(cluster, authority) if plugin.provide_cluster_info else None,
    )


def _cluster_info(entry: Entry, authority: bytes | None) -> dict[str, Any]:
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    info = {name: entry.fields[name] for name in names if entry.fields.get(name)}
    if authority is not None:
        info["certificate-authority-data"] = encode_data(authority)
    for extension in entry.fields.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _without_nulls(value: object) -> object:
    """A null means that the field is not set."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return value
