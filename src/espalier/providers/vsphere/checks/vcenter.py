"""Answers from a vCenter over the network: SOAP through pyvmomi, for storage policies too; tags through REST.

All calls block, so they run in threads. The vCenter is not trusted: its answers are limited in size and time, and
nothing is sent before its certificate is verified.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import http.client
import importlib
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from espalier.api.trees import json_trees
from espalier.clusters.report.checks.hosts import Address, Resolve, brief, connected, resolved
from espalier.clusters.report.checks.limits import CONNECT, LARGEST, LONGEST, Received
from espalier.clusters.report.checks.questions import (
    LOGIN_REFUSED,
    NOT_VERIFIED,
    UNEXPECTED,
    Credentials,
    LookUpError,
)
from espalier.clusters.report.checks.threads import Threads
from espalier.providers.vsphere.checks.questions import (
    PRIVILEGES,
    Answers,
    ObjectType,
    Query,
    Question,
    Template,
)
from espalier.providers.vsphere.references import is_pattern
from espalier.providers.vsphere.server import Server

PAGE = 1000
MOST_OBJECTS = 20_000
"""The maximum inventory objects of a kind to search for a name without a path."""

UNREACHABLE = "VCenterUnreachable"

_POLICIES = "pbm.version.version1"
"""Version of the API of storage policies: its first, which every vCenter supports."""


class VCenters:
    """Sessions with vCenters, in threads of their own."""

    def __init__(self, resolve: Resolve = resolved) -> None:
        self._resolve = resolve
        self._threads = Threads("vcenter")

    async def __call__(self, query: Query, credentials: Credentials, /) -> Answers:
        """Ask all questions in one session."""
        session = _Session(query.server, self._resolve)
        blocking_call = partial(session.ask, query, credentials)
        return await self._threads.run(
            query.server.host, session, blocking_call, seconds=LONGEST, unreachable=UNREACHABLE
        )


class _Session:
    """One login. Can't be reused."""

    def __init__(self, server: Server, resolve: Resolve) -> None:
        self._server = server
        self._resolve = resolve
        self._sockets: list[ssl.SSLSocket] = []
        self._received = Received(server.host, LARGEST)
        self._aborted = False
        self._context = self._tls()

    def ask(self, query: Query, credentials: Credentials) -> Answers:
        """Ask all questions. Blocks. Raises `LookUpError`."""
        host, fault = self._server.host, _pyvmomi().vmodl.MethodFault
        try:
            with _Soap(self._connection, credentials) as soap:
                return self._answers(soap, query, credentials)
        except LookUpError:
            raise
        except ssl.SSLCertVerificationError as error:
            message = f"the certificate of {host} can't be verified: {error.verify_message or error}; {_HOW_TO_VERIFY}"
            raise LookUpError(NOT_VERIFIED, message) from error
        except fault as error:
            raise LookUpError(UNEXPECTED, f"{host} refused a request: {brief(error.msg or repr(error))}") from error
        except (OSError, http.client.HTTPException) as error:
            raise LookUpError(UNREACHABLE, f"{host} can't be reached: {brief(error)}") from error
        except Exception as error:  # parsers raise all kinds of errors for invalid answers
            problem = f"{type(error).__name__}: {brief(error)}"
            raise LookUpError(UNEXPECTED, f"{host} did not return a valid vCenter response ({problem})") from error
        finally:
            for open_socket in self._sockets:
                open_socket.close()

    def abort(self) -> None:
        """End all connections. Thread-safe."""
        self._aborted = True
        for open_socket in self._sockets:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def _answers(self, soap: _Soap, query: Query, credentials: Credentials) -> Answers:
        objects_by_question = {question: soap.find(question) for question in query.questions}
        lacking: dict[str, tuple[str, ...]] = {}
        for question, objects in objects_by_question.items():
            lacking |= soap.lacking(objects, PRIVILEGES.get(question.object_type, ()))
        machines = {
            path: machine
            for question, objects in objects_by_question.items()
            if question.object_type is ObjectType.TEMPLATE
            for path, machine in objects.items()
        }
        tags, unknown_tags = (
            _Tags(self._connection(), credentials).answers(machines, query.tags)
            if machines or query.tags
            else ({}, frozenset())
        )
        return Answers(
            paths={question: tuple(sorted(objects)) for question, objects in objects_by_question.items()},
            lacking=lacking,
            templates={path: soap.template(machine, tags.get(path, frozenset())) for path, machine in machines.items()},
            holders=soap.holders(query.addresses),
            unknown_tags=unknown_tags,
            unknown_policies=soap.unknown_policies(query.policies),
        )

    def _connection(self, *_: object, **__: object) -> http.client.HTTPSConnection:
        host, port = split(self._server.host)
        connection = http.client.HTTPSConnection(host, port, timeout=CONNECT, context=self._context)
        connection._create_connection = self._connect  # type: ignore[attr-defined]  # no other way to choose the address
        return connection

    def _connect(self, address: Address, timeout: float, _source: object = None) -> socket.socket:
        return connected(self._resolve(*address), timeout)

    def _tls(self) -> ssl.SSLContext:
        """A context whose sockets verify certificates, count bytes and can be aborted."""
        session, pinned = self, self._server.thumbprint.replace(":", "").lower()

        class Socket(ssl.SSLSocket):
            def do_handshake(self, block: bool = False) -> None:
                session._sockets.append(self)
                super().do_handshake(block)
                thumbprint = hashlib.sha1(self.getpeercert(binary_form=True) or b"").hexdigest()  # noqa: S324 - vSphere's
                if pinned and thumbprint != pinned:
                    raise LookUpError(
                        NOT_VERIFIED,
                        f"the certificate of {session._server.host} has thumbprint {_colons(thumbprint)}, but "
                        f"spec.thumbprint is {_colons(pinned)}; if the certificate was renewed, update the field",
                    )

            def recv_into(self, *args: Any, **options: Any) -> int:
                if session._aborted:
                    raise OSError("the session has ended")
                number = super().recv_into(*args, **options)
                session._received.add(number)
                return number

        context = ssl.create_default_context()
        if pinned or self._server.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.sslsocket_class = Socket
        return context


def _matches(name: str, pattern: str) -> bool:
    """True for a name that a pattern matches or is, as to govmomi: brackets are also signs of names."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


class _Soap:
    """The inventory, over SOAP."""

    def __init__(self, connection: Callable[..., http.client.HTTPSConnection], credentials: Credentials) -> None:
        library = _pyvmomi()
        vim = self._vim = library.vim
        self._query = library.vmodl.query.PropertyCollector
        stub = self._stub = library.SoapStubAdapter(host="vcenter", version=_version(connection()))
        stub.scheme = self._scheme = connection
        self._content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
        try:
            self._session = self._content.sessionManager.Login(credentials.username, credentials.password)
        except (vim.fault.InvalidLogin, vim.fault.NoPermission) as error:
            message = f"{credentials.username} can't log in; correct the Secret with the credentials"
            raise LookUpError(LOGIN_REFUSED, message, refused=True) from error

    def __enter__(self) -> _Soap:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # the vCenter ends idle sessions by itself
            self._content.sessionManager.Logout()

    def find(self, question: Question) -> Mapping[str, Any]:
        """The inventory objects of a question, by path."""
        of_type = self._type(question.object_type)
        if path := question.path:
            objects = dict(self._walk(path)) if is_pattern(path) else self._at(path)
        else:
            objects = self._anywhere(question)
        return {path: object_ for path, object_ in objects.items() if isinstance(object_, of_type)}

    def lacking(self, objects: Mapping[str, Any], privileges: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """By path, the privileges that this session lacks."""
        if not objects or not privileges:
            return {}
        paths = {object_._moId: path for path, object_ in objects.items()}
        answers = self._content.authorizationManager.HasPrivilegeOnEntities(
            list(objects.values()), self._session.key, list(privileges)
        )
        missing = {
            paths[answer.entity._moId]: tuple(
                privilege.privId for privilege in answer.privAvailability if not privilege.isGranted
            )
            for answer in answers
        }
        return {path: ids for path, ids in missing.items() if ids}

    def template(self, machine: Any, tags: frozenset[str]) -> Template:
        """The relevant properties of a virtual machine to clone from."""
        disk = self._vim.vm.device.VirtualDisk
        properties = self._properties([machine], ["config.template", "config.hardware.device", "snapshot"])[0][1]
        disks = tuple(
            device.capacityInBytes or device.capacityInKB * 1024
            for device in properties.get("config.hardware.device", ())
            if isinstance(device, disk)
        )
        return Template(bool(properties.get("config.template")), disks, properties.get("snapshot") is not None, tags)

    def holders(self, addresses: Iterable[str]) -> dict[str, str]:
        """The names of virtual machines, by address."""
        index = self._content.searchIndex
        machines_by_address = {ip: index.FindAllByIp(None, ip, True) for ip in sorted(addresses)}
        return {address: str(machines[0].name) for address, machines in machines_by_address.items() if machines}

    def unknown_policies(self, policies: Iterable[str]) -> frozenset[str]:
        """The names that no storage policy has which the account may read."""
        names = frozenset(policies)
        if not names:
            return names
        library = _pyvmomi()
        pbm = library.pbm
        stub = library.SoapStubAdapter(host="vcenter", path="/pbm", version=_POLICIES)
        stub.scheme = self._scheme
        # The service knows a session by this field of the header; pyvmomi has one context for each thread.
        context = library.VmomiSupport.GetRequestContext()
        context["vcSessionCookie"] = self._stub.cookie.partition("=")[2].partition(";")[0].strip('"')
        try:
            manager = pbm.ServiceInstance("ServiceInstance", stub).PbmRetrieveServiceContent().profileManager
            storage = pbm.profile.ResourceType(resourceType=pbm.profile.ResourceTypeEnum.STORAGE)
            ids = manager.PbmQueryProfile(resourceType=storage)
            profiles = manager.PbmRetrieveContent(profileIds=ids) if ids else ()
            return names - {profile.name for profile in profiles}
        except self._vim.fault.NoPermission:
            return names
        finally:
            del context["vcSessionCookie"]
            stub.DropConnections()

    def _type(self, object_type: ObjectType) -> Any:
        vim = self._vim
        return {
            ObjectType.DATACENTER: vim.Datacenter,
            ObjectType.NETWORK: vim.Network,
            ObjectType.DATASTORE: vim.Datastore,
            ObjectType.FOLDER: vim.Folder,
            ObjectType.TEMPLATE: vim.VirtualMachine,
            ObjectType.RESOURCE_POOL: vim.ResourcePool,
            ObjectType.COMPUTE_CLUSTER: vim.ClusterComputeResource,
        }[object_type]

    def _at(self, path: str) -> dict[str, Any]:
        entity = self._content.searchIndex.FindByInventoryPath(path)
        return {path: entity} if entity is not None else {}

    def _walk(self, pattern: str) -> Iterator[tuple[str, Any]]:
        """The objects whose paths match, segment by segment: `*` does not match a slash."""
        level = [("", self._content.rootFolder)]
        for part in pattern.strip("/").split("/"):
            level = [
                (f"{path}/{name}", child)
                for path, parent in level
                for name, child in self._children(parent)
                if _matches(name, part)
            ]
        yield from level

    def _children(self, parent: Any) -> list[tuple[str, Any]]:
        vim = self._vim
        if isinstance(parent, vim.Folder):
            children = list(parent.childEntity)
        elif isinstance(parent, vim.Datacenter):
            children = [parent.vmFolder, parent.hostFolder, parent.networkFolder, parent.datastoreFolder]
        elif isinstance(parent, vim.ComputeResource):
            children = [parent.resourcePool]
        elif isinstance(parent, vim.ResourcePool):
            children = list(parent.resourcePool)
        else:
            children = []
        _check_number(children, "a folder", "use full paths without *")
        return [(read.get("name", ""), child) for child, read in self._properties(children, ["name"])]

    def _anywhere(self, question: Question) -> dict[str, Any]:
        """Objects with a name, in any folder of the datacenter."""
        datacenters = self._at(f"/{question.datacenter.strip('/')}")
        views = self._content.viewManager
        objects_by_path: dict[str, Any] = {}
        for datacenter in datacenters.values():
            view = views.CreateContainerView(datacenter, [self._type(question.object_type)], True)
            try:
                objects = list(view.view)
            finally:
                view.Destroy()
            section = f"{question.datacenter.strip('/')}/{question.object_type.section}"
            _check_number(objects, f"datacenter {question.datacenter}", f"give {question} as a path: /{section}/…")
            for object_, properties in self._properties(objects, ["name"]):
                if _matches(properties.get("name", ""), question.name):
                    objects_by_path[self._path(object_)] = object_
        return objects_by_path

    def _path(self, entity: Any) -> str:
        parts: list[str] = []
        while entity is not None and entity != self._content.rootFolder and len(parts) < 64:
            properties = self._properties([entity], ["name", "parent"])[0][1]
            parts.append(properties.get("name", ""))
            entity = properties.get("parent")
        return "".join(f"/{part}" for part in reversed(parts))

    def _properties(self, objects: Sequence[Any], names: Sequence[str]) -> list[tuple[Any, dict[str, Any]]]:
        """Properties of objects, in the same order, with one request per page."""
        if not objects:
            return []
        query = self._query
        types = {type(object_) for object_ in objects}
        spec = query.FilterSpec(
            objectSet=[query.ObjectSpec(obj=object_) for object_ in objects],
            propSet=[query.PropertySpec(type=type_, pathSet=list(names)) for type_ in types],
        )
        collector = self._content.propertyCollector
        page = collector.RetrievePropertiesEx([spec], query.RetrieveOptions(maxObjects=PAGE))
        by_id: dict[str, dict[str, Any]] = {}
        while page is not None:
            for object_ in page.objects:
                by_id[object_.obj._moId] = {prop.name: prop.val for prop in object_.propSet}
            page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None
        return [(object_, by_id.get(object_._moId, {})) for object_ in objects]


def _check_number(objects: Sequence[Any], container: str, advice: str) -> None:
    """Raise `LookUpError` for too many objects: those left out would be reported as missing."""
    if len(objects) > MOST_OBJECTS:
        limit = f"more than the {MOST_OBJECTS} that are searched for a name"
        message = f"{container} has {len(objects)} objects, {limit}; {advice}"
        raise LookUpError(UNEXPECTED, message, is_there=True)


def _version(connection: http.client.HTTPSConnection) -> str:
    """The newest version of the API that both sides support."""
    versions = _pyvmomi().VmomiSupport
    with closing(connection):
        connection.request("GET", "/sdk/vimServiceVersions.xml")
        offered = set(re.findall(rb"<version>([0-9.]+)</version>", connection.getresponse().read()))
    for version in versions.GetServiceVersions("vim25"):
        if versions.versionIdMap[version].encode() in offered:
            return str(version)
    raise OSError("it offers no supported version of the vSphere API")


class _BadRequest(OSError):
    """The server refused a request as invalid."""


_REFUSALS: Mapping[int, type[OSError]] = {
    http.client.BAD_REQUEST: _BadRequest,
    http.client.FORBIDDEN: PermissionError,
    http.client.NOT_FOUND: FileNotFoundError,
}


class _Tags:
    """Tags, which the SOAP API lacks."""

    def __init__(self, connection: http.client.HTTPSConnection, credentials: Credentials) -> None:
        self._connection = connection
        self._headers = {"content-type": "application/json"}
        account = f"{credentials.username}:{credentials.password}".encode()
        login = {"authorization": f"Basic {base64.b64encode(account).decode()}"}
        self._headers["vmware-api-session-id"] = self._call("POST", "session", headers=login)

    def answers(
        self, machines: Mapping[str, Any], query: Iterable[str]
    ) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
        """By path, the names of the tags of virtual machines; and those of these IDs that no tag has."""
        tags_by_path = {}
        names: dict[str, str] = {}
        try:
            unknown = frozenset(tag_id for tag_id in query if self._tag(tag_id) is None)
            for path, machine in machines.items():
                subject = {"object_id": {"id": machine._moId, "type": "VirtualMachine"}}
                ids = self._call("POST", "tagging/tag-association?~action=list-attached-tags", subject) or ()
                for tag_id in ids:
                    if tag_id not in names:
                        names[tag_id] = (self._tag(tag_id) or {}).get("name", "")
                tags_by_path[path] = frozenset(names[tag_id] for tag_id in ids)
        finally:
            self._call("DELETE", "session")
            self._connection.close()
        return tags_by_path, unknown

    def _tag(self, id_: str) -> Any:
        """A tag; None if there is none that the account may read, or the text is no ID."""
        try:
            return self._call("GET", f"tagging/tag/id:{quote(id_, safe=':')}")
        except (FileNotFoundError, PermissionError, _BadRequest):
            return None

    def _call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        content = msgspec.json.encode(body) if body is not None else None
        self._connection.request(method, f"/rest/com/vmware/cis/{path}", content, {**self._headers, **(headers or {})})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= http.client.BAD_REQUEST:
            raise _REFUSALS.get(response.status, OSError)(
                f"{method} {path.partition('?')[0]} returned status {response.status}"
            )
        return json_trees.decode(answer, dict[str, Any])["value"] if answer.strip() else None


_HOW_TO_VERIFY = "set spec.thumbprint, or have this machine trust its authority"


def _pyvmomi() -> Any:
    """The library, which takes 0.2 s to load, so only in managers with such clusters. Its types are incomplete."""
    return importlib.import_module("pyVmomi")


def split(server: str) -> Address:
    """Host and port in `spec.server`."""
    host, colon, port = server.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):
        host, port = server, "443"
    return host.strip("[]"), int(port)


def _colons(digest: str) -> str:
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2)).upper()
