"""Queries to an infrastructure's API: the server, the account, and the error for missing answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

import msgspec

UNREACHABLE = "Unreachable"
NOT_VERIFIED = "CertificateNotVerified"
LOGIN_REFUSED = "LoginRefused"
UNEXPECTED = "UnexpectedAnswer"
"""Reasons of a `LookUpError`."""


class Server(msgspec.Struct, frozen=True):
    """An API's server, and the verification of its certificate."""

    host: str
    """In lower case; with a port, unless it is the default."""
    insecure: bool = False
    """True if its certificate is not verified."""

    @property
    def permission(self) -> str:
        """The name by which a Secret must permit sending its credentials there: permitting a server does not permit
        whatever answers in its place without verification.
        """
        return f"insecure:{self.host}" if self.insecure else self.host


class Credentials(NamedTuple):
    """An account, and its Secret's settings for the server. The repr has no password."""

    username: str
    password: str
    authorities: str = ""
    """CA certificates that are trusted in addition to the system's."""
    insecure: bool = False
    """True if the Secret disables verification of certificates."""

    def __repr__(self) -> str:
        return f"Credentials({self.username!r})"


class Query(Protocol):
    """The queries of one session."""

    @property
    def server(self) -> Server:
        """The server."""


class LookUpError(Exception):
    """There are no answers. `reason` is CamelCase, the message includes the remedy."""

    def __init__(self, reason: str, message: str, *, refused: bool = False, is_there: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_there = is_there
        """True if the server is reachable and rejected the query: other queries may follow at once."""
        self.refused = refused
        """True if the account was rejected: further attempts count towards a lock."""


Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class LookUp(Protocol[Q_contra, A_co]):
    """Queries a server. Raises `LookUpError`."""

    async def __call__(self, query: Q_contra, credentials: Credentials, /) -> A_co:
        """Return all answers."""
