"""`/healthz`, `/readyz` and `/metrics`, for the kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from aiohttp import web

from espalier.runtime.metrics import Metrics

Check: TypeAlias = Callable[[], str]
"""Returns the problem; an empty string if there is none."""


def health_application(
    live: Mapping[str, Check], ready: Mapping[str, Check], notices: Mapping[str, Check] | None = None
) -> web.Application:
    """Liveness checks under /healthz and readiness checks under /readyz, and each check under /healthz/NAME.

    The code is 200 if all pass, else 500. With `?verbose`, and if any check fails, all checks are listed, as by
    kube-apiserver; `?exclude=NAME` leaves one out. An answer shows that the event loop runs.
    `notices` are also listed under /readyz and available under /readyz/NAME, but do not make /readyz fail.
    """
    application = web.Application()
    for path, counting, others in (("/healthz", live, None), ("/readyz", ready, notices)):
        handler = _handler(path.strip("/"), {"ping": lambda: "", **counting}, others or {})
        application.router.add_get(path, handler)
        application.router.add_get(path + "/", handler)
        application.router.add_get(path + "/{check}", handler)
    return application


def metrics_application(metrics: Metrics) -> web.Application:
    """The metrics of a manager under /metrics."""

    async def expose(request: web.Request) -> web.Response:
        return web.Response(
            body=metrics.exposition(), headers={"content-type": "text/plain; version=1.0.0; charset=utf-8"}
        )

    application = web.Application()
    application.router.add_get("/metrics", expose)
    return application


def _handler(
    name: str, counting: Mapping[str, Check], notices: Mapping[str, Check]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    checks = {**counting, **notices}

    async def handle(request: web.Request) -> web.StreamResponse:
        requested = request.match_info.get("check")
        if requested is not None and requested not in checks:
            raise web.HTTPNotFound(text=f"unknown check {requested}; known checks: {', '.join(checks)}\n")
        excluded = request.query.getall("exclude", [])
        chosen = [requested] if requested is not None else [check for check in checks if check not in excluded]
        troubles = {check: checks[check]() for check in chosen}
        failed = any(trouble for check, trouble in troubles.items() if check == requested or check in counting)
        if not any(troubles.values()) and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[-]{check} failed: {trouble}" if trouble else f"[+]{check} ok" for check, trouble in troubles.items()
        ]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")

    return handle
