"""The requests to a real API server, by its audit log; and which granted rights were used."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.support.environments.control_plane import READING_VERBS, Account


class Target(msgspec.Struct, rename={"group": "apiGroup"}):
    """The object of a request."""

    resource: str = ""
    subresource: str = ""
    group: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """With the subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Answer(msgspec.Struct):
    """How a request was answered."""

    code: int = 0
    message: str = ""


class Asked(msgspec.Struct, rename="camel"):
    """One finished request. Watches are finished when they end."""

    verb: str
    user: Account
    request_uri: str = msgspec.field(name="requestURI")
    user_agent: str = ""
    object_ref: Target | None = None
    response_status: Answer | None = None

    @property
    def target(self) -> Target:
        """Its object, as far as it was about one."""
        return self.object_ref or Target()

    @property
    def code(self) -> int:
        """The status that was answered; 0 when none was."""
        return self.response_status.code if self.response_status else 0

    @property
    def refusal(self) -> str:
        """The reason for which it was forbidden; empty if it was not."""
        answer = self.response_status
        return answer.message or "forbidden" if answer is not None and answer.code == HTTPStatus.FORBIDDEN else ""

    @property
    def is_write(self) -> bool:
        """True if it asks for a change, renewed Leases aside."""
        return self.verb not in READING_VERBS and self.target.resource != "leases"

    def __str__(self) -> str:
        return f"{self.user.username} ({self.user_agent}): {self.verb} {self.request_uri} -> {self.code}"


class Requests:
    """The requests that a log tells of, one after the other, also those to come."""

    def __init__(self, lines: asyncio.StreamReader) -> None:
        self._lines = lines

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> Asked:
        line = await self._lines.readline()
        if not line:
            raise StopAsyncIteration
        return _decode(line)

    async def writes(self, seconds: float) -> list[str]:
        """The writes within so many seconds, renewed Leases aside."""
        results = []
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for asked in self:
                    if asked.is_write:
                        results.append(str(asked))
        return results


_decode = msgspec.json.Decoder(Asked).decode


def requests_of(audit_log: Path, user: str | None = None, *, since: int = 0) -> list[Asked]:
    """Everything that a user asked, or all did, from this byte of the log on."""
    with audit_log.open("rb") as log:
        log.seek(since)
        return [asked for asked in map(_decode, log) if user in (None, asked.user.username)]


@asynccontextmanager
async def following(audit_log: Path, *, since: int = 0) -> AsyncIterator[Requests]:
    """Read an audit log from this byte on, and as it grows."""
    process = await asyncio.create_subprocess_exec(
        *("tail", "--bytes", f"+{since + 1}", "--follow", audit_log),
        stdout=subprocess.PIPE,
        limit=2**20,
    )
    assert process.stdout is not None
    try:
        yield Requests(process.stdout)
    finally:
        process.kill()
        await process.communicate()  # what is not read yet would hold up `wait`


class Grant(NamedTuple):
    """One verb on one resource, as a role grants it; the namespace is empty for all namespaces."""

    namespace: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource} in {self.namespace or 'all namespaces'}"


def grants(manifests: Iterable[dict[str, Any]]) -> Iterator[Grant]:
    """All that the roles among these objects grant."""
    for tree in manifests:
        if tree["kind"] in ("ClusterRole", "Role"):
            namespace = tree["metadata"].get("namespace", "")
            for rule in tree["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        yield from (Grant(namespace, group, resource, verb) for verb in rule["verbs"])


def uses(asked: Asked) -> Iterator[Grant]:
    """The grants by which a request may have been allowed; to apply what is not there needs the right to create it."""
    target = asked.target
    verbs = ["patch", "create"] if asked.verb == "patch" and asked.code == HTTPStatus.CREATED else [asked.verb]
    for namespace in {"", target.namespace}:
        yield from (Grant(namespace, target.group, target.full_resource, verb) for verb in verbs)
