"""The cloud over HTTP: one path to which requests are posted, with their credentials."""

from __future__ import annotations

import msgspec
from aiohttp import web

from espalier.api import json_trees
from espalier.api.cloud import LONGEST_USER_DATA, CallCloud, CloudAnswer, CloudError, CloudRequest, Refusal

LARGEST_REQUEST = 4 * LONGEST_USER_DATA
_STATUS = {Refusal.UNAUTHENTICATED: 401, Refusal.NOT_FOUND: 404, Refusal.RATE_LIMITED: 429, Refusal.UNAVAILABLE: 503}

PATH = "/v1/call"


def application(call: CallCloud) -> web.Application:
    """An application that answers at `PATH`."""

    async def answer(request: web.Request) -> web.Response:
        try:
            asked = json_trees.decode(await request.read(), CloudRequest)
        except (msgspec.MsgspecError, RecursionError) as error:
            return _response(CloudAnswer(refusal=Refusal.INVALID, message=str(error)))
        try:
            return _response(CloudAnswer(await call(asked)))
        except CloudError as error:
            return _response(CloudAnswer(refusal=error.refusal, message=str(error)))

    made = web.Application(client_max_size=LARGEST_REQUEST)
    made.router.add_post(PATH, answer)
    return made


def _response(answer: CloudAnswer) -> web.Response:
    status = 200 if answer.refusal is None else _STATUS.get(answer.refusal, 422)
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type="application/json")
