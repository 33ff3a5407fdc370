"""Credentials for registries: from Docker's configuration, and the helpers that it names."""

from __future__ import annotations

import base64
import binascii
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from espalier.api.text.printable import quoted
from espalier.api.trees.json_trees import decode

HUBS = ("docker.io", "index.docker.io")
HUB = "registry-1.docker.io"
"""Where the hub of that name is served."""
HUB_KEY = "https://index.docker.io/v1/"
"""The hub's key in configurations."""
TOKEN_USER = "<token>"  # noqa: S105  a user name
"""User name by which helpers say that the secret is an identity token."""
HELPER_SECONDS = 60
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class CredentialsFailed(Exception):
    """Credentials can't be had. The message says where, and what to do."""


@dataclass(frozen=True)
class Credentials:
    """Proof of identity for a registry; all are empty for one that is asked anonymously."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """Exchanged for tokens."""
    source: str = ""
    """Where they are from, for messages."""

    @property
    def basic(self) -> str:
        """The value of a header for basic authentication; empty if there is none."""
        encoded = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Basic {encoded}" if self.user else ""


class _Entry(msgspec.Struct, rename="lower"):
    auth: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    identityToken: str = ""


class _Configuration(msgspec.Struct):
    auths: dict[str, _Entry] = {}
    credHelpers: dict[str, str] = {}
    credsStore: str = ""


class _Answer(msgspec.Struct):
    Username: str = ""
    Secret: str = ""


def configuration_file(environment: Mapping[str, str]) -> Path:
    """Docker's configuration of this user."""
    named = environment.get("DOCKER_CONFIG")
    return (Path(named) if named else Path(environment.get("HOME") or Path.home(), ".docker")) / "config.json"


def credentials_for(registry: str, environment: Mapping[str, str] = os.environ) -> Credentials:
    """The credentials for a registry. Raises `CredentialsFailed`."""
    place = configuration_file(environment)
    try:
        configuration = decode(place.read_bytes(), _Configuration)
    except (FileNotFoundError, NotADirectoryError):
        return Credentials()
    except OSError as error:
        raise CredentialsFailed(f"{place} can't be read ({error.strerror}): credentials would be there") from None
    except msgspec.MsgspecError as error:
        raise CredentialsFailed(
            f"{place} is not a configuration of Docker ({error}): correct it, or log in again"
        ) from None
    keys = [HUB_KEY, *HUBS, HUB] if registry in HUBS else [registry]
    helper = next((configuration.credHelpers[key] for key in keys if key in configuration.credHelpers), "")
    if helper := helper or configuration.credsStore:
        answer = _asked(helper, keys[0], place, environment)
        if answer is not None:
            return answer
    by_host = {_host(key): entry for key, entry in configuration.auths.items()}
    for key in keys:
        entry = configuration.auths.get(key) or by_host.get(_host(key))
        if entry is not None and (written := _written(entry, key, place)):
            return written
    return Credentials()


def _written(entry: _Entry, key: str, place: Path) -> Credentials | None:
    """The credentials that an entry has itself; None for one that only says that a helper has them."""
    source = f"{place}, auths[{key!r}]"
    if entry.identityToken:
        return Credentials(identity_token=entry.identityToken, source=source)
    if entry.auth:
        try:
            user, colon, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = user = password = ""
        if not colon:
            raise CredentialsFailed(f"{source}.auth is not USER:PASSWORD in base64: log in again")
        return Credentials(user, password.rstrip("\0"), source=source)
    return Credentials(entry.username, entry.password, source=source) if entry.username else None


def _asked(helper: str, key: str, place: Path, environment: Mapping[str, str]) -> Credentials | None:
    """The answer of a helper; None if it has no credentials for a registry."""
    program = f"docker-credential-{helper}"
    if not NAME.fullmatch(helper):
        raise CredentialsFailed(f"{place} names the helper {quoted(helper, 100)}, which is no name of a program")
    try:
        done = subprocess.run(
            [program, "get"],
            input=key.encode(),
            capture_output=True,
            timeout=HELPER_SECONDS,
            check=False,
            env=environment,
        )
    except OSError as error:
        raise CredentialsFailed(
            f"{program}, which {place} names for {key}, can't be started ({error.strerror}): install it on PATH, or"
            " take it out of the file and log in again"
        ) from None
    except subprocess.TimeoutExpired:
        raise CredentialsFailed(
            f"{program} gave no credentials for {key} within {HELPER_SECONDS} s: run it by hand"
        ) from None
    if done.returncode != 0:
        words = (done.stdout + done.stderr).decode(errors="replace").strip()
        if "credentials not found" in words:
            return None
        raise CredentialsFailed(f"{program} has no credentials for {key}: {quoted(words, 300) or 'it gives no reason'}")
    try:
        answer = decode(done.stdout, _Answer)
    except msgspec.MsgspecError:
        raise CredentialsFailed(f"{program} answered for {key} with something else than credentials") from None
    if answer.Username == TOKEN_USER:
        return Credentials(identity_token=answer.Secret, source=program)
    return Credentials(answer.Username, answer.Secret, source=program)


def _host(key: str) -> str:
    """The host in a key that is an address, as older configurations have; another key as it is."""
    scheme, separator, rest = key.partition("://")
    return rest.partition("/")[0] if separator and scheme in ("https", "http") else key
