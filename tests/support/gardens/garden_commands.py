"""Commands that reach a garden of this process: all of them is real but the connection, which has no socket."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click
import pytest

from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.connection import Connected
from espalier.cli.kit.failures import explain
from espalier.cli.main import program
from espalier.kube.client import Client


@dataclass(frozen=True)
class Finished:
    """How a command ended, and what it printed."""

    code: int
    output: str
    complaint: str


class GardenCommands:
    """Runs commands on the loop of a test."""

    def __init__(self, client: Client, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        @asynccontextmanager
        async def connect(asked: flags.Connection, _wrap: object = None) -> AsyncIterator[Connected]:
            async with connection.explaining(client):
                yield Connected(client, asked.namespace or "default")

        patch.setattr(connection, "connect", connect)
        self._capture = capture

    async def __call__(self, *tokens: str) -> Finished:
        self._capture.readouterr()
        code, output = 0, ""
        try:
            with program.make_context("espalier", list(tokens)) as context:
                result = program.invoke(context)
            result = await result if inspect.isawaitable(result) else result
            code = result if isinstance(result, int) else 0
        except (Exception, click.exceptions.Exit) as error:
            explained = explain(error)
            if explained is None:
                raise
            code, output = explained
        printed = self._capture.readouterr()
        return Finished(code, printed.out, printed.err + output)
