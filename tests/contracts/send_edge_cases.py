"""Makes the strange requests of a server over HTTP, and brings answers into a form that can be compared."""

from __future__ import annotations

import io
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from tests.contracts.edge_cases.environment import ENVIRONMENT
from tests.contracts.edge_cases.requests import CRDS, GROUP, Ask, definition
from tests.contracts.edge_cases.table import TABLE
from tests.support.waiting import eventually

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VERSION = re.compile(r'(\\"resourceVersion\\+":\\+")\d+')
"""In an object that is quoted in a message: how many writes a server has seen is its own."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_LONG = re.compile(r"(.)\1{60,}")
_CHANGING = (
    (re.compile(r'"resourceVersion": ?"\d+"'), '"resourceVersion":"N"'),
    (re.compile(r"current: \d+"), "current: N"),
    (re.compile(r"(too old resource version: \d+) \(\d+\)"), r"\1 (N)"),
    (re.compile(r"Strange_[a-z0-9]{5}"), "Strange_SUFFIX"),
)
MAX_TEXT = 40
"""Of a text that is no JSON so much is compared: of a watch, which event it begins with."""

WAITS = 0.1
"""Seconds until a real server is asked again whether it serves a kind."""


@dataclass(frozen=True)
class Answer:
    """A server's answer: the status code, and the body without what differs from run to run."""

    status: int
    body: str

    @property
    def body_status(self) -> dict[str, Any]:
        """The Status of a failure; of anything else its kind alone, of text its first line."""
        try:
            tree = json.loads(self.body)
        except ValueError:
            return {"text": self.body.partition("\n")[0][:MAX_TEXT]}
        if not isinstance(tree, dict):
            return {"text": self.body}
        if tree.get("type") == "ERROR":
            return dict(tree["object"])
        if tree.get("kind") not in ("Status", "Scale"):
            return {"kind": tree.get("kind", "")}
        return tree


class Server:
    """A server as somebody with its administrator's certificate sees it."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.namespace = ""

    async def prepare(self) -> None:
        """Make what the requests of the table are about."""
        body = {"metadata": {"generateName": "strange-"}}
        made = await self._asked(Ask("a namespace", "POST", "/api/v1/namespaces", body))
        self.namespace = json.loads(made[1])["metadata"]["name"]
        status, text = await self._asked(Ask("a kind", "POST", CRDS, definition()))
        assert status in (201, 409), text
        # A real server tells of a kind a moment before it serves it, and tells nothing when it does.
        await eventually(
            lambda: self._asked(Ask("its objects", "GET", f"/apis/{GROUP}/v1/oddities")),
            lambda answer: answer[0] != 404,
        )
        account = Ask(
            "an account", "POST", "/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "default"}}
        )
        await self._asked(account)
        for ask in ENVIRONMENT:
            status, text = await self._asked(ask)
            assert status in (200, 201), (ask.name, text)

    async def answers(self, table: Iterable[Ask] = TABLE) -> dict[str, Answer]:
        """Its answer to each request."""
        return {ask.name: self._comparable(*await self._asked(ask)) for ask in table}

    async def _asked(self, ask: Ask) -> tuple[int, str]:
        headers = {"User-Agent": "strange/1"}
        if ask.accept:
            headers["Accept"] = ask.accept
        body = ask.sent(self.namespace)
        if body is not None and ask.type:
            headers["Content-Type"] = ask.type
        url = URL(self._url + ask.path.replace("{ns}", self.namespace), encoded=True)
        try:
            async with self._session.request(
                ask.method,
                url,
                data=None if body is None else io.BytesIO(body),
                headers=headers,
                skip_auto_headers=["Content-Type"],
            ) as answer:
                content = await (answer.content.readline() if ask.event else answer.read())
                return answer.status, content.decode("utf-8", "replace")
        except aiohttp.ClientError as error:
            return 0, type(error).__name__

    def _comparable(self, status: int, text: str) -> Answer:
        text = text.replace(self.namespace, "{ns}")
        text = _VERSION.sub(r"\1VERSION", _TIME.sub("TIME", _UID.sub("UID", text)))
        text = _LONG.sub(lambda value: f"{value[1]} x {len(value[0])}", text)
        for pattern, shown in _CHANGING:
            text = pattern.sub(shown, text)
        try:
            tree = json.loads(text)
        except ValueError:
            return Answer(status, text)
        if isinstance(tree, dict) and tree.get("kind") == "Status":
            _sort(tree)
        return Answer(status, json.dumps(tree, sort_keys=True))


def _sort(tree: dict[str, Any]) -> None:
    """Violations that were found walking through a map come in any order."""
    causes = (tree.get("details") or {}).get("causes") or []
    if len(causes) > 1:
        causes.sort(key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
        tree["message"] = re.sub(r": \[.*\]$", ": [...]", tree["message"], flags=re.DOTALL)


@asynccontextmanager
async def asking(url: str, context: ssl.SSLContext) -> AsyncIterator[Server]:
    """A server, prepared for the table."""
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        server = Server(session, url)
        await server.prepare()
        yield server
