"""A folder with copies of clusters: its format, and what is checked before anything in it is believed.

An index lists every file with its digest; the digest of the index lies beside it, as `sha256sum` writes it. The folder
appears under its name once it is complete. Contents are those of an API server, Secrets included.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.moving.copies import Refused
from espalier.moving.objects import CLUSTER, Item
from espalier.moving.sides import is_known
from espalier.runtime import confined

FORMAT = 1
"""Version of the format. A later release may read earlier ones, never the other way round."""
INDEX, SUM, RESTORES = "index.json", "index.json.sha256", "restores.json"
OBJECTS = "objects"
LARGEST_INDEX, LARGEST_OBJECT = 256 * 1024**2, 8 * 1024**2
"""Bytes. An API server takes objects of at most 3 MiB."""
_LONGEST_NAME = 200
"""Characters of an object's name that are used for its file: the end is a digest in longer ones."""
_SHOWN = 10


class Damaged(Exception):
    """A folder that can't be used; each text names the file, what was found, and what to do."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An object of a folder. `has_status`: its status is written apart; `size` is in bytes."""

    path: str
    sha256: str
    size: Annotated[int, msgspec.Meta(ge=0)]
    version: str
    kind: str
    plural: str
    name: str
    group: str = ""
    namespace: str = ""
    namespaced: bool = True
    has_status: bool = False

    @property
    def resource(self) -> Resource:
        """The kind as it was served where it was read."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced)


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Cluster of a folder; `why` says why it is left out, if it is."""

    namespace: str
    name: str
    why: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)


class Index(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The contents of a folder.

    `source` is the uid of the management cluster, `server` its URL and `authority` the PEM of its certificate
    authority; `taken` is a time as Kubernetes writes it, `release` that of the program, `infrastructure` as a `Side`
    has it.
    """

    format: int
    release: str
    source: str
    taken: str
    clusters: list[Named]
    objects: list[Row]
    left_out: list[Named] = msgspec.field(default_factory=list)
    server: str = ""
    authority: str = ""
    infrastructure: str = ""

    @property
    def keys(self) -> list[Key]:
        """The Clusters that can be restored."""
        return [cluster.key for cluster in self.clusters]


@dataclass(frozen=True)
class Backup:
    """The contents of a folder, checked."""

    index: Index
    items: Sequence[Item]


class _Version(msgspec.Struct):
    format: int
    release: str = "a later release"


class _Restores(msgspec.Struct, omit_defaults=True):
    """The management clusters, by uid, to which clusters were restored; those in `done` had all of their objects there,
    so that somebody may have acted on them.
    """

    clusters: dict[str, str] = msgspec.field(default_factory=dict)
    done: list[str] = msgspec.field(default_factory=list)


def write(folder: Path, index: Index, items: Iterable[Item]) -> None:
    """Write a new folder; `index` comes without its rows. Raises `OSError`, and `Refused` for what could not be
    read again; leaves nothing then.

    The folder must not exist, or be empty; the one around it must exist.
    """
    staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        rows = [_written(staged, item) for item in sorted(items, key=lambda item: item.place)]
        content = msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(index, objects=rows)), indent=1)
        if len(content) > LARGEST_INDEX:
            raise Refused(
                [
                    f"the index has {len(content)} bytes; allowed: {LARGEST_INDEX}: choose fewer clusters with "
                    "--namespace or --cluster"
                ]
            )
        _write(staged, INDEX, content)
        _write(staged, SUM, f"{_digest(content)}  {INDEX}\n".encode())
        os.sync()  # once, instead of for each of thousands of files
        staged.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def read(folder: Path) -> Backup:
    """The contents of a folder. Raises `Damaged` unless every file is as it was written, and `OSError`."""
    if not folder.is_dir():
        raise Damaged([f"{folder} is no folder: name one that `espalier move --to-folder` wrote"])
    index = _index(folder)
    present, problems = _files(folder)
    listed = {row.path for row in index.objects}
    if len(listed) < len(index.objects):
        problems.append(f"{folder / INDEX} lists a file twice: {_restore()}")
    for key in index.keys:
        if path_of(CLUSTER, key) not in listed:
            problems.append(f"{folder / INDEX} names Cluster {key}, and lists no object of it: {_restore()}")
    if foreign := sorted(present - listed - {INDEX, SUM, RESTORES}):
        problems.append(f"{folder} has files that are not in its index: {first(foreign, 3)}; move them elsewhere")
    items = []
    for row in index.objects:
        try:
            items.append(_item(folder, row, present))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        more = len(problems) - _SHOWN
        raise Damaged([*problems[:_SHOWN], *([f"and {more} more such files"] if more > 0 else [])])
    return Backup(index, items)


def claim(folder: Path, keys: Iterable[Key], target: str) -> None:
    """Note, before anybody acts on them, the management cluster to which clusters are restored. Raises `Damaged` if
    one was restored to another, and `OSError`."""
    claimed = [str(key) for key in keys]
    with _noting(folder) as restores:
        if elsewhere := [key for key in claimed if restores.clusters.get(key, target) != target]:
            raise Damaged(
                [
                    f"{folder} was restored to another management cluster before: {first(elsewhere, 3)}; that one acts "
                    f"on them. If it is lost, too, delete {folder / RESTORES}"
                ]
            )
        restores.clusters |= dict.fromkeys(claimed, target)


def finish(folder: Path, key: Key, target: str) -> None:
    """Note, before anybody acts on it, that a cluster is restored. Raises `Damaged` if it was not claimed for this
    management cluster, and `OSError`.
    """
    with _noting(folder) as restores:
        if restores.clusters.get(str(key)) != target:
            raise Damaged(
                [
                    f"{folder / RESTORES}: {key} is not noted as restored to this management cluster: somebody changed "
                    "it meanwhile; give the same command again"
                ]
            )
        restores.done = sorted({*restores.done, str(key)})


def finished(folder: Path, keys: Iterable[Key]) -> frozenset[Key]:
    """Those of these clusters that were restored, wherever they are now. Raises `Damaged`."""
    done = set(_restores(folder).done)
    return frozenset(key for key in keys if str(key) in done)


def unclaim(folder: Path, keys: Iterable[Key], target: str) -> None:
    """Forget that clusters were restored to a management cluster, because that was taken back. Raises `Damaged`,
    `OSError`.
    """
    with _noting(folder) as restores:
        given_up = {str(key) for key in keys if restores.clusters.get(str(key)) == target}
        restores.clusters = {key: owner for key, owner in restores.clusters.items() if key not in given_up}
        restores.done = [key for key in restores.done if key not in given_up]


@contextmanager
def _noting(folder: Path) -> Iterator[_Restores]:
    """The noted restores, which are written again if they are changed, while no other process notes any."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        restores = _restores(folder)
        before = msgspec.json.encode(restores)
        yield restores
        if (after := msgspec.json.encode(restores)) != before:
            confined.write(folder, RESTORES, msgspec.json.format(after, indent=1).decode())
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _restores(folder: Path) -> _Restores:
    try:
        return json_trees.decode(_content(folder / RESTORES, LARGEST_OBJECT), _Restores)
    except FileNotFoundError:
        return _Restores()
    except (msgspec.MsgspecError, OSError) as error:
        raise Damaged([f"{folder / RESTORES} is damaged ({error}): {_restore()}"]) from None


def path_of(resource: Resource, key: Key) -> str:
    """The file of an object, relative to the folder: its kind with its group, namespace, name."""
    name = key.name
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{_digest(name.encode())[:16]}"
    return f"{OBJECTS}/{resource.group_resource}/{key.namespace or '_'}/{name}.json"


def _written(folder: Path, item: Item) -> Row:
    resource, key = item.resource, item.object.key
    path, content = path_of(resource, key), _content_of(item)
    _write(folder, path, content)
    return Row(
        path,
        _digest(content),
        len(content),
        resource.version,
        resource.kind,
        resource.plural,
        key.name,
        resource.group,
        key.namespace,
        resource.namespaced,
        item.has_status,
    )


def _content_of(item: Item) -> bytes:
    """An object as text to be read by people, unless that is too large. Raises `Refused` for one that could not be read
    again.
    """
    raw, problem = bytes(item.object.raw), ""
    if len(raw) > LARGEST_OBJECT:
        problem = f"it has {len(raw)} bytes; allowed: {LARGEST_OBJECT}"
    try:
        json_trees.require_flat(raw)
        content = msgspec.json.format(raw, indent=1)
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = str(error)
    if problem:
        name = f"{item.resource.group_resource} {item.object.key}"
        raise Refused(
            [f"{name} cannot be read again: {problem}; make it smaller, or choose clusters without it with --cluster"]
        )
    return content if len(content) <= LARGEST_OBJECT else raw


def _write(folder: Path, path: str, content: bytes) -> None:
    file = folder / path
    for parent in reversed(file.relative_to(folder).parents[:-1]):
        (folder / parent).mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as opened:
        opened.write(content)


def _content(file: Path, limit: int) -> bytes:
    """The content of a regular file; a byte more than the limit of a larger one. Links are not followed. Raises
    `OSError`."""
    # Without O_NONBLOCK, opening a FIFO would block until somebody opens its other end.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(file))
        return opened.read(limit + 1)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _index(folder: Path) -> Index:
    try:
        content = _content(folder / INDEX, LARGEST_INDEX)
        recorded = _content(folder / SUM, 1024).decode(errors="replace")
    except FileNotFoundError as error:
        what = "it is no folder of `espalier move --to-folder`, or an incomplete copy of one"
        raise Damaged([f"{folder} has no {Path(error.filename).name}: {what}"]) from None
    except OSError as error:
        raise Damaged([f"{error.filename or folder / INDEX}: {error.strerror}: {_restore()}"]) from None
    where = folder / INDEX
    if len(content) > LARGEST_INDEX:
        raise Damaged([f"{where} has more than {LARGEST_INDEX // 1024**2} MiB: {_restore()}"])
    try:
        version = json_trees.decode(content, _Version)
        if version.format > FORMAT:
            raise Damaged(
                [
                    f"{where}: format {version.format} was written by {version.release}; this release reads formats up "
                    f"to {FORMAT}: use that release, or a later one"
                ]
            )
        if recorded.split() != [_digest(content), INDEX]:
            raise Damaged([f"{where} was changed: its digest is not that of {SUM}; {_restore()}"])
        return json_trees.decode(content, Index)
    except msgspec.MsgspecError as error:
        raise Damaged([f"{where} is damaged ({error}): {_restore()}"]) from None


def _files(folder: Path) -> tuple[set[str], list[str]]:
    """The regular files below a folder, and what else is there."""
    regular, problems = set(), []
    for inner, names, files in os.walk(folder, followlinks=False):
        for name in (*names, *files):
            path = Path(inner, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                regular.add(str(path.relative_to(folder)))
            elif not stat.S_ISDIR(mode):
                problems.append(f"{path} is a link, or no regular file: replace it by the file that was written")
    return regular, problems


def _item(folder: Path, row: Row, present: Set[str]) -> Item:
    """The object of a row; files that are not `present` below the folder are not opened. Raises `ValueError` with what
    is wrong with it.
    """
    where = folder / row.path
    if not is_known(row.group, row.kind):
        raise ValueError(f"{where}: kind {row.resource.group_resource} is not of clusters: {_restore()}")
    if row.path != path_of(row.resource, Key(row.namespace, row.name)):
        raise ValueError(f"{where} is not where {row.kind} {row.namespace}/{row.name} belongs: {_restore()}")
    if row.path not in present:
        raise ValueError(f"{where} is missing: {_restore()}")
    try:
        content = _content(folder / row.path, min(row.size, LARGEST_OBJECT))
    except OSError as error:
        raise ValueError(f"{where}: {error.strerror}: {_restore()}") from None
    if len(content) != row.size or _digest(content) != row.sha256:
        raise ValueError(f"{where} was changed: its digest is not that of the index; {_restore()}")
    try:
        json_trees.require_flat(content)
        object_ = Object(msgspec.json.format(content, indent=-1))
        metadata = object_.metadata
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{where} is damaged ({error}): {_restore()}") from None
    is_it = (object_.head.api_version, object_.kind) == (row.resource.api_version, row.kind)
    if not is_it or object_.key != Key(row.namespace, row.name) or not metadata.uid:
        raise ValueError(f"{where} is not {row.kind} {row.namespace}/{row.name}: {_restore()}")
    return Item(row.resource, object_, row.has_status)


def _restore() -> str:
    return "copy the folder again from where it was written, or use another one"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_free(folder: Path) -> bool:
    """True if a folder can be written there: it does not exist, or is empty."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
