"""Credentials for Git repositories, from the variables that EKS Anywhere has for them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from espalier.api.eksa.gitops import FluxConfig, GitOpsConfig
from espalier.api.text.printable import in_one_line
from espalier.api.text.redaction import concealed
from espalier.cli.kit.failures import Failure
from espalier.gitops.hub import SERVER as GITHUB
from espalier.gitops.hub import Hub, api_of, check_takes_token
from espalier.gitops.repository import Author, GitError
from espalier.gitops.target import Credentials, Target, hub_of

TOKEN, KEY, KNOWN_HOSTS, PASSPHRASE = (
    "EKSA_GITHUB_TOKEN",
    "EKSA_GIT_PRIVATE_KEY",
    "EKSA_GIT_KNOWN_HOSTS",
    "EKSA_GIT_SSH_KEY_PASSPHRASE",
)
"""A token for GitHub; for other servers, the paths of a private key and of known hosts."""

SERVER, API = "GITHUB_SERVER_URL", "GITHUB_API_URL"
"""Addresses of a GitHub Enterprise Server, and of its REST API, where it is not that of the server with /api/v3."""


def server(environment: Mapping[str, str] = os.environ) -> str:
    """The address of GitHub."""
    return environment.get(SERVER, "").rstrip("/") or GITHUB


def hub(config: FluxConfig | GitOpsConfig, token: str, environment: Mapping[str, str] = os.environ) -> Hub | None:
    """The repository at GitHub that a configuration names; None for one at another server."""
    named = hub_of(config)
    if named is None:
        return None
    api = environment.get(API, "").rstrip("/") or api_of(server(environment))
    return Hub(named.owner, named.repository, bool(named.personal), token, api)


def author() -> Author:
    """The author of a commit that is made now."""
    return Author("espalier", "espalier@localhost", int(time.time()))


def credentials(target: Target, environment: Mapping[str, str] = os.environ) -> Credentials:
    """Those that variables name. Raises `Failure` if they lack, for a file that can't be read or used, and for a server
    that must not see the token.
    """
    if not target.is_ssh:
        _check_server(target.url, environment)
    given = _given(target, environment)
    if lacking := given.lacking(target):
        names = f"{KEY} and {KNOWN_HOSTS} (paths of files)" if target.is_ssh else TOKEN
        raise Failure(f"{lacking}: set {names}")
    return given


def _check_server(url: str, environment: Mapping[str, str]) -> None:
    """Raises `Failure` for the address of another server than GitHub: it may be that of an object which somebody wrote
    who is to get no token.
    """
    own = server(environment)
    if not url.startswith(f"{own}/"):
        raise Failure(
            f"{in_one_line(concealed(url))}: a token is sent to {own} alone: set {SERVER} if this is a server of "
            "yours, or have the repository fetched by ssh://"
        )
    try:
        check_takes_token(url)
    except GitError as error:
        raise Failure(str(error)) from None


def _given(target: Target, environment: Mapping[str, str]) -> Credentials:

    if not target.is_ssh:
        return Credentials(password=environment.get(TOKEN, "").strip())
    content = {}
    for name, variable in (("identity", KEY), ("known_hosts", KNOWN_HOSTS)):
        if path := environment.get(variable):
            try:
                content[name] = Path(path).expanduser().read_bytes()
            except OSError as error:
                raise Failure(f"{variable}: {path}: {error.strerror}") from None
    if "identity" in content:
        try:
            is_own_form = content["identity"].startswith(b"-----BEGIN OPENSSH")
            (load_ssh_private_key if is_own_form else load_pem_private_key)(content["identity"], password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise Failure(
                f"{KEY}: {environment[KEY]}: found no private key without passphrase ({error}); allowed: a key "
                f"without one ({PASSPHRASE} is not supported); make one for this repository alone"
            ) from None
    return Credentials(identity=content.get("identity", b""), known_hosts=content.get("known_hosts", b""))
