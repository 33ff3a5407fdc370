"""Questions to an infrastructure's API: where they go, by which account, and the error that stands for no answer."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

import msgspec

UNREACHABLE = "Unreachable"
NOT_VERIFIED = "CertificateNotVerified"
LOGIN_REFUSED = "LoginRefused"
UNEXPECTED = "UnexpectedAnswer"
"""Reasons of a `LookUpError`."""


class Server(msgspec.Struct, frozen=True):
    """An API's server, and how its certificate is verified."""

    host: str
    """In lower case; with a port, unless it is the usual one."""
    insecure: bool = False
    """True if nothing says which certificate is the right one."""

    @property
    def permission(self) -> str:
        """The name by which a Secret must permit that its credentials are sent there: whoever permits a server does not
        permit what merely answers in its place."""
        return f"insecure:{self.host}" if self.insecure else self.host


class Credentials(NamedTuple):
    """An account, and what its Secret says of the server. The repr has no password."""

    username: str
    password: str
    authorities: str = ""
    """Certificates that are trusted besides those of this machine."""
    insecure: bool = False
    """True if whoever made the Secret wants no certificate verified."""

    def __repr__(self) -> str:
        return f"Credentials({self.username!r})"


class Asked(Protocol):
    """All that is asked in one session."""

    @property
    def server(self) -> Server:
        """Where."""


class LookUpError(Exception):
    """There are no answers. `reason` is CamelCase, the message says what to do."""

    def __init__(self, reason: str, message: str, *, refused: bool = False, is_there: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_there = is_there
        """True if the server is there, and refuses what it was asked: something else may be asked at once."""
        self.refused = refused
        """True if the account was refused: each further attempt counts."""


Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class LookUp(Protocol[Q_contra, A_co]):
    """Asks a server. Raises `LookUpError`."""

    async def __call__(self, asked: Q_contra, credentials: Credentials, /) -> A_co:
        """All answers."""
