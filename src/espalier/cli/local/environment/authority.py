"""The certificate authority of a simulated local environment: created at its first start, then read."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from espalier.cli.kit.connecting.home import Home, naming
from espalier.cli.kit.failures import Broken
from espalier.kube.connection.pki import Authority

CERTIFICATE, KEY = "ca.crt", "ca.key"


def load(home: Home) -> Authority | None:
    """The authority; None before the first start. Raises `Broken`, which names the unusable file."""
    certificate, key = home.authority / CERTIFICATE, home.authority / KEY
    there = [file for file in (certificate, key) if file.exists()]
    if not there:
        return None
    for file in (certificate, key):
        if file not in there:
            raise _broken(home, f"{file} is missing, but {there[0].name} exists")
    try:
        contents = certificate.read_bytes(), key.read_bytes()
    except OSError as error:
        raise _broken(home, f"{error.filename} can't be read: {error.strerror}") from error
    _check(home, certificate, "certificate", lambda: load_pem_x509_certificate(contents[0]))
    _check(home, key, "private key", lambda: load_pem_private_key(contents[1], password=None))
    try:
        return Authority.load(*contents)
    except ValueError as error:
        raise _broken(home, f"{key} does not match {certificate.name}: {error}") from error


def _check(home: Home, file: Path, what: str, read: Callable[[], Any]) -> None:
    try:
        read()
    except (ValueError, TypeError) as error:
        raise _broken(home, f"{file} contains no readable PEM {what}") from error


def _broken(home: Home, problem: str) -> Broken:
    return Broken(
        f"{problem}: restore the file from a backup, or move the folder {home.authority} away, and `espalier up` "
        "creates a new authority (kubeconfigs of the old one are then refused; clusters are left as they are)"
    )


def make(home: Home, *, now: datetime) -> Authority:
    """A new authority, stored completely or not at all."""
    authority = Authority.create("espalier", now=now)
    staged = home.authority.with_name(f".{home.authority.name}.{secrets.token_hex(4)}")
    staged.mkdir(mode=0o700)
    try:
        with naming(home.authority):
            (staged / KEY).touch(mode=0o600)
            (staged / KEY).write_bytes(authority.key)
            (staged / CERTIFICATE).write_bytes(authority.certificate)
        staged.rename(home.authority)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return authority
