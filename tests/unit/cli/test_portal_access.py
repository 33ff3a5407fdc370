"""The credentials with which a manager's dashboard asks the API server: the token of a caller, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec

from espalier.cli.programs.portal import for_token
from espalier.kube.connection.access import Access, ExecPlugin, Impersonation

MANAGERS = Access(
    "https://api.example:6443",
    certificate_authority=b"authority",
    tls_server_name="api",
    proxy_url="http://proxy.example",
    client_certificate=b"certificate",
    client_key=b"key",
    token="the-manager's",
    token_file=Path("/var/run/secrets/token"),
    exec_plugin=ExecPlugin("plugin", "v1", "Never"),
    impersonation=Impersonation("admin"),
)
WAY = ("server", "certificate_authority", "tls_server_name", "proxy_url", "namespace", "largest_answer")
"""Fields that say where the API server is, and how it is known."""


def test_no_credentials_of_the_manager_are_sent() -> None:
    """All fields but those of the way: a field that is added to `Access` is a credential until it is listed here."""
    access = for_token(MANAGERS, "theirs")
    assert access.token == "theirs"
    fields = {name for name in msgspec.structs.asdict(access) if getattr(access, name)} - {"token"}
    assert fields <= set(WAY)
    assert all(getattr(access, name) == getattr(MANAGERS, name) for name in WAY)
