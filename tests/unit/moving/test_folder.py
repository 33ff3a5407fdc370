"""Folders with copies of clusters: what is written is read again, and each kind of damage has its sentence."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from espalier.api.capi import cluster as capi
from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object, encode_json
from espalier.moving import folder
from espalier.moving.copies import Refused
from espalier.moving.folder import FORMAT, INDEX, OBJECTS, RESTORES, SUM, Damaged, Index, Named
from espalier.moving.objects import Item

OURS, THEIRS = eksa.Cluster.resource, capi.Cluster.resource
GARDEN = Key("default", "garden")
FILE = f"{OBJECTS}/clusters.anywhere.eks.amazonaws.com/default/garden.json"


def item(resource: Resource, key: Key = GARDEN, **spec: object) -> Item:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"uid of {resource.group}"}
    tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    return Item(resource, Object(encode_json(tree)), has_status=resource is not SECRET)


ITEMS = [item(OURS, count=1.0), item(THEIRS, text="ä\n"), item(SECRET)]


def written(path: Path, items: list[Item] | None = None) -> Path:
    items = ITEMS if items is None else items
    clusters = [Named(*of.object.key) for of in items if of.resource is OURS]
    folder.write(path, Index(FORMAT, "espalier 1", "uid", "2026-01-01T00:00:00Z", clusters, []), items)
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Two kinds named Cluster have a file each; numbers and texts are as they were."""
    result = folder.read(written(tmp_path / "saved"))
    assert {element.place for element in result.items} == {element.place for element in ITEMS}
    by_place = {element.place: element for element in result.items}
    assert [by_place[element.place] for element in ITEMS] == ITEMS
    assert b'"count":1.0' in by_place[ITEMS[0].place].object.raw
    assert result.index.keys == [GARDEN]


def test_only_the_owner_can_read_a_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "saved")
    modes = {stat.S_IMODE(element.stat().st_mode) for element in path.rglob("*") if element.is_file()}
    folders = {stat.S_IMODE(element.stat().st_mode) for element in (path, *path.rglob("*")) if element.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


def test_a_folder_that_could_not_be_written_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "_write", full)
    with pytest.raises(OSError, match="No space"):
        written(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_free(tmp_path: Path) -> None:
    assert folder.is_free(tmp_path / "absent")
    assert folder.is_free(tmp_path)
    (tmp_path / "file").touch()
    assert not folder.is_free(tmp_path)
    assert not folder.is_free(tmp_path / "file")


def test_the_longest_names_have_files_of_their_own(tmp_path: Path) -> None:
    items = [item(SECRET, Key("n" * 63, "a" * 252 + end)) for end in "bc"]
    assert [element.object.key for element in folder.read(written(tmp_path / "saved", items)).items] == [
        element.object.key for element in items
    ]


def reindexed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the index of a folder, and its digest with it."""
    index = json.loads((path / INDEX).read_text())
    change(index)
    content = json.dumps(index).encode()
    (path / INDEX).write_bytes(content)
    (path / SUM).write_text(f"{hashlib.sha256(content).hexdigest()}  {INDEX}\n")


def rewritten(path: Path, content: bytes) -> None:
    """Change an object of a folder, and its digests with it."""
    (path / FILE).write_bytes(content)
    row = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    reindexed(path, lambda index: next(object_ for object_ in index["objects"] if object_["path"] == FILE).update(row))


def of_row(folder_: Path, **fields: object) -> None:
    reindexed(
        folder_, lambda index: next(object_ for object_ in index["objects"] if object_["path"] == FILE).update(fields)
    )


def linked(path: Path) -> None:
    (path / FILE).rename(path.parent / "elsewhere")
    (path / FILE).symlink_to(path.parent / "elsewhere")


def outside(path: Path) -> None:
    """A whole object elsewhere, whose namespace is a path that leads there."""
    tree = ITEMS[0].object.tree
    tree["metadata"]["namespace"] = "../../.."
    content = encode_json(tree)
    (path.parent / "garden.json").write_bytes(content)
    where = f"{FILE.rpartition('/default')[0]}/../../../garden.json"
    digest = hashlib.sha256(content).hexdigest()
    of_row(path, namespace="../../..", path=where, sha256=digest, size=len(content))


def index_linked(path: Path) -> None:
    (path / INDEX).rename(path.parent / "elsewhere")
    (path / INDEX).symlink_to(path.parent / "elsewhere")


def folder_linked(path: Path) -> None:
    inside = (path / FILE).parent
    inside.rename(path.parent / "outside")
    inside.symlink_to(path.parent / "outside")


def one_byte(path: Path) -> None:
    content = bytearray((path / FILE).read_bytes())
    content[-3] ^= 1
    (path / FILE).write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no index": (lambda path: (path / INDEX).unlink(), "has no index.json: it is no folder of"),
    "no digest": (lambda path: (path / SUM).unlink(), "has no index.json.sha256: it is no folder of"),
    "index changed": (
        lambda path: (path / INDEX).write_bytes((path / INDEX).read_bytes().replace(b'"uid"', b'"vid"')),
        "index.json was changed: its digest is not that of index.json.sha256",
    ),
    "index not JSON": (lambda path: (path / INDEX).write_bytes(b"\xff\0{"), "index.json is damaged"),
    "index deep": (lambda path: (path / INDEX).write_bytes(b"[" * 100_000), "index.json is damaged"),
    "index lacks fields": (lambda path: reindexed(path, lambda index: index.pop("source")), "index.json is damaged"),
    "index linked": (
        index_linked,
        "index.json: Too many levels of symbolic links: copy the folder again",
    ),
    "later format": (
        lambda path: reindexed(path, lambda index: index.update(format=2, objects="?", release="espalier 9.9")),
        "format 2 was written by espalier 9.9; this release reads formats up to 1: use that release",
    ),
    "file missing": (lambda path: (path / FILE).unlink(), "garden.json is missing: copy the folder again"),
    "one byte": (one_byte, "garden.json was changed: its digest is not that of the index"),
    "file longer": (
        lambda path: (path / FILE).write_bytes(b" " * 20 * 1024**2),
        "garden.json was changed: its digest is not that of the index",
    ),
    "foreign file": (
        lambda path: (path / OBJECTS / "more.json").touch(),
        "has files that are not in its index: objects/more.json; move them elsewhere",
    ),
    "file linked": (linked, "garden.json is a link, or no regular file"),
    "folder linked": (folder_linked, "clusters.anywhere.eks.amazonaws.com/default is a link, or no regular file"),
    "deep object": (
        lambda path: rewritten(path, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "garden.json is damaged",
    ),
    "not an object": (lambda path: rewritten(path, b"[]"), "garden.json is damaged"),
    "object of another name": (
        lambda path: rewritten(path, encode_json({**ITEMS[0].object.tree, "metadata": {"name": "b", "uid": "c"}})),
        "garden.json is not Cluster default/garden",
    ),
    "path outside": (
        lambda path: of_row(path, path="../garden.json"),
        "is not where Cluster default/garden belongs",
    ),
    "kind of others": (
        lambda path: of_row(path, group="rbac.authorization.k8s.io", kind="ClusterRole", plural="clusterroles"),
        "kind clusterroles.rbac.authorization.k8s.io is not of clusters",
    ),
    "path outside by its namespace": (outside, "garden.json is missing: copy the folder again"),
    "object of many levels": (
        lambda path: rewritten(path, ITEMS[0].object.raw.replace(b"1.0", b'{"a":' * 200 + b"1" + b"}" * 200)),
        "garden.json is damaged (it is nested more than",
    ),
    "negative size": (
        lambda path: of_row(path, size=-2),
        "index.json is damaged (Expected `int` >= 0",
    ),
    "cluster without its object": (
        lambda path: reindexed(path, lambda index: index["clusters"].append({"namespace": "a", "name": "b"})),
        "index.json names Cluster a/b, and lists no object of it: copy the folder again",
    ),
    "listed twice": (
        lambda path: reindexed(path, lambda index: index["objects"].append(index["objects"][0])),
        "index.json lists a file twice",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_with_a_sentence(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path / "saved")
    act, sentence = DAMAGES[damage]
    act(path)
    with pytest.raises(Damaged) as refused:
        folder.read(path)
    assert sentence in str(refused.value)
    assert max(map(len, refused.value.problems)) < 500


def test_a_folder_of_much_damage_names_some_of_it(tmp_path: Path) -> None:
    items = [item(SECRET, Key("default", f"secret-{number}")) for number in range(30)]
    path = written(tmp_path / "saved", items)
    for file in (path / OBJECTS).rglob("*.json"):
        file.unlink()
    with pytest.raises(Damaged) as refused:
        folder.read(path)
    assert (len(refused.value.problems), refused.value.problems[-1]) == (11, "and 20 more such files")


def test_an_enormous_index_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "saved")
    monkeypatch.setattr(folder, "LARGEST_INDEX", (path / INDEX).stat().st_size)
    folder.read(path)
    monkeypatch.setattr(folder, "LARGEST_INDEX", (path / INDEX).stat().st_size - 1)
    with pytest.raises(Damaged, match=r"index.json has more than 0 MiB: copy the folder again"):
        folder.read(path)


def nested(levels: int) -> Item:
    """An object of this many levels."""
    value, depth = item(OURS, value=0), levels - 2
    return value._replace(object=Object(value.object.raw.replace(b":0", b":" + b"[" * depth + b"]" * depth)))


def test_large_objects_are_written_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indented, some would be larger than what is read again."""
    wide, raw = nested(100), len(nested(100).object.raw)
    monkeypatch.setattr(folder, "LARGEST_OBJECT", raw)
    path = written(tmp_path / "saved", [wide])
    assert (path / FILE).read_bytes() == bytes(wide.object.raw)
    assert list(folder.read(path).items) == [wide]


def test_objects_that_cannot_be_read_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.read(written(tmp_path / "deepest", [nested(128)]))
    with pytest.raises(Refused, match=r"clusters.anywhere.eks.amazonaws.com default/garden .* 128 levels deep"):
        written(tmp_path / "saved", [nested(129)])
    monkeypatch.setattr(folder, "LARGEST_OBJECT", len(ITEMS[0].object.raw) - 1)
    with pytest.raises(Refused, match=r"default/garden cannot be read again: it has \d+ bytes; allowed: \d+"):
        written(tmp_path / "saved")
    monkeypatch.undo()
    monkeypatch.setattr(folder, "LARGEST_INDEX", 100)
    with pytest.raises(Refused, match=r"the index has \d+ bytes; allowed: 100: .* --namespace or --cluster"):
        written(tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["deepest"]


def test_something_else_than_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(Damaged, match="is no folder"):
            folder.read(path)


def test_folder_is_restored_to_one_management_cluster(tmp_path: Path) -> None:
    path = written(tmp_path / "saved")
    folder.claim(path, [GARDEN], "first")
    folder.claim(path, [GARDEN], "first")
    folder.read(path)
    with pytest.raises(Damaged, match="was restored to another management cluster before: default/garden"):
        folder.claim(path, [GARDEN, Key("default", "other")], "second")
    folder.claim(path, [Key("default", "other")], "second")
    folder.unclaim(path, [GARDEN], "second")  # it did not have it
    with pytest.raises(Damaged, match="was restored to another management cluster before: default/garden"):
        folder.claim(path, [GARDEN], "second")
    folder.unclaim(path, [GARDEN], "first")
    folder.claim(path, [GARDEN], "second")
    assert msgspec.json.decode((path / RESTORES).read_bytes()) == {
        "clusters": {"default/garden": "second", "default/other": "second"}
    }
    (path / RESTORES).write_bytes(b"{")
    with pytest.raises(Damaged, match=r"restores.json is damaged"):
        folder.claim(path, [GARDEN], "second")


def test_restore_that_is_done_stays_noted(tmp_path: Path) -> None:
    path, other = written(tmp_path / "saved"), Key("default", "other")
    folder.claim(path, [GARDEN, other], "first")
    assert folder.finished(path, [GARDEN, other]) == set()
    folder.finish(path, GARDEN, "first")
    folder.claim(path, [GARDEN], "first")
    assert folder.finished(path, [GARDEN, other]) == {GARDEN}
    with pytest.raises(Damaged, match="default/other is not noted as restored to this management cluster"):
        folder.finish(path, other, "second")
    folder.unclaim(path, [GARDEN], "second")  # it did not have it
    assert folder.finished(path, [GARDEN]) == {GARDEN}
    folder.unclaim(path, [GARDEN], "first")
    assert folder.finished(path, [GARDEN]) == set()


@pytest.mark.parametrize("change", ["claim", "finish", "unclaim"])
def test_notes_of_restores_change_under_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    path, locked = written(tmp_path / "saved"), []
    folder.claim(path, [GARDEN], "first")
    noted = folder._restores

    def read(where: Path) -> object:
        descriptor = os.open(where, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked.append(False)
        except BlockingIOError:
            locked.append(True)
        finally:
            os.close(descriptor)
        return noted(where)

    monkeypatch.setattr(folder, "_restores", read)
    acts: dict[str, Callable[[], None]] = {
        "claim": lambda: folder.claim(path, [GARDEN], "first"),
        "finish": lambda: folder.finish(path, GARDEN, "first"),
        "unclaim": lambda: folder.unclaim(path, [GARDEN], "first"),
    }
    acts[change]()
    assert locked == [True]


def test_a_pipe_in_the_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    """Also of one that comes after the folder was read."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        folder._content(tmp_path / "pipe", 10)
