"""Answers from CloudStacks over the network, through library `cs`, which signs requests and reads all pages.

The library blocks, so it runs in threads, over connections that this module opens. Tenants name the CloudStack, so it
is not trusted: its answers are limited in size, number and time, and nothing is sent before its certificate is
verified.
"""

from __future__ import annotations

import http.client
import importlib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from espalier.api.trees import json_trees
from espalier.clusters.report.checks.hosts import Address, Resolve, brief, connected, resolved
from espalier.clusters.report.checks.limits import CONNECT, LARGEST, LONGEST, Received
from espalier.clusters.report.checks.questions import (
    LOGIN_REFUSED,
    NOT_VERIFIED,
    UNEXPECTED,
    UNREACHABLE,
    Credentials,
    LookUpError,
)
from espalier.clusters.report.checks.threads import Threads
from espalier.providers.cloudstack.checks.questions import Answers, Entity, ObjectType, Query, Question, Server

MOST_REQUESTS = 200
"""The maximum requests of a session, including pages."""

_UNAUTHORIZED = 401
_INVALID_PARAMETER = 431
"""CloudStack's error for invalid parameters, such as an unknown ID."""
_NOT_ALLOWED = frozenset({432, 531})
"""CloudStack's errors for a command that the role lacks, and for objects of another account."""

_BY_KEYWORD = {"listNetworks": "keyword"}
"""Commands whose parameter `name` some versions lack."""

T = TypeVar("T")


class CloudStacks:
    """Sessions with CloudStacks, in threads of their own."""

    def __init__(self, resolve: Resolve = resolved) -> None:
        self._resolve = resolve
        self._threads = Threads("cloudstack")

    async def __call__(self, query: Query, credentials: Credentials, /) -> Answers:
        """Ask all questions in one session."""
        server = query.server
        if not credentials.username:
            message = f"the Secret has no keys for {server.url}: set api-key, secret-key, and api-url to this URL"
            raise LookUpError(LOGIN_REFUSED, message, refused=True)
        session = _Session(server, self._resolve, is_verified=not credentials.insecure)
        blocking_call = partial(_answers_of, session, query, credentials)
        return await self._threads.run(server.host, session, blocking_call, seconds=LONGEST)


def _answers_of(session: _Session, query: Query, credentials: Credentials) -> Answers:
    """Ask all questions. Blocks. Raises `LookUpError`."""
    host = query.server.host
    try:
        return _CloudStack(session, query, credentials).answers()
    except LookUpError:
        raise
    except ssl.SSLCertVerificationError as error:
        message = f"the certificate of {host} can't be verified: {error.verify_message or error}; {_HOW_TO_VERIFY}"
        raise LookUpError(NOT_VERIFIED, message) from error
    except (OSError, http.client.HTTPException) as error:
        raise LookUpError(UNREACHABLE, f"{host} can't be reached: {brief(error)}") from error
    except Exception as error:  # the library raises all kinds of errors for invalid answers
        problem = f"{type(error).__name__}: {brief(error)}"
        raise LookUpError(UNEXPECTED, f"{host} did not return a valid CloudStack response ({problem})") from error
    finally:
        session.close()


class _Response(NamedTuple):
    """A response with the attributes that the library reads."""

    status_code: int
    reason: str
    headers: http.client.HTTPMessage
    content: bytes

    def json(self) -> Any:
        """The content of the answer."""
        return json_trees.decode(self.content)


class _Session:
    """Sends requests for the library, over one connection to a checked address. Can't be reused."""

    def __init__(self, server: Server, resolve: Resolve, *, is_verified: bool) -> None:
        self._host = server.host
        self._resolve = resolve
        self._is_verified = is_verified
        self._received = Received(server.host, LARGEST)
        self._requests = 0
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._aborted = False
        self._addresses: Sequence[Address] | None = None
        try:
            url = urlsplit(server.url)
            self._is_tls = url.scheme == "https"
            self._address = (url.hostname or "", url.port or (443 if self._is_tls else 80))
        except ValueError as error:
            raise LookUpError(UNREACHABLE, f"{server.url} can't be reached: {brief(error)}") from error

    def send(self, request: Any, **_: object) -> _Response:
        """The response to a prepared request. The library's arguments for certificates and timeouts are ignored."""
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            raise LookUpError(UNEXPECTED, f"{self._host} needs more than {MOST_REQUESTS} requests to list it")
        connection = self._connection = self._connection or self._new_connection()
        connection.request(request.method, request.path_url, request.body, dict(request.headers))
        response = connection.getresponse()
        parts = []
        while part := response.read(1 << 16):
            self._received.add(len(part))
            parts.append(part)
        if response.will_close:
            self.close()
        return _Response(response.status, response.reason, response.headers, b"".join(parts))

    def abort(self) -> None:
        """End the connection. Thread-safe."""
        self._aborted = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and the socket."""
        for connection in (self._connection, self._socket):
            if connection is not None:
                connection.close()
        self._connection = self._socket = None

    def _new_connection(self) -> http.client.HTTPConnection:
        host, port = self._address
        open_socket = self._owned(self._connected_socket())
        connection = http.client.HTTPConnection(host, port)
        connection.auto_open = 0  # it would connect by itself, to whatever address
        if self._is_tls:
            context = ssl.create_default_context()
            if not self._is_verified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            secured = context.wrap_socket(open_socket, server_hostname=host, do_handshake_on_connect=False)
            open_socket = self._owned(secured)
            secured.do_handshake()
        connection.sock = open_socket
        return connection

    def _owned(self, open_socket: socket.socket) -> socket.socket:
        """The socket, which ends with the session. Raises `OSError` after `abort`."""
        self._socket = open_socket
        if self._aborted:
            open_socket.close()
            raise OSError("the session has ended")
        return open_socket

    def _connected_socket(self) -> socket.socket:
        if self._addresses is None:
            self._addresses = self._resolve(*self._address)
        return connected(self._addresses, CONNECT)


class _ListItem(msgspec.Struct):
    """An item of any list of CloudStack."""

    id: str = ""
    name: str = ""
    path: str = ""
    iscustomized: bool | None = None
    isready: bool = True
    ipaddress: str = ""
    publicport: str | int = ""
    associatednetworkid: str = ""
    state: str = ""
    nic: list[_Nic] = []


class _Nic(msgspec.Struct):
    ipaddress: str = ""
    ip6address: str = ""


class _Error(msgspec.Struct):
    errorcode: int = 0
    errortext: str = ""


class _CloudStack:
    """The API in one session."""

    def __init__(self, session: _Session, query: Query, credentials: Credentials) -> None:
        self._host = query.server.host
        self._query = query
        self._keys = (credentials.username, credentials.password)
        self._library = importlib.import_module("cs")  # only in managers with such clusters: it takes 0.2 s
        self._api = self._library.CloudStack(
            query.server.url,
            credentials.username,
            credentials.password,
            method="post",  # keys and signature are in no URL
            session=session,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def answers(self) -> Answers:
        """Ask all questions. Raises `LookUpError`."""
        place = self._query.place
        zones = self._matching("listZones", place.zone.id, place.zone.name)
        if len(zones) != 1:
            return Answers(len(zones))
        domains = self._domains(place.domain)
        if len(domains) != 1:
            return Answers(1, len(domains))
        owner, accounts = {"domainid": domains[0].id}, None
        if place.account:
            accounts = len(self._matching("listAccounts", "", place.account, **owner, listall=True))
            if accounts != 1:
                return Answers(1, 1, accounts)
            owner["account"] = place.account
        zone = zones[0].id
        entities = {
            question: self._entities(zone, owner, question) for question in sorted(self._query.questions, key=str)
        }
        return Answers(1, 1, accounts, entities, dict(self._holders(zone, entities)))

    def _domains(self, domain: str) -> list[_ListItem]:
        """The domains at a path, which may leave out ROOT."""
        parts = domain.strip("/").split("/")
        path = "/".join(parts if parts[0].upper() == "ROOT" else ["ROOT", *parts])
        domains = self._list("listDomains", name=path.rpartition("/")[2], listall=True)
        return [item for item in domains if item.path.upper() == path.upper()]

    def _entities(self, zone: str, owner: Mapping[str, str], question: Question) -> tuple[Entity, ...]:
        command, parameters = {
            ObjectType.NETWORK: ("listNetworks", {"zoneid": zone, **owner}),
            ObjectType.OFFERING: ("listServiceOfferings", {"zoneid": zone}),
            ObjectType.DISK_OFFERING: ("listDiskOfferings", {"zoneid": zone}),
            ObjectType.TEMPLATE: ("listTemplates", {"zoneid": zone, "templatefilter": "executable", **owner}),
            ObjectType.AFFINITY_GROUP: ("listAffinityGroups", owner),
        }[question.object_type]
        items = self._matching(command, question.id, question.name, **parameters)
        return tuple(Entity(item.id, item.name, item.iscustomized, item.isready) for item in items)

    def _holders(
        self, zone: str, entities: Mapping[Question, Sequence[Entity]]
    ) -> Iterator[tuple[tuple[str, int], str]]:
        query = self._query
        networks = entities.get(query.network, ()) if query.network is not None else ()
        if not query.addresses or len(networks) != 1:
            return
        network = networks[0].id
        machines = self._list("listVirtualMachines", networkid=network, details="nics", listall=True)
        by_address = {
            address: machine.name
            for machine in machines
            for nic in machine.nic
            for address in (nic.ipaddress, nic.ip6address)
        }
        for address, port in sorted(query.addresses):
            if address in by_address:
                yield (address, port), f"virtual machine {by_address[address]}"
            else:
                yield from (
                    ((address, port), user) for user in self._users_of_public_address(address, port, zone, network)
                )

    def _users_of_public_address(self, address: str, port: int, zone: str, network: str) -> Iterator[str]:
        """The user of a public address, as isolated networks have them; nothing for a free address."""
        public_addresses = self._list(
            "listPublicIpAddresses", ipaddress=address, zoneid=zone, listall=True, allocatedonly=True
        )
        for public_address in public_addresses:
            if public_address.ipaddress != address:
                continue
            if public_address.associatednetworkid and public_address.associatednetworkid != network:
                yield "another network"
                return
            rules = self._list("listLoadBalancerRules", publicipid=public_address.id, listall=True)
            for rule in rules:
                if str(rule.publicport) == str(port):
                    yield f"load balancer rule {rule.name}"
                    return

    def _matching(self, command: str, id_: str, name: str, **parameters: Any) -> list[_ListItem]:
        """The object with an ID, or those with exactly this name."""
        identity = {"id": id_} if id_ else {_BY_KEYWORD.get(command, "name"): name}
        items = {item.id: item for item in self._list(command, **identity, **parameters)}
        return [item for item in items.values() if (item.id == id_ if id_ else item.name == name)]

    def _list(self, command: str, **parameters: Any) -> list[_ListItem]:
        library = self._library
        try:
            items = getattr(self._api, command)(fetch_list=True, **parameters)
        except library.CloudStackApiException as error:
            answer = _converted(error.error, _Error)
            if answer.errorcode == _INVALID_PARAMETER and parameters.get("id"):
                return []
            raise self._refusal(command, answer, error.response.status_code) from error
        except library.CloudStackException as error:
            message = (
                f"{self._host} did not return a valid CloudStack response: {brief('; '.join(map(str, error.args)))}"
            )
            raise LookUpError(UNEXPECTED, message) from error
        return _converted(items, list[_ListItem])

    def _error_text(self, error: _Error) -> str:
        """The text of an error, without the keys."""
        text = error.errortext
        for key in self._keys:
            text = text.replace(key, "...")
        return brief(text)

    def _refusal(self, command: str, error: _Error, status: int) -> LookUpError:
        code = error.errorcode or status
        if code == _UNAUTHORIZED:
            message = f"{self._host} rejected the keys; correct api-key and secret-key in the Secret"
            return LookUpError(LOGIN_REFUSED, message, refused=True)
        if code in _NOT_ALLOWED:
            message = f"the keys do not allow {command} on {self._host}; grant their account a role that does"
            return LookUpError(UNEXPECTED, f"{message} ({self._error_text(error)})", is_there=True)
        message = f"{self._host} answered {code} to {command}: {self._error_text(error)}"
        return LookUpError(UNEXPECTED, message, is_there=True)


def _converted(tree: Any, type_: type[T]) -> T:
    return msgspec.convert(json_trees.without_nulls(tree), type_, strict=False)


_HOW_TO_VERIFY = "have it signed by an authority that this machine trusts, or correct managementApiEndpoint"
