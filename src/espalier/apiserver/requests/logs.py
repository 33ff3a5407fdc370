"""Logs of containers: options and limits of a request. The caller provides the logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from espalier.api.meta import Tree
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.wire import failures, options
from espalier.kube.transports.wire import Response

SUBRESOURCE = "log"
PLAIN = "text/plain"

ReadLog: TypeAlias = Callable[[Tree, str], Awaitable[bytes]]
"""Pod and container name -> the log of its last run."""


async def nothing(_pod: Tree, _container: str) -> bytes:
    """Return an empty log: the containers are only simulated."""
    return b""


async def answer(info: RequestInfo, pod: bytes, read: ReadLog) -> Response:
    """The log of one container, `tailLines` and `limitBytes` honoured. Raises `BadRequest`."""
    tree = msgspec.json.decode(pod)
    container = _container(info, tree)
    if info.flag("previous"):
        raise failures.bad_request(f'previous terminated container "{container}" in pod "{info.name}" not found')
    lines = (await read(tree, container)).splitlines(keepends=True)
    if (tail := _number(info, "tailLines")) is not None:
        lines = lines[len(lines) - tail :] if tail < len(lines) else lines
    content = b"".join(lines)
    if (limit := _number(info, "limitBytes")) is not None:
        content = content[:limit]
    return Response(200, content, {"content-type": PLAIN})


def _container(info: RequestInfo, pod: Tree) -> str:
    """The container of a request: the named one, or the only one."""
    mains = [container["name"] for container in pod["spec"].get("containers") or ()]
    inits = [container["name"] for container in pod["spec"].get("initContainers") or ()]
    name = info.query.get("container", "")
    if name:
        if name not in (*mains, *inits):
            raise failures.bad_request(f"container {name} is not valid for pod {info.name}")
        return name
    if len(mains) > 1 or inits:
        which = f"choose one of: [{' '.join(mains)}]" + (
            f" or one of the init containers: [{' '.join(inits)}]" if inits else ""
        )
        raise failures.bad_request(f"a container name must be specified for pod {info.name}, {which}")
    return str(mains[0])


def _number(info: RequestInfo, option: str) -> int | None:
    text = info.query.get(option)
    if text is None:
        return None
    number = options.number(info.query, option)
    if number is not None and number < 0:
        cause = failures.invalid(option, number, "must be greater than or equal to 0")
        raise failures.invalid_object("PodLogOptions", "", "", [cause])
    return number
