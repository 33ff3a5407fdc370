"""Get and list: one object, or a page of a consistent list."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.apiserver.builtin.scaling import scale_of
from espalier.apiserver.builtin.tables import form_of
from espalier.apiserver.core.core import Answer, Core, item_of_list, raw_in_served_version
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.requests.selectors import selector_of
from espalier.apiserver.storage.store import Table
from espalier.apiserver.wire import failures, options
from espalier.kube.errors import Expired, ServerFailure
from espalier.kube.objects import ListMeta, Object, encode_json

_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


MAX_REVISION = 2**64 - 1
MAX_DIGITS = len(str(MAX_REVISION))


class _Continue(msgspec.Struct):
    """A continue token: after a key, at a revision."""

    revision: int
    namespace: str
    name: str


class Reader:
    """Executes reads."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def get(self, info: RequestInfo) -> Answer:
        """GET of one object or of its scale."""
        store = self._core.store
        if version := info.query.get("resourceVersion"):
            self._require_revision(revision_of(version))
        item = store.table(info.kind.table).objects.get(info.key)
        if item is None:
            raise failures.not_found(info.kind.resource, info.name)
        revision = int(item.head.metadata.resource_version)
        if info.subresource == "scale":
            return Answer(encode_json(scale_of(info.kind, item.tree)), revision)
        return Answer(raw_in_served_version(item.raw, info.kind), revision)

    def list(self, info: RequestInfo) -> Answer:
        """GET of a collection."""
        kind, store = info.kind, self._core.store
        table = store.table(kind.table)
        selector = selector_of(kind, info.query)
        revision, after = self._revision_and_key(info)
        limit = max(options.number(info.query, "limit") or 0, 0)
        chosen: list[bytes] = []
        last: Key | None = None
        more = False
        for item in self._items(table, info.namespace or None, revision, after, selector.name):
            if not selector.everything and not selector.selects(item):
                continue
            if limit and len(chosen) == limit:
                more = True
                break
            chosen.append(item.raw)
            last = item.key
        metadata = ListMeta(resource_version=str(revision))
        if more and last is not None:
            token = encode_json(_Continue(revision, last.namespace, last.name))
            metadata.continue_ = base64.urlsafe_b64encode(token).rstrip(b"=").decode()
            if selector.everything:
                metadata.remaining_item_count = self._remaining(table, info.namespace or None, last)
        form = form_of(info.request.headers.get("accept", ""), info.query)
        if form is not None:
            served = [raw_in_served_version(raw, kind) for raw in chosen]
            return Answer(form.list(kind, served, metadata, self._core.now()), store.revision)
        head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
            kind.list_kind.encode(),
            kind.resource.api_version.encode(),
            encode_json(metadata),
        )
        if kind.custom and not metadata.continue_:
            # The lists of custom kinds alone name the token of a next page that does not exist.
            head = head.replace(b'"metadata":{', b'"metadata":{"continue":"",', 1)
        items = (item_of_list(raw, kind) for raw in chosen)
        return Answer(head + b",".join(items) + b"]}", store.revision)

    def _revision_and_key(self, info: RequestInfo) -> tuple[int, Key | None]:
        """The revision of the list, and the key after which it begins."""
        current = self._core.store.revision
        if token := info.query.get("continue"):
            place = _decode_token(token)
            if place.revision > current:
                # The previous page came from a later state of this store: it was restored from a backup.
                raise failures.expired(_INCONSISTENT)
            return (place.revision, Key(place.namespace, place.name))
        version = info.query.get("resourceVersion", "")
        if version in ("", "0"):
            return current, None
        try:
            wanted = revision_of(version)
        except ServerFailure as error:
            raise failures.bad_request(f"invalid resource version: {error}") from error
        self._require_revision(wanted)
        return (wanted if info.query.get("resourceVersionMatch") == options.EXACT else current), None

    def _require_revision(self, wanted: int) -> None:
        """Raise `Timeout` when the revision is newer than this server's, without waiting for it."""
        current = self._core.store.revision
        if wanted > current:
            raise failures.too_large(wanted, current)

    def _items(
        self, table: Table, namespace: str | None, revision: int, after: Key | None, name: str | None
    ) -> Iterator[Object]:
        """Objects as they were at a revision, in order."""
        if name is not None and namespace is not None and revision == self._core.store.revision:
            item = table.objects.get(Key(namespace, name))
            if item is not None and (after is None or item.key > after):
                yield item
            return
        try:
            yield from table.as_of(revision, namespace, after)
        except Expired as error:
            raise failures.expired(_INCONSISTENT if after is not None else str(error)) from error

    def _remaining(self, table: Table, namespace: str | None, last: Key) -> int:
        keys = table.within(namespace)
        return len(keys) - bisect_right(keys, last)


def revision_of(text: str) -> int:
    """Parse a resource version. Raises `ServerFailure`, as upstream; callers convert it where upstream differs."""
    problem = ""
    if not (text.isascii() and text.isdecimal()):
        problem = "invalid syntax"
    elif int(text[:MAX_DIGITS]) > MAX_REVISION or len(text) > MAX_DIGITS:
        problem = "value out of range"
    if problem:
        cause = failures.invalid(
            "resourceVersion", text, f"strconv.ParseUint: parsing {failures.shown(text)}: {problem}"
        )
        raise failures.internal_error(f"{cause.field}: {cause.message}")
    return int(text)


def _decode_token(token: str) -> _Continue:
    try:
        return json_trees.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), _Continue)
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        sentence = "invalid continue token: continue key is not valid: it must be that of the previous page"
        raise failures.bad_request(sentence) from error
