"""Repositories of GitHub, or of a GitHub Enterprise Server: whether one exists, and a new one, by its REST API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from espalier.api.text.printable import in_one_line
from espalier.api.text.redaction import concealed
from espalier.api.trees import json_trees
from espalier.gitops.repository import GitError
from espalier.kube.connection.proxies import by_environment

SERVER, API = "https://github.com", "https://api.github.com"
SCOPE = "repo"
"""A classic token needs it for private repositories. A fine-grained one has permissions, which no answer lists."""

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_LONGEST = 1 << 20
"""Bytes of an answer."""


def api_of(server: str) -> str:
    """The address of the REST API of a server."""
    return API if server == SERVER else f"{server}/api/v3"


def check_takes_token(url: str) -> None:
    """Raises `GitError` for an address to which a token would go in plain text."""
    address = urlsplit(url)
    if address.scheme != "https" and address.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise GitError("URLInvalid", f"{concealed(url)}: allowed is https://, for the token is sent there")


@dataclass(frozen=True)
class Hub:
    """A repository at a server, and a token for it."""

    owner: str
    name: str
    is_personal: bool
    """The owner is a user, the one of the token; else an organization."""
    token: str = field(repr=False)
    api: str = API

    def __post_init__(self) -> None:
        """Raises `GitError` as `check_takes_token`."""
        check_takes_token(self.api)

    async def exists(self) -> bool:
        """True if the repository exists, and the token may push to it; False if it could be created, as far as can be
        known before. Raises `GitError`.
        """
        async with self._session() as session:
            answer = await self._ask(session, "GET", f"/repos/{self.owner}/{self.name}")
            if answer.status == 404:
                await self._check_owner(session)
                return False
        if answer.status != 200:
            raise self._refused(answer)
        permissions = answer.tree.get("permissions", {})
        if not isinstance(answer.tree.get("full_name"), str) or not isinstance(permissions, dict):
            raise GitError("Unreachable", f"{self._where}: the answer is none of GitHub's API; see to GITHUB_API_URL")
        if answer.tree.get("archived"):
            raise GitError("Forbidden", f"{self._where}: it is archived, so nobody can push to it; unarchive it")
        if permissions.get("push") is False:
            raise GitError(
                "Forbidden", f"{self._where}: the token may not push to it; give one that may write contents"
            )
        return True

    async def create(self) -> bool:
        """Create it, private and empty; False if it exists already. Idempotent. Raises `GitError`."""
        if await self.exists():
            return False
        place = "/user/repos" if self.is_personal else f"/orgs/{self.owner}/repos"
        async with self._session() as session:
            answer = await self._ask(session, "POST", place, {"name": self.name, "private": True, "auto_init": False})
        if answer.status == 201:
            return True
        if answer.status == 422 and "already exists" in answer.message:
            if await self.exists():
                return False  # somebody else, or this command before its answer was lost
            raise GitError(
                "NameTaken",
                f"{self._where}: the name is taken, but the token can't see that repository; give a token that may "
                "read and write it, or name another repository",
            )
        raise self._refused(answer)

    @property
    def _where(self) -> str:
        return f"repository {self.owner}/{self.name} ({self.api})"

    def _session(self) -> aiohttp.ClientSession:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "User-Agent": "espalier",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT, middlewares=(by_environment,))

    async def _check_owner(self, session: aiohttp.ClientSession) -> None:
        """Raises `GitError` for an owner that the token can create no repository for."""
        if not self.is_personal:
            return
        answer = await self._ask(session, "GET", "/user")
        if answer.status != 200:
            raise self._refused(answer)
        login = in_one_line(str(answer.tree.get("login")))
        if login.lower() != self.owner.lower():
            raise GitError(
                "Forbidden",
                f"{self._where}: it does not exist, and the token is of {login}, who can't create it for {self.owner}: "
                f"give a token of {self.owner}; or set personal: false, if that is an organization",
            )

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> _Answer:
        failure = ""
        try:
            async with session.request(method, self.api + path, json=body) as response:
                answer = _Answer(response.status, response.headers, _tree(await _content(response)))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            failure = in_one_line(str(error) or type(error).__name__)
        if failure:
            raise GitError("Unreachable", f"{self._where}: {failure}; see to the connection, or to GITHUB_API_URL")
        self._check_access(answer)
        return answer

    def _check_access(self, answer: _Answer) -> None:
        """Raises `GitError` for what is wrong with the token, whatever was asked."""
        if answer.status == 401:
            raise GitError("Unauthorized", f"{self._where}: the server does not accept the token; it may have expired")
        if answer.status in (403, 429) and (until := answer.limited_until):
            raise GitError(
                "RateLimited", f"{self._where}: the token has made too many requests; give the command again {until}"
            )
        if (scopes := answer.scopes) is not None and SCOPE not in scopes:
            raise GitError(
                "Unauthorized",
                f"{self._where}: the token has scopes {in_one_line(', '.join(scopes)) or '(none)'}; needed is {SCOPE}: "
                "add it",
            )

    def _refused(self, answer: _Answer) -> GitError:
        advice = "the token may not do this; give one that may create repositories there, or create it"
        if answer.status == 404:
            advice = f"there is no organization {self.owner} that the token can see; set personal: true for a user"
        return GitError("Forbidden", f"{self._where}: {answer.status} {in_one_line(answer.message)}: {advice}")


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    tree: dict[str, Any]

    @property
    def message(self) -> str:
        errors = self.tree.get("errors")
        details = (
            [error.get("message") for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
        )
        return "; ".join(str(text) for text in (self.tree.get("message"), *details) if text)

    @property
    def scopes(self) -> list[str] | None:
        """Those of a classic token; None for any other."""
        given = self.headers.get("X-OAuth-Scopes")
        return None if given is None else [scope.strip() for scope in given.split(",") if scope.strip()]

    @property
    def limited_until(self) -> str:
        """When a rate limit ends; empty if this is none."""
        if after := self.headers.get("Retry-After"):
            return f"in {in_one_line(after)} s"
        if self.headers.get("X-RateLimit-Remaining") != "0":
            return ""
        try:
            reset = datetime.fromtimestamp(int(self.headers.get("X-RateLimit-Reset", "")), UTC)
        except (ValueError, OverflowError, OSError):
            return "later"
        return f"after {reset:%Y-%m-%d %H:%M:%S} UTC"


async def _content(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer, in however many parts it comes. Raises `ValueError` for one that is too long."""
    content = b""
    async for part in response.content.iter_any():
        content += part
        if len(content) > _LONGEST:
            raise ValueError(f"the answer has more than {_LONGEST >> 20} MiB")
    return content


def _tree(content: bytes) -> dict[str, Any]:
    try:
        return json_trees.decode(content, dict[str, Any])
    except msgspec.MsgspecError:
        return {}
