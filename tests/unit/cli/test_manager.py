"""Refusals of `espalier manager` before it does anything."""

from __future__ import annotations

import re

import pytest

from espalier.cli.main import run


def test_hooks_are_served_beside_webhooks_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manager", "--in-place", "hooks", "--webhook-address", "0"]) == 2
    assert re.search(r"--in-place hooks: .* give --webhook-address as well", capsys.readouterr().err)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9443", "127.0.0.1:9443", "https://"])
def test_cluster_api_calls_nothing_but_https(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manager", "--in-place", "hooks", "--hooks-url", url]) == 2
    assert f"--hooks-url: found '{url}', allowed is https://HOST:PORT" in capsys.readouterr().err
