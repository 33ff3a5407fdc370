"""The HTTP endpoints of agents and copiers of an election, besides snapshots. They answer even without an etcd."""

from __future__ import annotations

from typing import Protocol

import msgspec
from aiohttp import web

from espalier.api.etcd.calls import OWN, CopyOperationStatus, InitiateCopyOperation
from espalier.api.trees import json_trees
from espalier.etcdbackup.agent.http import PROBE_HOLD, Health, becomes_ready, json_response
from espalier.etcdbackup.running.agent import AgentRun, OtherEpoch


class Probed(Protocol):
    """The state that a readiness probe asks for."""

    @property
    def ready(self) -> bool:
        """See `AgentRun` and `CopierRun`."""

    @property
    def trouble(self) -> str:
        """The reason why it is not ready."""

    def status(self) -> CopyOperationStatus:
        """The CopyOperation, as far as known."""


def add_copy_operations(application: web.Application, run: AgentRun) -> None:
    """`POST /copyop/initiate`; `/copyop/status` and `/backup/status` with GET or POST."""

    async def initiate(request: web.Request) -> web.Response:
        try:
            body = json_trees.decode(await request.read(), InitiateCopyOperation)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=f'body: {error}; allowed is {{"epoch": N}}\n') from None
        try:
            return json_response(await run.initiate(body))
        except OtherEpoch as error:
            raise web.HTTPConflict(text=f"{error}\n") from None

    async def backup_status(request: web.Request) -> web.Response:
        is_own = request.query.get(OWN, "") == "true"
        return json_response(run.backup_status() if is_own else await run.backup_status_of_all())

    application.router.add_post("/copyop/initiate", initiate)
    application.router.add_get("/backup/status", backup_status, allow_head=False)
    application.router.add_post("/backup/status", backup_status)
    _add_status(application, run)


def copier_application(run: Probed) -> web.Application:
    """`/healthz`, 200 once the copy is done and its epoch may start; and `/copyop/status`."""

    async def health(_request: web.Request) -> web.Response:
        await becomes_ready(lambda: run.ready, PROBE_HOLD)
        return json_response(Health(run.ready, run.trouble), 200 if run.ready else 503)

    app = web.Application(client_max_size=1 << 16)
    app.router.add_get("/healthz", health)
    _add_status(app, run)
    return app


def _add_status(application: web.Application, run: Probed) -> None:
    async def status(_request: web.Request) -> web.Response:
        return json_response(run.status())

    application.router.add_get("/copyop/status", status)
    application.router.add_post("/copyop/status", status)
