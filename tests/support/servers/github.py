"""The part of GitHub's REST API that concerns repositories, with its answers to tokens of all sorts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

_DOCUMENTATION = "https://docs.github.com/rest"


@dataclass
class Token:
    """A token of a user; `scopes` is None for a fine-grained one."""

    login: str
    scopes: str | None = "repo"
    sees: bool = True
    """Existing repositories, and organizations."""
    may_push: bool = True
    may_create: bool = True


@dataclass
class GitHub:
    """A server with organizations and repositories (OWNER/NAME)."""

    tokens: dict[str, Token] = field(default_factory=dict)
    organizations: set[str] = field(default_factory=set)
    repositories: dict[str, dict[str, object]] = field(default_factory=dict)
    on_created: Callable[[str], None] = lambda _name: None
    requests: list[str] = field(default_factory=list)
    limited: dict[str, str] = field(default_factory=dict)
    """Headers of an answer to everything: too many requests."""
    limited_status: int = 403
    instead: tuple[int, bytes] | None = None
    """Status and body of an answer to everything, as of a proxy."""
    in_parts: bool = False
    """Answers come in two parts, as long ones do."""
    moved: dict[str, str] = field(default_factory=dict)
    """Addresses to which paths are redirected."""
    authorizations: list[str] = field(default_factory=list)
    """The header of each request; empty without any."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        answer = await self._answer(request)
        if not self.in_parts or not isinstance(answer.body, bytes):
            return answer
        parted = web.StreamResponse(status=answer.status, headers=answer.headers)
        await parted.prepare(request)
        for part in (answer.body[:5], answer.body[5:]):
            await parted.write(part)
            await asyncio.sleep(0.05)  # both would come at once without it
        return parted

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.path}")
        self.authorizations.append(request.headers.get("Authorization", ""))
        if request.path in self.moved:
            return web.Response(status=301, headers={"Location": self.moved[request.path]})
        if self.instead is not None:
            return web.Response(status=self.instead[0], body=self.instead[1])
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        token = self.tokens.get(given)
        if token is None:
            return _refusal(401, "Bad credentials")
        if self.limited:
            return _refusal(self.limited_status, "API rate limit exceeded for user ID 1.", headers=self.limited)
        headers = {} if token.scopes is None else {"X-OAuth-Scopes": token.scopes}
        can_see = token.sees and (token.scopes is None or "repo" in token.scopes.split(", "))
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["user"]:
                return web.json_response({"login": token.login}, headers=headers)
            case "GET", ["repos", owner, name]:
                value = self.repositories.get(f"{owner}/{name}".lower())
                if value is None or not can_see:
                    return _refusal(404, "Not Found", headers=headers)
                value = {"full_name": f"{owner}/{name}"} | value
                return web.json_response(value | {"permissions": {"push": token.may_push}}, headers=headers)
            case "POST", ["user", "repos"]:
                return await self._create(request, token, token.login, headers)
            case "POST", ["orgs", owner, "repos"]:
                if owner not in self.organizations or not token.sees:
                    return _refusal(404, "Not Found", headers=headers)
                return await self._create(request, token, owner, headers)
        return _refusal(404, "Not Found", headers=headers)

    async def _create(self, request: web.Request, token: Token, owner: str, headers: dict[str, str]) -> web.Response:
        if not token.may_create:
            text = "You need admin access to the organization before adding a repository to it."
            return _refusal(403, text, headers=headers)
        body = await request.json()
        name = f"{owner}/{body['name']}"
        if name.lower() in self.repositories:
            error = {
                "resource": "Repository",
                "code": "custom",
                "field": "name",
                "message": "name already exists on this account",
            }
            return _refusal(422, "Repository creation failed.", [error], headers=headers)
        made = {"full_name": name, "private": body.get("private", False), "archived": False}
        self.repositories[name.lower()] = made
        self.on_created(name)
        return web.json_response(made, status=201, headers=headers)


def _refusal(
    status: int, message: str, errors: list[dict[str, str]] | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    body: dict[str, object] = {"message": message, "documentation_url": _DOCUMENTATION, "status": str(status)}
    return web.json_response(body | ({"errors": errors} if errors else {}), status=status, headers=headers)


@asynccontextmanager
async def github() -> AsyncIterator[GitHub]:
    """Serve it at `url`, as GitHub does its API."""
    hub = GitHub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", hub.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        hub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield hub
    finally:
        await runner.cleanup()
