"""`espalier etcd-agent`: what it prints of backups, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espalier.cli.kit import distribution
from espalier.cli.main import run
from espalier.etcdbackup.snapshots.names import Compression, Snapshot
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.etcd.backups import EPOCH, content_of, delta, full, put

OLD = (full(10, 0), delta(11, 25, 60))
NEW = (full(25, 3600), delta(26, 40, 3660), delta(41, 50, 3720, Compression.ZLIB))
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "etcd-main"


def filled(folder: Path, *snapshots: Snapshot) -> str:
    """A store with these snapshots; its URL."""
    asyncio.run(_fill(folder, snapshots))
    return f"file://{folder}"


async def _fill(folder: Path, snapshots: tuple[Snapshot, ...]) -> None:
    await put(LocalStore(folder), *snapshots)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("   ") if cell.strip()]


def test_sets_are_listed_with_what_their_names_say(folder: Path, capsys: Captured) -> None:
    store = filled(folder, *OLD, *NEW)
    (folder / "copyoperation.json").write_text("{}")
    assert run(["etcd-agent", "list", store]) == 0
    shown = capsys.readouterr()
    header, first, second = map(cells, shown.out.splitlines())
    assert header == ["REVISIONS", "DELTAS", "SIZE", "COMPRESSION", "AGE", "NEWEST", "STATE"]
    assert first[:2] == ["10-25", "1"]
    assert [second[at] for at in (0, 1, 3, 6)] == ["25-50", "2", "gzip, zlib", "complete"]
    assert shown.err == "1 other object: copyoperation.json\n"


def test_a_nested_delta_is_listed_as_verified(folder: Path, capsys: Captured) -> None:
    store = filled(folder, full(10, 0), delta(11, 50, 60), delta(15, 20, 500))
    assert run(["etcd-agent", "list", store]) == 0
    assert cells(capsys.readouterr().out.splitlines()[1])[-1] == "complete"
    assert run(["etcd-agent", "verify", store]) == 0
    assert "revision 50 can be restored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("snapshots", "newer"),
    [
        ((full(10, 500), delta(11, 50, 60)), delta(11, 50, 60)),
        ((full(10, 0), delta(11, 20, 500), delta(21, 50, 60)), delta(21, 50, 60)),
    ],
)
def test_a_possible_fork_is_named_by_all(
    snapshots: tuple[Snapshot, ...], newer: Snapshot, folder: Path, capsys: Captured
) -> None:
    store = filled(folder, *snapshots)
    assert run(["etcd-agent", "list", store]) == 0
    assert cells(capsys.readouterr().out.splitlines()[1])[-1] == "fork?"
    for command in ("show", "verify"):
        assert run(["etcd-agent", command, store]) == 0
        assert f"Fork: {newer} has newer revisions than {snapshots[-2]}, but was taken" in capsys.readouterr().err


def test_a_table_of_sets_fits_a_terminal(folder: Path, capsys: Captured) -> None:
    store = filled(folder, full(12_345_678, 0), delta(12_345_679, 12_345_689, 60))
    assert run(["etcd-agent", "list", store]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    assert run(["etcd-agent", "list", store, "-o", "wide"]) == 0
    assert "2023-11-14 22:13:20   Full-00000000-12345678-1700000000.gz" in capsys.readouterr().out


def test_programs_get_facts(folder: Path, capsys: Captured) -> None:
    store = filled(folder, *NEW)
    assert run(["etcd-agent", "list", store, "-o", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (snapshots,) = facts["sets"]
    assert (facts["store"], snapshots["restorableRevision"], snapshots["lastRevision"]) == (store, 50, 50)
    assert snapshots["full"]["createdOn"] == "2023-11-14T23:13:20Z"
    assert [delta["snapName"] for delta in snapshots["deltas"]] == [str(name) for name in NEW[1:]]
    assert run(["etcd-agent", "list", store, "-o", "jsonpath={.sets[0].full.snapName}"]) == 0
    assert capsys.readouterr().out == str(NEW[0])


def test_a_gap_is_shown_with_its_neighbours(folder: Path, capsys: Captured) -> None:
    store = filled(folder, NEW[0], NEW[2])
    assert run(["etcd-agent", "list", store]) == 0
    assert "gap after 25" in capsys.readouterr().out
    assert run(["etcd-agent", "show", store]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["NAME", str(NEW[0]), str(NEW[2])]
    assert shown.err == f"Gap: revisions 26 to 40 are missing between {NEW[0]} and {NEW[2]}\n"


def test_the_set_of_a_snapshot_is_shown(folder: Path, capsys: Captured) -> None:
    store = filled(folder, *OLD, *NEW)
    assert run(["etcd-agent", "show", store, str(OLD[1]), "-o", "yaml"]) == 0
    assert f"snapName: {OLD[0]}\n" in capsys.readouterr().out
    assert run(["etcd-agent", "show", store, "Full-1"]) == 1
    assert "has no snapshot Full-1 in a set; `espalier etcd-agent list" in capsys.readouterr().err


def test_a_whole_set_is_verified(folder: Path, capsys: Captured) -> None:
    assert run(["etcd-agent", "verify", filled(folder, *OLD, *NEW)]) == 0
    shown = capsys.readouterr()
    assert [line.split()[-1] for line in shown.out.splitlines()[1:]] == ["whole"] * 3
    assert "revision 50 can be restored, from a full snapshot and 2 deltas with 30 events; the newest is" in shown.err


def test_damage_is_named_and_has_exit_code_of_its_own(folder: Path, capsys: Captured) -> None:
    store = filled(folder, *OLD, *NEW)
    path = folder / NEW[1].key
    path.write_bytes(content_of(NEW[1])[:-9] + b"!" * 9)
    assert run(["etcd-agent", "verify", store, "-o", "json"]) == 5
    shown = capsys.readouterr()
    assert json.loads(shown.out)["sets"][0]["restorableRevision"] == 25
    assert shown.err.startswith(f"error: {store}/{NEW[1].key}: ")
    assert run(["etcd-agent", "verify", store]) == 5
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]] == ["whole", "damaged", "whole"]
    (folder / OLD[1].key).unlink()
    assert run(["etcd-agent", "verify", store, "--all"]) == 5
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_old_or_incomplete_backup_fails(folder: Path, capsys: Captured) -> None:
    now = int(time.time()) - EPOCH
    store = filled(folder, full(10, now - 7200), delta(11, 20, now - 3600))
    assert run(["etcd-agent", "verify", store, "--max-age", "2h", "--revision", "20"]) == 0
    capsys.readouterr()
    assert run(["etcd-agent", "verify", store, "--max-age", "10m", "--revision", "21"]) == 5
    error = capsys.readouterr().err
    assert f"the newest snapshot, {delta(11, 20, now - 3600)}, is 60m old, allowed is 10m" in error
    assert "revision 20 can be restored, 21 was asked for" in error


def test_future_snapshot_makes_no_backup_young(folder: Path, capsys: Captured) -> None:
    now = int(time.time()) - EPOCH
    store = filled(folder, full(10, now + 86400 * 365), delta(11, 20, now - 86400))
    assert run(["etcd-agent", "verify", store]) == 0
    assert run(["etcd-agent", "verify", store, "--max-age", "10m"]) == 5
    assert f"{full(10, now + 86400 * 365)} was taken 364d from now" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "verify"])
def test_empty_store_tells_where_backups_might_be(folder: Path, command: str, capsys: Captured) -> None:
    code = {"show": 1, "verify": 5}[command]
    store = filled(folder / "shoot--a--b" / "etcd-main", full(10, 0)).removesuffix("/shoot--a--b/etcd-main")
    sentences = {
        f"{store}/shoot--a--b/etcd-main/v2": "remove v2 from the end of the URL",
        store: f"did you mean {store}/shoot--a--b/etcd-main?",
        f"{store}/none": "its key would begin with v2/Full-",
    }
    for url, sentence in sentences.items():
        assert run(["etcd-agent", command, url]) == code
        assert sentence in capsys.readouterr().err


def test_to_list_an_empty_store_is_no_failure(folder: Path, capsys: Captured) -> None:
    assert run(["etcd-agent", "list", f"file://{folder}"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err.startswith("no full snapshot found in file:///")) == ("", True)


def test_deltas_without_a_full_snapshot_are_reported(folder: Path, capsys: Captured) -> None:
    assert run(["etcd-agent", "verify", filled(folder, *NEW[1:])]) == 5
    assert "and 2 deltas without one" in capsys.readouterr().err


@pytest.mark.demand("G59")
def test_a_set_is_copied_and_not_twice(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    source, target = filled(folder, *OLD, *NEW), f"file://{tmp_path}/copy"
    command = ["etcd-agent", "copy", source, target, "--max-backups-to-copy", "1"]
    assert run(command) == 0
    assert "copied 3 snapshots" in capsys.readouterr().out
    assert run([*command, "-o", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["copied"], len(facts["present"]), facts["restorableRevision"]) == ([], 3, 50)
    assert run(["etcd-agent", "verify", target]) == 0


@pytest.mark.demand("G59")
def test_sets_are_copied_by_the_count_of_etcdbrctl(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    command = ["etcd-agent", "copy", filled(folder, *OLD, *NEW), f"file://{tmp_path}/copy"]
    assert run([*command, "--max-backups-to-copy", "-1", "--max-backup-age", "-1"]) == 0
    assert "copied 5 snapshots" in capsys.readouterr().out


def test_missing_final_snapshot_is_reported_after_copy(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    source, target = filled(folder, *NEW), f"file://{tmp_path}/copy"
    command = ["etcd-agent", "copy", source, target, "--wait-for-final-snapshot"]
    assert run([*command, "--wait-for-final-snapshot-timeout", "10ms"]) == 4
    assert (
        "no final snapshot after 10ms; copied what was there: writes to etcd after revision 50"
        in capsys.readouterr().err
    )
    filled(folder, full(60, 4000, final=True))
    assert run(command) == 0
    assert (tmp_path / "copy" / full(60, 4000).key).exists()


def test_an_empty_source_is_a_failure(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    assert run(["etcd-agent", "copy", f"file://{folder}", f"file://{tmp_path}/copy"]) == 1
    assert "no full snapshot found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["list", "bucket"], 2, "STORE: found 'bucket', allowed is s3://bucket/prefix"),
        (["list", "s3://key:secret@bucket"], 2, "credentials come from files"),
        (["verify", "file:///a", "--max-age", "soon"], 2, "--max-age: found 'soon'"),
        (["copy", "file:///a", "file:///b", "--max-backups-to-copy", "0"], 2, "from 1 to 1000000, or -1: all"),
        (["copy", "file:///a", "file:///b", "--max-backup-age", "-2"], 2, "--max-backup-age: found '-2'"),
        (["list", "file:///a", "-o", "xml"], 2, "-o: found 'xml'"),
        (["copy", "file:///a", "file:///b", "--wait-for-final-snapshot-timeout", "5m"], 2, "needs --wait-for-final"),
    ],
)
def test_a_wrong_command_line_is_reported(words: list[str], code: int, sentence: str, capsys: Captured) -> None:
    assert run(["etcd-agent", *words]) == code
    assert sentence in capsys.readouterr().err


def test_silent_and_refusing_stores_have_exit_codes(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("accessKeyID", "secretAccessKey", "region"):
        (tmp_path / name).write_text("a")
    monkeypatch.setenv("AWS_APPLICATION_CREDENTIALS", str(tmp_path))
    assert run(["etcd-agent", "list", "s3://bucket/a", "--endpoint", "http://127.0.0.1:1"]) == 3
    assert "s3://bucket/a: the store does not answer as expected (no connection" in capsys.readouterr().err
    (tmp_path / "region").unlink()
    assert run(["etcd-agent", "list", "s3://bucket/a"]) == 1
    assert "found no region; add it to the Secret" in capsys.readouterr().err


def test_names_of_others_do_not_steer_the_terminal(folder: Path, capsys: Captured) -> None:
    store = filled(folder, *NEW)
    (folder / "\x1b[31mred").write_text("")
    assert run(["etcd-agent", "list", store]) == 0
    assert "\\x1b[31mred" in capsys.readouterr().err


@pytest.mark.soak
def test_help_loads_neither_obstore_nor_the_formats() -> None:
    program = "import sys; from espalier.cli.main import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for words in (["--help"], ["etcd-agent", "--help"], ["etcd-agent", "copy", "--help"]):
        ended = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True, env=dict(os.environ)
        )
        loaded = {name.partition(".")[0] for name in ended.stderr.split()}
        assert "obstore" not in loaded
        assert not [name for name in ended.stderr.split() if name.startswith("espalier.etcdbackup")]


def test_without_the_extra_it_is_said_how_to_get_it() -> None:
    program = "import sys; sys.modules['obstore'] = None; from espalier.cli.main import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "etcd-agent", "list", "s3://bucket/a"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, distribution.install("etcd") in ended.stderr) == (1, True)


def test_an_interrupted_copy_reports_what_stays(folder: Path, tmp_path: Path) -> None:
    words = ["etcd-agent", "copy", filled(folder, *NEW), f"file://{tmp_path}/copy", "--wait-for-final-snapshot"]
    with subprocess.Popen([sys.executable, "-m", "espalier.cli", *words], stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        assert "waiting for the final snapshot in file://" in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        assert "stopped; what was copied stays" in command.stderr.read()
    assert command.returncode == 130


@pytest.mark.parametrize(
    ("endpoints", "message"),
    [
        ("ftp://localhost", "endpoint 'ftp://localhost': unknown scheme 'ftp'"),
        ("http://a:2379,http://b:2379", "allowed is one: the member to back up"),
    ],
)
def test_endpoint_that_is_none_is_wrong_command_line(
    folder: Path, capsys: Captured, endpoints: str, message: str
) -> None:
    assert run(["etcd-agent", "run", f"file://{folder}", "--endpoints", endpoints]) == 2
    assert message in capsys.readouterr().err
