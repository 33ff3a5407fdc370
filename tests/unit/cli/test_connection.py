"""Connections of commands: what is said of an API server that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import NotReachable
from espalier.kube.errors import Unreachable

KUBECONFIG = """apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: a}}]
"""


@pytest.mark.parametrize(
    ("is_local", "port", "is_hinted"), [(True, 1, True), (False, 1, False), (True, 2, False)], ids=str
)
async def test_a_stopped_environment_has_a_hint(
    is_local: bool, port: int, is_hinted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `status` gives it; another API server has none, and neither has that of a workload cluster."""
    monkeypatch.setenv("ESPALIER_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    file = Home.locate().kubeconfig if is_local else tmp_path / "other"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(KUBECONFIG)
    selected = flags.Connection(kubeconfig=None if is_local else file)
    with pytest.raises(NotReachable if is_hinted else Unreachable) as caught:
        async with connection.connect(selected):
            raise Unreachable(f"cannot reach the API server at http://127.0.0.1:{port}: refused")
    assert str(caught.value).startswith("cannot reach the API server")
    assert ("start it with `espalier up`" in str(caught.value)) == is_hinted
