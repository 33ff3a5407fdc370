"""`/healthz`, `/readyz` and `/metrics`: what kubelet and Prometheus ask a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from aiohttp import web

from espalier.runtime.metrics import Metrics

Check: TypeAlias = Callable[[], str]
"""Says what is wrong; an empty string when nothing is."""


def health_application(
    live: Mapping[str, Check], ready: Mapping[str, Check], notices: Mapping[str, Check] | None = None
) -> web.Application:
    """Checks of liveness under /healthz and of readiness under /readyz, and each of them under /healthz/NAME.

    200 when all is well, else 500. With `?verbose`, and always when something fails, each check is listed, as
    kube-apiserver does it; `?exclude=NAME` leaves one out. That the event loop answers is a check in itself.
    `notices` are listed under /readyz as well, and are asked alone under /readyz/NAME; for the whole they don't count.
    """
    application = web.Application()
    for path, counting, others in (("/healthz", live, None), ("/readyz", ready, notices)):
        handler = _handler(path.strip("/"), {"ping": lambda: "", **counting}, others or {})
        application.router.add_get(path, handler)
        application.router.add_get(path + "/", handler)
        application.router.add_get(path + "/{check}", handler)
    return application


def metrics_application(metrics: Metrics) -> web.Application:
    """The measures of a manager under /metrics."""

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
        one = request.match_info.get("check")
        if one is not None and one not in checks:
            raise web.HTTPNotFound(text=f"there is no check {one}; there are {', '.join(checks)}\n")
        excluded = request.query.getall("exclude", [])
        chosen = [one] if one is not None else [check for check in checks if check not in excluded]
        troubles = {check: checks[check]() for check in chosen}
        failed = any(trouble for check, trouble in troubles.items() if check == one or check in counting)
        if not any(troubles.values()) and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[-]{check} failed: {trouble}" if trouble else f"[+]{check} ok" for check, trouble in troubles.items()
        ]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")

    return handle
