"""A toy Extension, installed later: its state has a secret, and keeps unknown fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from espalier.api.gardener.extensions.extension import Extension as ExtensionKind
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.extension import Extension, Request, Result, SavedState, StateInvalid

TYPE = "toy"
TOKEN = "token"  # noqa: S105  the name of a field


class ToyActuator:
    """Generates a token once in a shoot's life. A shoot that moves keeps it."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token

    async def reconcile(self, request: Request[dict[str, Any]]) -> Result[dict[str, Any]] | Wait:
        """Generate the token, unless there is one."""
        return Result(request.state or {TOKEN: self._new_token()})

    async def restore(self, request: Request[dict[str, Any]]) -> Result[dict[str, Any]] | Wait:
        """Keep the token in the state."""
        if not request.state or not isinstance(request.state.get(TOKEN), str):
            raise StateInvalid("status.state: found no token; allowed: the state that the source seed saved")
        return Result(request.state)

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """There is nothing in the seed to remove."""
        return None

    async def delete(self, request: Request[dict[str, Any]]) -> Wait | None:
        """The token is deleted with the state."""
        return None


def extension(new_token: Callable[[], str]) -> Extension[dict[str, Any]]:
    """The toy extension."""
    return Extension(ExtensionKind.resource, TYPE, ToyActuator(new_token), SavedState(dict[str, Any]))
