"""`espalier etcd-agent run`: what is refused before anything is begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from espalier.cli.main import run

Captured = pytest.CaptureFixture[str]
OWNER = ("--epoch", "1", "--cluster", "shoot--a--b/1")


def refused(tmp_path: Path, capsys: Captured, *flags: str, code: int = 2) -> str:
    assert run(["etcd-agent", "run", f"file://{tmp_path}/store", *flags]) == code
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("validty: 20", ["validty: unknown field; did you mean validity?; found 20; allowed: pollPeriod, "]),
        ("validity: soon", ['validity: it is not a number; found "soon"; allowed: a number of seconds, such as 15']),
        ("validity: true", ["validity: it is not a number; found true"]),
        ("[15]", ["no times; found [15]; allowed: fields with seconds, such as validity: 15"]),
        ('{"validity": 5, "leaseWait": 1}', ["validity: one failed read would", "leaseWait: extensions of"]),
        ("validity: [", ["this is not YAML"]),
        ("a: 1\n" * 20000, ["found more than 65536 bytes"]),
    ],
)
def test_wrong_times_are_named_as_a_wrong_command_line(
    tmp_path: Path, capsys: Captured, text: str, sentences: Sequence[str]
) -> None:
    times = tmp_path / "timing.yaml"
    times.write_text(text)
    message = refused(tmp_path, capsys, *OWNER, "--timing", str(times))
    for sentence in sentences:
        assert f"--timing: {times}: " in message
        assert sentence in message


def test_times_that_are_not_there_are_named(tmp_path: Path, capsys: Captured) -> None:
    message = refused(tmp_path, capsys, *OWNER, "--timing", str(tmp_path / "none"))
    assert f"--timing: cannot read {tmp_path}/none: No such file" in message


@pytest.mark.parametrize("flag", ["--name", "--initial-cluster", "--initial-cluster-token"])
def test_a_member_without_a_data_directory_is_refused(tmp_path: Path, capsys: Captured, flag: str) -> None:
    assert f"{flag} needs --data-dir" in refused(tmp_path, capsys, flag, "a")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:2379", "unix:///run/etcd.sock"])
def test_authority_for_endpoint_without_tls_is_refused(tmp_path: Path, capsys: Captured, endpoint: str) -> None:
    message = refused(tmp_path, capsys, "--endpoints", endpoint, "--cacert", str(tmp_path / "ca.crt"))
    assert f"--cacert: --endpoints {endpoint} does not use TLS" in message


def test_an_authority_that_is_none_is_reported_at_once(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "ca.crt").write_text("none")
    flags = ("--endpoints", "https://127.0.0.1:2379", "--cacert", str(tmp_path / "ca.crt"))
    assert f"{tmp_path}/ca.crt holds no PEM certificate" in refused(tmp_path, capsys, *flags, code=1)


def test_foreign_folder_is_not_restored_into(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").write_text("")
    message = refused(tmp_path, capsys, "--data-dir", str(tmp_path / "precious"), code=1)
    assert f"{tmp_path}/precious is not empty and has no folder member, so it is not a data directory" in message
    assert "/ can't be a data directory" in refused(tmp_path, capsys, "--data-dir", "/", code=1)
    command = ["etcd-agent", "restore", f"file://{tmp_path}/store", "--data-dir", str(tmp_path / "precious")]
    assert run([*command, "--replace"]) == 1


MEMBERS = (
    "--name",
    "a",
    "--initial-cluster",
    "a=http://a:1,b=http://b:1",
    "--initial-advertise-peer-urls",
    "http://a:1",
)
"""Of an etcd with two members."""


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--member-clients", "a=http://a:2,b=http://b:2"), "--member-agents must be given with --member-clients"),
        (("--member-config", "/run/c"), "--member-config needs --member-clients"),
        (
            ("--member-clients", "a=http://a:2", "--member-agents", "a=http://a:3", "--member-config", "/run/c"),
            "--member-clients: found a, allowed are the members of --initial-cluster: a, b",
        ),
        (
            ("--member-clients", "a=http://a:2,a=http://b:2", "--member-agents", "a", "--member-config", "/run/c"),
            "--member-clients: found 'a=http://b:2', allowed is NAME=URL once for each member",
        ),
        (
            (
                *("--member-clients", "a=http://a:2,b=http://b:2", "--member-agents", "a=http://a:3,b=https://b:3"),
                *("--member-config", "/run/c"),
            ),
            "--member-agents: found https://b:3, which needs --server-cert, --server-key and --client-ca",
        ),
        (
            (
                *("--member-clients", "a=http://a:2,b=https://b:2", "--member-agents", "a=http://a:3,b=http://b:3"),
                *("--member-config", "/run/c"),
            ),
            "--member-clients: found https://b:2, which needs --server-cert, --server-key and --client-ca",
        ),
    ],
)
def test_members_without_all_their_urls_are_refused(
    tmp_path: Path, capsys: Captured, flags: Sequence[str], sentence: str
) -> None:
    owner = (*OWNER, "--data-dir", str(tmp_path / "data"), "--guard", str(tmp_path / "guard.sock"), *MEMBERS)
    assert sentence in refused(tmp_path, capsys, *owner, *flags)
