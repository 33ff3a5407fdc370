"""`espalier etcd-agent restore`: what it makes, prints, and how it ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from espalier.cli.main import run
from espalier.etcd.bbolt.reading import Database
from espalier.etcd.database.backend import State
from espalier.etcd.requests import Put
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.etcd.backups import delta, full
from tests.support.etcd.etcd_histories import Model
from tests.support.etcd.restored_etcd import database, full_content, put_delta, put_full

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Revisions 2 to 9: a full snapshot of 5, and two deltas."""
    asyncio.run(_fill(LocalStore(tmp_path / "store")))
    return f"file://{tmp_path / 'store'}"


async def _fill(store: LocalStore) -> None:
    model = Model()
    for number in range(8):
        model.play(Put(b"a", b"%d" % number, 7 if number == 7 else 0))
    await put_full(store, full(5, 0), full_content(model.events[:4], State(revision=5)))
    await put_delta(store, delta(6, 7, 1), model.events[4:6])
    await put_delta(store, delta(8, 9, 2), model.events[6:])


def test_it_says_what_was_restored(store: str, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "data"
    assert run(["etcd-agent", "restore", store, "--data-dir", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"restored revision 9 into {folder}, from {full(5, 0)} and 2 deltas with 4 events",
        "etcd starts at revision 1000000009, so that clients relist: writes may be lost",
        "granted for 1h: 1 lease not contained in any snapshot",
        "etcd 3.6 or 3.7 can start with it",
    ]
    with Database.open(database(folder)) as opened:
        members = opened.bucket(b"members")
        assert members is not None
        assert [key for key, _ in members.items()] == [b"8e9e05c52164694d"]


def test_a_possible_fork_is_named(tmp_path: Path, capsys: Captured) -> None:
    model = Model()
    for number in range(3):
        model.play(Put(b"a", b"%d" % number))
    before, after = full(3, 500), delta(4, 4, 60)

    async def fill(store: LocalStore) -> None:
        await put_full(store, before, full_content(model.events[:2], State(revision=3)))
        await put_delta(store, after, model.events[2:])

    asyncio.run(fill(LocalStore(tmp_path / "store")))
    assert run(["etcd-agent", "restore", f"file://{tmp_path / 'store'}", "--data-dir", str(tmp_path / "data")]) == 0
    assert f"Fork: {after} has newer revisions than {before}, but was taken 440 s before it" in capsys.readouterr().err


def test_programs_get_facts(store: str, tmp_path: Path, capsys: Captured) -> None:
    folder = str(tmp_path / "data")
    assert run(["etcd-agent", "restore", store, "--data-dir", folder, "--bump-revision", "0", "-o", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["revision"], facts["servedRevision"], facts["isComplete"]) == (9, 9, True)
    assert (facts["grantedLeases"], facts["replaced"], facts["notUsed"]) == (["7"], None, [])


@pytest.mark.parametrize(
    ("state", "etcd", "sentence"),
    [
        (State(revision=5, version="", cluster_version="3.5.0"), ["3.5", "3.6"], "etcd 3.5 or 3.6 can start with it"),
        (State(revision=5, version="", cluster_version="3.7.0"), ["3.7"], "etcd 3.7 can start with it"),
        (State(revision=5, version="3.6.0", cluster_version="3.7.0"), ["3.7"], "etcd 3.7 can start with it"),
        (State(revision=5, version="", cluster_version=""), [], "the snapshot does not say from which etcd it is"),
        (State(revision=5, version="", cluster_version="\x00new"), [], "the snapshot does not say"),
    ],
)
def test_a_restore_names_the_etcd_that_can_start(
    state: State, etcd: list[str], sentence: str, tmp_path: Path, capsys: Captured
) -> None:
    model = Model()
    for number in range(4):
        model.play(Put(b"a", b"%d" % number))
    bucket = LocalStore(tmp_path / "store")
    asyncio.run(put_full(bucket, full(5, 0), full_content(model.events, state)))
    arguments = ["etcd-agent", "restore", f"file://{tmp_path / 'store'}", "--data-dir"]
    assert run([*arguments, str(tmp_path / "data")]) == 0
    assert sentence in capsys.readouterr().out
    assert run([*arguments, str(tmp_path / "again"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["etcd"] == etcd


def test_failure_has_its_exit_code_and_keeps_folder(store: str, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "data"
    arguments = ["etcd-agent", "restore", store, "--data-dir", str(folder)]
    assert run([*arguments, "--initial-cluster", "other=http://a:1"]) == 2
    assert "--initial-cluster: found members other" in capsys.readouterr().err
    assert run(["etcd-agent", "restore", f"file://{tmp_path}/none", "--data-dir", str(folder)]) == 1
    path = tmp_path / "store" / delta(6, 7, 1).key
    path.unlink()
    assert run(arguments) == 5
    assert f"6 to 7 are missing; look for deleted deltas, or restore revision 5 with --partial; {folder} is" in (
        capsys.readouterr().err
    )
    path.write_bytes(b"damaged")
    assert run(arguments) == 5
    assert delta(6, 7, 1).key in capsys.readouterr().err
    assert not folder.exists()
    assert run([*arguments, "--partial"]) == 0
    shown = capsys.readouterr()
    assert "restored revision 5" in shown.out
    assert delta(6, 7, 1).key in shown.err
    assert run(arguments) == 1
    assert f"{folder} already has data" in capsys.readouterr().err
