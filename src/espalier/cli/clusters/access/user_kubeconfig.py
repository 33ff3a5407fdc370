"""Kubeconfigs of workload clusters for named users and groups: short-lived certificates of the cluster's authority."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from espalier.api.core import LEAST_VALIDITY
from espalier.api.resource import Key
from espalier.cli.kit import flags
from espalier.cli.kit.connecting.connection import files_of
from espalier.cli.kit.failures import Failure, Usage
from espalier.kube import client_certificates
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import KeyPair
from espalier.kube.errors import Forbidden, KubeError, NotIssued
from espalier.runtime.workload_clusters import remote
from espalier.runtime.workload_clusters.remote import Connect

LEAST, MOST, DEFAULT = float(LEAST_VALIDITY), 86400.0, 3600.0
"""Seconds of validity: Kubernetes signs for ten minutes at least, and a certificate can't be revoked."""
API_VERSION = "client.authentication.k8s.io/v1"
_RESERVED = {"system:": "Kubernetes", "espalier:": "Espalier's manager"}
"""Beginnings of names, and whose they are."""
_LONGEST_NAME = 64
"""Characters of an X.509 common name or organization."""


class Form(Enum):
    """Forms in which a user's access is printed."""

    CERTIFICATE = "a kubeconfig with a certificate"
    PLUGIN = "a kubeconfig whose exec plugin obtains certificates"
    CREDENTIAL = "the credential that kubectl reads from the exec plugin"

    @classmethod
    def of(cls, *, exec_plugin: bool, credential: bool) -> Form:
        """From flags."""
        return cls.CREDENTIAL if credential else cls.PLUGIN if exec_plugin else cls.CERTIFICATE


@dataclass(frozen=True)
class ClusterUser:
    """A user of a workload cluster, for whom a certificate is wanted."""

    name: str
    groups: tuple[str, ...]
    seconds: float

    async def content(self, administrator: bytes, key: Key, form: Form, connection: flags.Connection) -> bytes:
        """The access of this user to a cluster, obtained by its administrator's kubeconfig.

        Raises `Failure` if the cluster issues no certificate, `KubeconfigError` for an invalid kubeconfig.
        """
        access = Kubeconfig.parse(administrator, source=f"the kubeconfig of cluster {key}").context()
        if form is Form.PLUGIN:
            return _with_plugin(access, self, key, connection)
        if form is Form.CREDENTIAL and sys.stdout.isatty():
            advice = "use --exec for a kubeconfig that calls it"
            raise Failure(f"--credential prints a private key, for kubectl to read; {advice}")
        pair = await _issue(remote.over_http, administrator, self, key)
        return _credential(pair) if form is Form.CREDENTIAL else _kubeconfig(access, self, key, pair)

    @classmethod
    def of(cls, name: str, groups: Sequence[str], ttl: str) -> ClusterUser:
        """From flags. Raises `Usage`."""
        seconds = flags.seconds(ttl, "--ttl") if ttl else DEFAULT
        if not LEAST <= seconds <= MOST:
            raise Usage(f"--ttl: found {ttl}, allowed: from 10m to 24h")
        for flag, value in (("--user", name), *(("--group", group) for group in groups)):
            _check_name(flag, value)
        return cls(name, tuple(dict.fromkeys(groups)), seconds)


async def _issue(connect: Connect, administrator: bytes, user: ClusterUser, key: Key) -> KeyPair:
    """A certificate for a user of a cluster, obtained as its administrator. Raises `Failure` if it issues none."""
    client = connect(administrator)
    try:
        pair = await client_certificates.issue(client, user.name, user.groups, seconds=user.seconds)
    except NotIssued as error:
        raise Failure(f"cluster {key} issued no certificate: {error}") from None
    except Forbidden as error:
        raise Failure(f"cluster {key} issues no such certificate: {error}") from None
    except KubeError as error:
        raise Failure(f"cluster {key} can't be asked for a certificate: {error}") from None
    finally:
        await client.close()
    return pair


def _with_plugin(access: Access, user: ClusterUser, key: Key, connection: flags.Connection) -> bytes:
    """A kubeconfig without credentials, whose user is obtained by this command whenever they are needed."""
    arguments = ["kubeconfig", key.name, "--credential", "--namespace", key.namespace, "--user", user.name]
    arguments += [word for group in user.groups for word in ("--group", group)]
    arguments += ["--ttl", f"{user.seconds:.0f}s"]
    # This kubeconfig may become kubectl's own, and so the command's: what names the management cluster is fixed here.
    files = files_of(connection)
    arguments += ["--context", connection.context or Kubeconfig.load(files).current_context]
    plugin = {
        "apiVersion": API_VERSION,
        "command": "espalier",
        "args": arguments,
        "env": [{"name": "KUBECONFIG", "value": os.pathsep.join(str(file.absolute()) for file in files)}],
        "interactiveMode": "Never",
        "provideClusterInfo": False,
        "installHint": "install espalier, and give it a kubeconfig of the management cluster",
    }
    return _kubeconfig(access, user, key, plugin)


def _credential(pair: KeyPair) -> bytes:
    """The credential that kubectl reads from an exec plugin."""
    status: dict[str, Any] = {
        "clientCertificateData": pair.certificate.decode(),
        "clientKeyData": pair.key.decode(),
        "expirationTimestamp": pair.not_after.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}).encode() + b"\n"


def _kubeconfig(access: Access, user: ClusterUser, key: Key, credentials: KeyPair | Mapping[str, Any]) -> bytes:
    return Kubeconfig.of_cluster(
        key.name,
        server=access.server,
        certificate_authority=access.certificate_authority or b"",
        user=user.name,
        credentials=credentials,
    ).to_bytes()


def _check_name(flag: str, value: str) -> None:
    """Raise `Usage` for a name that no certificate can have, or that belongs to Kubernetes itself."""
    if not value or not value.isprintable():
        raise Usage(f"{flag}: found {value!r}, allowed is a name of printable characters")
    if len(value) > _LONGEST_NAME:
        raise Usage(
            f"{flag}: found {len(value)} characters, allowed are {_LONGEST_NAME}: that is all a certificate has"
        )
    for beginning, owner in _RESERVED.items():
        if value.startswith(beginning):
            raise Usage(
                f"{flag}: found {value}; names that begin with {beginning} belong to {owner}. "
                "Allowed is any other name: bind a role to it in the cluster"
            )
