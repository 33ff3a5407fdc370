"""JSON patch (RFC 6902) as kube-apiserver applies it, which is more lenient than the RFC, and stricter in tests.

- An index may be negative, counted from the end, and have a sign or zeros before it.
- `replace` and `copy` of a field that isn't there add it; a `value` that is left out is null.
- Whatever stands before the first slash of a path doesn't count, and neither does a `~` without 0 or 1.
- A `test` compares texts of JSON: `1.0` isn't `1`, and `<` and `é` are equal only if the patch writes them as Go does
  (`\\u003c`, `é`). Null is equal to a field that isn't there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.apiserver.wire import go_json
from espalier.apiserver.wire.content import TooLarge
from espalier.apiserver.wire.failures import bad_request, invalid, invalid_object, rejected, shown
from espalier.kube.objects import encode_json

MAX_OPERATIONS = 10_000
"""The maximum operations of a JSON patch; kube-apiserver's limit."""

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The maximum bytes that the `copy` operations of a JSON patch may copy; kube-apiserver's limit."""


def json_patch(target: Tree, body: bytes) -> Tree:
    """The target with a JSON patch applied.

    Raises `BadRequest` when it is malformed, `Invalid` when it can't be applied (a test fails, a path is missing).
    """
    operations = _operations(body)
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    document = _Document(msgspec.json.decode(encode_json(target)))
    try:
        for operation in operations:
            document.carry_out(operation)
        json_trees.require_flat(encode_json(document.tree))
    except (json_trees.TooDeep, RecursionError) as error:
        raise bad_request(f"the patch results in an object that cannot be read: {json_trees.TooDeep()}") from error
    except _Inapplicable as error:
        raise rejected() from error
    if not isinstance(document.tree, dict):
        problem = go_json.head_problem(document.tree)
        cause = invalid("patch", shown(document.tree), f"couldn't get version/kind; json parse error: {problem}")
        raise invalid_object("", "", "", [cause])
    return document.tree


class _Inapplicable(Exception):
    pass


class _Operation(NamedTuple):
    op: str | None
    path: str | None
    source: str | None
    value: Any
    """Used once: it becomes a part of the document."""
    text: bytes
    """The value as the patch has it; empty if it has none."""


def _operations(body: bytes) -> Sequence[_Operation]:
    try:
        tree = go_json.decoded(body)
    except go_json.Malformed as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if tree is None:
        return ()
    if not isinstance(tree, list):
        raise _undecodable(tree, "value of type []handlers.jsonPatchOp")
    for operation in tree:
        if operation is not None and not isinstance(operation, dict):
            raise _undecodable(operation, "value of type handlers.jsonPatchOp")
        for name in _TEXTS:
            if operation and not isinstance(operation.get(name, ""), str | None):
                raise _undecodable(operation[name], f"struct field jsonPatchOp.{name} of type string")
    texts = msgspec.json.decode(body, type=list[dict[str, msgspec.Raw] | None])
    return [_operation(each or {}, text or {}) for each, text in zip(tree, texts, strict=True)]


def _operation(tree: Tree, texts: Mapping[str, msgspec.Raw]) -> _Operation:
    op, path, source = map(tree.get, _TEXTS)
    return _Operation(op, path, source, tree.get("value"), bytes(texts.get("value", b"")))


_TEXTS = ("op", "path", "from")


def _undecodable(value: object, wanted: str) -> Exception:
    return bad_request(f"error decoding patch: {go_json.mistyped(value, wanted)}")


class _Document:
    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._copied = 0

    def carry_out(self, operation: _Operation) -> None:
        """Raises `_Inapplicable`."""
        match operation.op:
            case "add":
                self._add(operation.path, operation.value)
            case "replace" if operation.path == "":
                if not isinstance(operation.value, dict | list):
                    raise _Inapplicable
                self.tree = operation.value
            case "replace":
                container, key = self._place(operation.path)
                _get(container, key)
                container[_key(container, key)] = operation.value
            case "remove":
                self._remove(operation.path)
            case "move":
                value = self._get(operation.source)
                self._remove(operation.source)
                self._add(operation.path, value)
            case "copy":
                text = encode_json(self._get(operation.source))
                self._copied += len(text)
                if self._copied > MAX_COPIED_BYTES:
                    raise TooLarge.of(f"the copy operations of a JSON patch may copy at most {MAX_COPIED_BYTES} bytes")
                self._add(operation.path, msgspec.json.decode(text))
            case "test":
                value = self.tree if operation.path == "" else self._get(operation.path)
                if not _are_equal(value, operation.text or b"null"):
                    raise _Inapplicable
            case _:
                raise _Inapplicable

    def _place(self, path: str | None) -> tuple[Any, str]:
        """The object or list that a path leads into, and the last step."""
        _, *steps = (path or "").split("/")
        if not steps:
            raise _Inapplicable
        container = self.tree
        for step in steps[:-1]:
            container = _get(container, _decoded(step))
        return container, _decoded(steps[-1])

    def _get(self, path: str | None) -> Any:
        return _get(*self._place(path))

    def _add(self, path: str | None, value: Any) -> None:
        container, key = self._place(path)
        if isinstance(container, list):
            container.insert(len(container) if key == "-" else _index(key, len(container) + 1), value)
        elif isinstance(container, dict):
            container[key] = value
        else:
            raise _Inapplicable

    def _remove(self, path: str | None) -> None:
        container, key = self._place(path)
        _get(container, key)
        if isinstance(container, dict) and key not in container:
            raise _Inapplicable
        del container[_key(container, key)]


def _get(container: Any, key: str) -> Any:
    """A field or an item; None for a field that isn't there."""
    if isinstance(container, dict):
        return container.get(key)
    if isinstance(container, list):
        return container[_index(key, len(container))]
    raise _Inapplicable


def _key(container: Any, key: str) -> Any:
    return _index(key, len(container)) if isinstance(container, list) else key


def _index(text: str, length: int) -> int:
    """An index of a list of this length, from its beginning."""
    number = int(text) if _INDEX.fullmatch(text) else length
    if not -length <= number < length:
        raise _Inapplicable
    return number % length


_INDEX = re.compile(r"[-+]?[0-9]{1,18}")


def _decoded(step: str) -> str:
    return _ESCAPE.sub(lambda match: "~/"[int(match[1])], step) if "~" in step else step


_ESCAPE = re.compile("~([01])")


def _are_equal(value: Any, text: bytes) -> bool:
    """True if a value, as Go encodes it, is the text of a patch."""
    match value, text[:1]:
        case dict(), b"{":
            fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            return value.keys() == fields.keys() and all(_are_equal(value[name], bytes(fields[name])) for name in value)
        case list(), b"[":
            items = msgspec.json.decode(text, type=list[msgspec.Raw])
            return len(value) == len(items) and all(map(_are_equal, value, map(bytes, items)))
        case ((dict() | list()), _):
            return False
    return _go_text(value) == text.decode()


def _go_text(value: Any) -> str:
    """A scalar as Go encodes it in JSON."""
    if isinstance(value, float):
        if value.is_integer() and abs(value) < _GO_EXPONENT:
            return str(int(value))
        if abs(value) >= _GO_FRACTION and abs(value) < _GO_EXPONENT:
            return format(Decimal(repr(value)), "f")
        return repr(value).replace("e-0", "e-")
    return json.dumps(value, ensure_ascii=False).translate(_GO_ESCAPES)


_GO_EXPONENT, _GO_FRACTION = 1e21, 1e-6
"""Between them, Go writes a float without an exponent."""
_GO_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
