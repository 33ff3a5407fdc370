"""The common part of HTTP transports to one API server: address, credentials, TLS, and messages."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

from espalier.kube.connection.access import Access, without_user
from espalier.kube.connection.credentials import Credential, CredentialsError, FixedCredentials, credentials_of
from espalier.kube.connection.proxies import proxy_for
from espalier.kube.connection.tls import CertificateError, client_context
from espalier.kube.errors import AnswerTooLarge, NotKubernetes, Unreachable
from espalier.kube.transports.wire import Request

CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 30.0
"""Idle connections are closed well before servers do (after 75 s or more), so that no write meets a closing one."""
_DEAD_PEER_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""A watch may be silent for minutes. With these options a vanished host is noticed after one."""


class Channel:
    """One API server, as `access` names it. `now` is the wall clock for credentials that expire."""

    def __init__(
        self, access: Access, *, now: Callable[[], datetime] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.access = access
        self.base = without_user(access.server).rstrip("/")
        self.proxy = access.proxy_url or proxy_for(access.server, os.environ if environment is None else environment)
        # As kubectl: no credentials over http://, because others could read them.
        self._secretive = self.base.startswith("http:")
        self.credentials = (
            FixedCredentials(Credential())
            if self._secretive
            else credentials_of(access, now=now or (lambda: datetime.now(UTC)), environment=environment)
        )
        impersonation = None if self._secretive else access.impersonation
        self._impersonation = impersonation.headers() if impersonation else []
        self._tls: tuple[Credential, ssl.SSLContext] | None = None

    @property
    def host(self) -> str:
        """Host and port, as the user named them."""
        return urlsplit(self.base).netloc

    def url(self, request: Request) -> str:
        """URL of a request."""
        url = self.base + quote(request.path, safe="/:@!$&'()*+,;=~")
        return f"{url}?{urlencode(request.query)}" if request.query else url

    def headers(self, request: Request, credential: Credential) -> list[tuple[str, str]]:
        """The headers of a request; a name may occur several times.

        Responses are asked for uncompressed: controllers sit near their API servers, where compressing costs both
        sides more than it saves.
        """
        headers = [*request.headers.items(), ("accept-encoding", "identity"), *self._impersonation]
        if credential.token:
            headers.append(("authorization", f"Bearer {credential.token}"))
        return headers

    def check(self, status: int) -> None:
        """Raise `CredentialsError` when a server asks for credentials that must not be sent to it."""
        if status == 401 and self._secretive:
            raise CredentialsError(
                f"the API server at {self.base} asks for credentials, which are not sent over http://, where others "
                "could read them: use an address that begins with https://"
            )

    def context(self, credential: Credential) -> ssl.SSLContext:
        """The TLS context, recreated when the client certificate changed. Raises `CertificateError`."""
        if self._tls is None or self._tls[0].certificate != credential.certificate:
            try:
                context = client_context(
                    self.access.certificate_authority,
                    insecure_skip_tls_verify=self.access.insecure_skip_tls_verify,
                    certificate=credential.certificate,
                    key=credential.key,
                )
            except CertificateError as error:
                raise CertificateError(f"cannot connect to the API server at {self.base}: {error}") from error
            self._tls = credential, context
        return self._tls[1]

    def unreachable(self, cause: str, *, sent: bool) -> Unreachable:
        """The error of a request without a response."""
        return Unreachable(f"cannot reach the API server at {self.base}: {cause}", sent=sent)

    def closed(self) -> Unreachable:
        """The error of a request after `close`."""
        return Unreachable(f"the connection to the API server at {self.base} is closed", sent=False)

    def too_large(self) -> AnswerTooLarge:
        """The error of a response or event that exceeds the limit."""
        limit = f"{self.access.largest_answer / 1024**2:g} MiB"
        return AnswerTooLarge(f"the API server at {self.base} answered with more than {limit}; the rest was not read")

    def compressed(self, encoding: str) -> NotKubernetes:
        """The error of an unexpectedly compressed response: it may expand without limit."""
        return NotKubernetes(
            f"the API server at {self.base}, or a proxy on the way, sent a response compressed with {encoding[:20]!r}, "
            "which was not requested"
        )


def keep_alive(connection: socket.socket) -> None:
    """Enable TCP keepalive."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _DEAD_PEER_OPTIONS.items():
        if hasattr(socket, option):  # not supported by every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def no_connection() -> str:
    """The message of a connection timeout."""
    return f"no connection within {CONNECT_SECONDS:g} seconds"


def no_answer(request: Request) -> str:
    """The message of a response timeout."""
    return f"no answer within {request.timeout:g} seconds"


def not_trusted(error: ssl.SSLCertVerificationError) -> str:
    """Message of a TLS error."""
    return f"its certificate is not trusted: {getattr(error, 'verify_message', '') or error}"


NO_WORD = "it closed the connection without an answer"


def reason(error: OSError) -> str:
    """The system's message for an error; event loops add their own before it."""
    if error.errno and not isinstance(error, socket.gaierror | ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror or str(error)
