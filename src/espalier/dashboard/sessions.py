"""Pages for many callers: each token has watches of its own, with the rights that the API server gives to it.

Nothing is stored: a session lasts from a request with a token until a while after the last one, or until the API
server refuses the token, which ends its watches and streams.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from espalier.api.trees.json_trees import decode
from espalier.dashboard.models.plans import Planner
from espalier.dashboard.observation import Observation, ReadOnly
from espalier.dashboard.pages import Pages, Place
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.errors import KubeError, Unreachable, error_of
from espalier.kube.objects import encode_json
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Request, Transport
from espalier.runtime.clock import Clock

MOST = 16
"""Sessions at the same time: each has caches of its own."""
MOST_OF_USER = 4
"""Those of one user: several tokens, or several namespaces."""
MOST_STREAMS = 16
"""Pages that a session follows at the same time."""
MOST_CHECKED = 8
"""Tokens that are asked about at the same time."""
LINGER = 60.0
"""Seconds for which a session lives after its last request."""
CHECK_WITHIN = 10.0
"""Seconds for the API server to say whose token it is."""

USER_AGENT = "espalier-dashboard"
_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BODY = encode_json({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
_ADVICE = "If you may list them in one namespace, sign out, and sign in with that namespace"

Connect = Callable[[str], Transport]
"""A transport that sends this token to the API server, and no other credentials."""


class TooManySessions(RuntimeError):
    """No further session is opened now. The message says why."""


@dataclass
class _Session:
    token: str
    namespace: str
    user: str
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    pages: Pages | None = None
    failure: KubeError | None = None
    task: asyncio.Task[None] | None = None
    readers: int = 0
    left_at: float = 0.0


class Sessions:
    """The sessions of callers, within `running`."""

    def __init__(self, connect: Connect, clock: Clock, planner: Planner, server: str) -> None:
        """`server` is the name of the API server for people."""
        self._connect = connect
        self._clock = clock
        self._planner = planner
        self.server = server
        self._sessions: dict[tuple[bytes, str], _Session] = {}
        self._checks = asyncio.Semaphore(MOST_CHECKED)
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep sessions within the block, and close those that nobody reads any more."""
        sweeper = asyncio.get_running_loop().create_task(self._sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            for session in list(self._sessions.values()):
                self._close(session)
            await asyncio.gather(sweeper, *self._ending, return_exceptions=True)

    @asynccontextmanager
    async def use(self, token: str, namespace: str) -> AsyncIterator[Pages]:
        """The pages of a token, of one namespace or of all (empty), kept up to date within the block.

        Raises `Unauthorized` for a token that the API server refuses, other errors of `espalier.kube.errors`,
        `TooManySessions`.
        """
        session = self._sessions.get(_key(token, namespace))
        if session is None:
            user = await self.user_of(token)
            # Another request may have opened it meanwhile; from here on, nothing waits.
            session = self._sessions.get(_key(token, namespace)) or self._open(token, namespace, user)
        session.readers += 1
        try:
            await session.ready.wait()
            if session.pages is None:
                raise session.failure or TooManySessions("the session was closed meanwhile: load the page again")
            yield session.pages
        finally:
            session.readers -= 1
            session.left_at = asyncio.get_running_loop().time()

    async def user_of(self, token: str) -> str:
        """The name of a token's user; a mark of the token where the API server does not tell.

        Raises `Unauthorized` if it refuses the token, other errors of `espalier.kube.errors`, `TooManySessions`.
        """
        if self._checks.locked():
            raise TooManySessions(f"{MOST_CHECKED} tokens are being checked already: try again in a few seconds")
        async with self._checks:
            client = Client(self._connect(token), user_agent=USER_AGENT, retry=Retry(failures=False))
            try:
                async with asyncio.timeout(CHECK_WITHIN):
                    request = Request("POST", _REVIEW, {}, {"content-type": "application/json"}, _BODY, CHECK_WITHIN)
                    response = await client.raw(request)
            except TimeoutError:
                raise Unreachable(f"no answer within {CHECK_WITHIN:g} seconds") from None
            finally:
                await client.close()
        if response.status in (403, 404):
            return f"the user of token {_key(token, '')[0].hex()[:8]}"
        if response.status != 201:
            raise error_of(response.status, response.body)
        info = (decode(response.body).get("status") or {}).get("userInfo") or {}
        return str(info.get("username") or "a user without a name")

    def end(self) -> None:
        """End all streams: browsers connect again, maybe to another replica."""
        for session in self._sessions.values():
            if session.pages is not None:
                session.pages.end()

    def close(self, token: str) -> None:
        """Close the sessions of a token."""
        digest, _ = _key(token, "")
        for (of, _), session in list(self._sessions.items()):
            if of == digest:
                self._close(session)

    def _open(self, token: str, namespace: str, user: str) -> _Session:
        own = [session for session in self._sessions.values() if session.user == user]
        if len(own) >= MOST_OF_USER:
            self._close_oldest(own, f"{user} has {MOST_OF_USER} sessions already: sign out of one, or close its pages")
        elif len(self._sessions) >= MOST:
            self._close_oldest(
                list(self._sessions.values()), f"{MOST} sessions are open already: try again once others have ended"
            )
        session = _Session(token, namespace, user)
        self._sessions[_key(token, namespace)] = session
        session.task = asyncio.get_running_loop().create_task(self._run(session))
        return session

    def _close_oldest(self, sessions: list[_Session], refusal: str) -> None:
        unread = [session for session in sessions if not session.readers]
        if not unread:
            raise TooManySessions(refusal)
        self._close(min(unread, key=lambda session: session.left_at))

    def _close(self, session: _Session) -> None:
        """Close a session, without waiting until its watches have ended."""
        key = _key(session.token, session.namespace)
        if self._sessions.get(key) is session:
            del self._sessions[key]
        session.ready.set()  # a task that is cancelled before it begins runs no code
        if session.pages is not None:
            session.pages.end(refused=True)
        if session.task is not None and session.task is not asyncio.current_task():
            session.task.cancel()
            self._ending.add(session.task)
            session.task.add_done_callback(self._ending.discard)

    async def _run(self, session: _Session) -> None:
        """Observe with a token, until the API server refuses it, or the task is cancelled."""
        client = Client(ReadOnly(self._connect(session.token)), user_agent=USER_AGENT, on_warning=lambda _text: None)
        try:
            served = await Discovery(client).resources()
            namespaces = (session.namespace,) if session.namespace else ()
            observation = Observation(client, self._clock, namespaces, served, _ADVICE)
            root = root_of(session.namespace)
            pages = Pages(observation, self._planner, Place(root, self.server, session.user, MOST_STREAMS))
            async with pages.running():
                session.pages = pages
                session.ready.set()
                await observation.probe.refused.wait()
                self._close(session)  # before its watches end, which takes a moment: nobody gets its pages any more
        except KubeError as error:
            session.failure = error
        finally:
            session.pages = None
            self._close(session)
            await client.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(LINGER / 4)
            now = asyncio.get_running_loop().time()
            for session in list(self._sessions.values()):
                if not session.readers and now - session.left_at > LINGER:
                    self._close(session)


def root_of(namespace: str) -> str:
    """The path of the pages of a namespace, or of all."""
    return f"/in/{namespace}/" if namespace else "/"


def _key(token: str, namespace: str) -> tuple[bytes, str]:
    return hashlib.sha256(token.encode()).digest(), namespace
