"""The commands' answers about incomplete releases in the management cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from espalier.api.eksa.releases.release import EKSARelease
from espalier.cli.clusters import releases
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure
from espalier.cli.main import run
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object, to_bytes
from espalier.releases import Releases


async def test_release_without_bundles_is_named_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = Releases.load()
    newest = offered.newest().eksa_release
    release = replace(newest, metadata=replace(newest.metadata, name="eksa-v0-26-3"))

    async def get(kind: Any, name: str, namespace: str | None = None) -> Object:
        if kind == EKSARelease.resource:
            return Object(to_bytes(release))
        raise NotFound.of(f'bundles "{name}" not found')

    @asynccontextmanager
    async def connect(_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(client=SimpleNamespace(get=get))

    monkeypatch.setattr(connection, "connect", connect)
    server: Any = None
    with pytest.raises(Failure, match=r"release v0\.26\.3 names Bundles eksa-system/.*, which do not exist; .*import"):
        await releases._find("v0.26.3", offered, server)


def test_the_list_has_items_with_metadata(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def unknown(_connect: Any) -> None:
        return None

    monkeypatch.setattr(releases, "_installed", unknown)
    name = Releases.load().newest().eksa_release.metadata.name

    def printed(form: str) -> str:
        assert run(["releases", "list", "-o", form]) == 0
        return capsys.readouterr().out

    listed = json.loads(printed("json"))
    assert listed["kind"] == "List"
    assert listed["items"][0]["metadata"] == {"name": name}
    assert listed["items"][0]["kind"] == "EKSARelease"
    assert [item["version"] for item in listed["items"]] == [row["version"] for row in listed["releases"]]
    assert printed("jsonpath={.items[0].metadata.name}") == name
    assert printed("custom-columns=N:.metadata.name").split()[:2] == ["N", name]
