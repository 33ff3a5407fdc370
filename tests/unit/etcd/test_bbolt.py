"""bbolt's file format: what is written is read back, an update is whole or not there, and damage has a name."""

from __future__ import annotations

import io
import itertools
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.layout import decode_meta
from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcd.bbolt.updating import InUse, updating
from espalier.etcd.bbolt.writing import NotSorted, write_database

Content = dict[bytes, dict[bytes, bytes]]

values = st.binary(max_size=40) | st.integers(0, 9000).map(lambda size: b"v" * size)
records = st.dictionaries(st.binary(min_size=1, max_size=300), values, max_size=60)
contents = st.dictionaries(st.binary(min_size=1, max_size=20), records, max_size=6)


def _written(content: Content, *, page_size: int = 1024) -> bytes:
    file = io.BytesIO()
    buckets = ((name, sorted(records.items())) for name, records in sorted(content.items()))
    write_database(file, buckets, page_size=page_size)
    return file.getvalue()


def _read(database: Database) -> Content:
    root = database.root
    return {name: dict(bucket.items()) for name in root.buckets() if (bucket := root.bucket(name)) is not None}


def _many(count: int, size: int = 30) -> dict[bytes, bytes]:
    return {number.to_bytes(8, "big"): b"x" * size for number in range(1, count + 1)}


@pytest.mark.soak
@given(contents, st.sampled_from([1024, 4096]))
@example({b"key": _many(3000)}, 1024)
@example({b"key": _many(3, 100_000), b"lease": {}, b"meta": {b"a": b""}}, 4096)
def test_a_written_file_is_read_back(content: Content, page_size: int) -> None:
    database = Database.of(_written(content, page_size=page_size))
    assert _read(database) == content
    assert check(database) == sum(map(len, content.values()))
    for name, records in content.items():
        bucket = database.bucket(name)
        assert bucket is not None
        assert bucket.last() == max(records.items(), default=None)
        assert list(bucket.items()) == sorted(records.items())


@given(records, st.binary(max_size=301))
@example(_many(2000), (1234).to_bytes(8, "big"))
def test_reading_starts_at_any_key(records: dict[bytes, bytes], start: bytes) -> None:
    bucket = Database.of(_written({b"key": records})).bucket(b"key")
    assert bucket is not None
    assert list(bucket.items(start)) == sorted(item for item in records.items() if item[0] >= start)
    assert bucket.get(start or b"\0") == records.get(start or b"\0")


@settings(max_examples=12)
@given(st.integers(0, 400), st.lists(st.integers(0, 700), min_size=1, max_size=3), st.integers(0, 400))
@example(3000, [1, 3000, 1], 20)
def test_appended_entries_are_read_back(before: int, more: list[int], size: int) -> None:
    file = io.BytesIO()
    all_records = sorted(_many(before + sum(more), size).items())
    other = {b"a": b"b" * size, b"c": b"d"}
    write_database(file, [(b"key", all_records[:before]), (b"lease", sorted(other.items()))], page_size=1024)
    path = Path(_folder(), "db")
    path.write_bytes(file.getvalue())
    end = before
    for count in more:
        with updating(path) as update:
            update.append(b"key", all_records[end : end + count])
            update.replace(b"meta", [(b"records", str(end + count).encode())])
        end += count
        with Database.open(path) as database:
            check(database)
            assert _read(database) == {
                b"key": dict(all_records[:end]),
                b"lease": other,
                b"meta": {b"records": str(end).encode()},
            }


@pytest.fixture(scope="module", autouse=True)
def _one_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    _FOLDERS.append(tmp_path_factory.mktemp("bbolt"))


_FOLDERS: list[Path] = []


def _folder() -> Path:
    return _FOLDERS[-1]


def test_truncated_update_is_complete_or_absent(tmp_path: Path) -> None:
    """The writes of an update, in their order, each of them torn at every 512 bytes: one of both states is read."""
    old, new = _many(200), _many(260)
    before = _written({b"key": old, b"meta": {}})
    path = tmp_path / "db"
    path.write_bytes(before)
    with updating(path) as update:
        update.append(b"key", sorted(new.items())[200:])
    after = path.read_bytes()
    meta = decode_meta(before[1024:2048])
    assert meta is not None
    seen = set()
    for cut in range(len(before), len(after) + 1, 512):  # the new pages, before the meta page
        assert _read(Database.of(before + after[len(before) : cut]))[b"key"] == old
    for cut in range(0, 1024 + 1, 8):  # the meta page of transaction 2 is page 0
        torn = after[:cut] + before[cut:1024] + after[1024:]
        state = len(_read(Database.of(torn))[b"key"])
        assert state in {200, 260}
        seen.add(state)
    assert seen == {200, 260}


def test_truncated_file_is_not_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(_written({b"key": _many(200)}))
    before = path.stat().st_size
    with updating(path) as update:
        update.append(b"key", sorted(_many(260).items())[200:])
    with path.open("r+b") as file:
        file.truncate(before)
    with pytest.raises(Damaged, match="is truncated"), Database.open(path):
        pass


def test_exception_during_update_leaves_old_file(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(_written({b"key": _many(50)}))
    before = path.read_bytes()
    with pytest.raises(NotSorted, match="keys must ascend"), updating(path) as update:
        update.append(b"key", itertools.chain(sorted(_many(5000).items())[50:], [(b"\0", b"")]))
    assert path.read_bytes() == before


def test_a_file_that_is_open_elsewhere_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(_written({}))
    with updating(path) as update:
        with pytest.raises(InUse, match="open in another process"), updating(path):
            pass
        update.replace(b"meta", [])
    with Database.open(path) as database:
        assert _read(database) == {b"meta": {}}


def test_records_out_of_order_are_refused() -> None:
    with pytest.raises(NotSorted, match="keys must ascend"):
        write_database(io.BytesIO(), [(b"key", [(b"b", b""), (b"a", b"")])])
    with pytest.raises(NotSorted, match="names must ascend"):
        write_database(io.BytesIO(), [(b"b", []), (b"a", [])])
    with pytest.raises(ValueError, match="no empty keys"):
        write_database(io.BytesIO(), [(b"b", [(b"", b"")])])


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    complete = _written({b"key": _many(100)})
    with pytest.raises(Damaged, match="the database is truncated: it has 4096 bytes"):
        Database.of(complete[:4096])
    with pytest.raises(Damaged, match="is not an etcd database"):
        Database.of(b"")
    with pytest.raises(Damaged, match="is not an etcd database"):
        Database.of(bytes(5000))
    path = tmp_path / "db"
    path.write_bytes(complete)
    with Database.open(path) as database:
        shutil.copy(path, tmp_path / "copy")
        with path.open("r+b") as file:
            file.truncate(3000)
        with pytest.raises(Damaged, match=f"{path} is damaged: page .* ends after"):
            check(database)


_SMALL = _written({b"key": _many(120), b"lease": {b"a": b"b"}, b"meta": {b"c": b"d" * 2000}})


@given(st.lists(st.tuples(st.integers(0, len(_SMALL) - 1), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_damaged_file_costs_no_more_than_an_intact(changes: list[tuple[int, bytes]]) -> None:
    content = bytearray(_SMALL)
    for at, change in changes:
        content[at : at + len(change)] = change[: len(content) - at]
    read = 0

    def counted(offset: int, size: int) -> bytes:
        nonlocal read
        read += 1
        assert read < 1000, "a damaged file is read in circles"
        return bytes(content[offset : offset + size])

    with suppress(Damaged):
        database = Database(counted, len(content), "a file")
        check(database)
        _read(database)


def test_a_page_that_is_its_own_child_is_named() -> None:
    content = bytearray(_written({b"key": _many(120)}))
    database = Database.of(bytes(content))
    bucket = database.bucket(b"key")
    assert bucket is not None
    at = bucket.root * 1024 + 16 + 8  # the number in the first element of the root branch
    content[at : at + 8] = bucket.root.to_bytes(8, "little")
    with pytest.raises(Damaged, match="used twice"):
        check(Database.of(bytes(content)))
    with pytest.raises(Damaged, match="its keys must ascend"):
        _read(Database.of(bytes(content)))
