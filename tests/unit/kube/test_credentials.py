"""Plugins are run when their credentials are needed, and no oftener."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from espalier.kube.connection.access import Access, ExecPlugin, InteractiveMode
from espalier.kube.connection.credentials import CredentialsError, ExecCredentials, credentials_of

V1 = "client.authentication.k8s.io/v1"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

COUNTING = """
import json, os, pathlib, sys
calls = pathlib.Path(sys.argv[1]); number = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (number + 1))
status = json.loads(sys.argv[2]); status["token"] = status.get("token", "") + str(number + 1)
print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}))
"""


def plugin(program: str, *args: str, mode: InteractiveMode = "Never", **options: Any) -> ExecPlugin:
    return ExecPlugin(sys.executable, V1, mode, ("-c", program, *args), **options)


def credentials(
    plugin: ExecPlugin, *, interactive: bool = False, env: Mapping[str, str] | None = None
) -> ExecCredentials:
    return ExecCredentials(plugin, now=lambda: NOW, interactive=interactive, environment=env or {})


async def test_plugin_runs_once_until_its_credential_ends(tmp_path: Path) -> None:
    now = NOW
    expires = {"expirationTimestamp": (NOW + timedelta(minutes=5)).isoformat()}
    source = ExecCredentials(
        plugin(COUNTING, str(tmp_path / "calls"), json.dumps(expires)),
        now=lambda: now,
        interactive=False,
        environment={},
    )
    together = await asyncio.gather(source.current(), source.current())
    assert [credential.token for credential in together] == ["1", "1"]
    now = NOW + timedelta(minutes=5)
    second = await source.current()
    assert second.token == "2"
    now = NOW
    assert source.reject(second)
    assert (await source.current()).token == "3"
    assert source.reject(second)  # one that is no longer used
    assert (await source.current()).token == "3"


async def test_a_credential_without_expiry_is_kept(tmp_path: Path) -> None:
    source = credentials(plugin(COUNTING, str(tmp_path / "calls"), "{}"))
    assert [(await source.current()).token for _ in range(2)] == ["1", "1"]


async def test_plugin_gets_facts_of_cluster_and_terminal() -> None:
    program = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = "|".join([info["apiVersion"], info["kind"], json.dumps(info["spec"]), os.environ["A"], os.environ["B"]])
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": {"token": token}}))
"""
    result = plugin(program, mode="IfAvailable", env={"A": "plugin"}, cluster={"server": "https://c.test"})
    source = credentials(result, interactive=True, env={"A": "user", "B": "user"})
    spec = json.dumps({"interactive": True, "cluster": {"server": "https://c.test"}})
    assert (await source.current()).token == f"{V1}|ExecCredential|{spec}|plugin|user"


async def test_a_plugin_may_give_a_certificate() -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    answer = {"kind": "ExecCredential", "apiVersion": V1, "status": status}
    credential = await credentials(plugin(f"print({json.dumps(json.dumps(answer))})")).current()
    assert (credential.certificate, credential.key) == (b"CERT", b"KEY")
    assert "KEY" not in repr(credential)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (plugin("raise SystemExit(3)"), "failed with exit code 3"),
        (plugin("print('hunter2')"), "did not print an ExecCredential"),
        (plugin("""print('{"kind":"ExecCredential","apiVersion":"v0","status":{}}')"""), "of v0, not"),
        (plugin(f"""print('{{"kind":"ExecCredential","apiVersion":"{V1}","status":{{}}}}')"""), "neither a token nor"),
        (
            plugin(
                f"""print('{{"kind":"ExecCredential","apiVersion":"{V1}","status":{{"clientKeyData":"hunter2"}}}}')"""
            ),
            "without the other",
        ),
        (
            ExecPlugin("no-such-program", V1, "Never", install_hint="Get it at x.test"),
            r"No such file.*\nGet it at x\.test",
        ),
        (plugin("", mode="Always"), "needs a terminal"),
    ],
)
async def test_failing_plugin_is_named_without_its_output(broken: ExecPlugin, message: str) -> None:
    with pytest.raises(CredentialsError, match=message) as caught:
        await credentials(broken).current()
    assert broken.command in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_a_cancelled_caller_leaves_no_plugin_behind(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    source = credentials(plugin("import sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(600)", str(fifo)))
    caller = asyncio.create_task(source.current())
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, fifo.read_text) == "x"
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_the_source_fits_the_access(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t\n")

    async def token_of(access: Access) -> str:
        return (await credentials_of(access, now=lambda: NOW).current()).token

    assert await token_of(Access("https://c", token="fixed")) == "fixed"
    assert await token_of(Access("https://c", token="fixed", token_file=token)) == "t"
    with pytest.raises(CredentialsError, match=r"cannot read the token file .*/none: No such file"):
        await token_of(Access("https://c", token_file=tmp_path / "none"))


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    source = credentials_of(Access("https://c", token_file=token), now=lambda: NOW)
    assert (await source.current()).token == "old"
    token.write_text("new")
    assert (await source.current()).token == "old"
    loop = asyncio.get_running_loop()
    later = loop.time() + 60
    monkeypatch.setattr(loop, "time", lambda: later)
    assert (await source.current()).token == "new"
