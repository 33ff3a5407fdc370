"""Decoding of untrusted JSON, with a limit of its depth.

The decoder itself fails with `RecursionError` somewhere before a thousand levels, depending on its caller; code that
walks a tree fails earlier. So there is one limit for all, far beyond real objects, and one kind of error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

MOST_LEVELS = 128
"""Levels of nested maps and lists. The deepest known objects (CRDs) have about 60."""

_as_it_is = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")
_STEPS = bytes(1 if char in b"[{" else 255 if char in b"]}" else 0 for char in range(256))
_NO_BRACKETS = bytes(char for char in range(256) if char not in b'[]{}"')


class TooDeep(msgspec.ValidationError):
    """The text is nested deeper than `MOST_LEVELS`."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MOST_LEVELS} levels deep")


@overload
def decode(text: bytes | str | msgspec.Raw) -> Any: ...


@overload
def decode(text: bytes | str | msgspec.Raw, type: type[T]) -> T: ...


def decode(text: bytes | str | msgspec.Raw, type: Any = Any) -> Any:
    """The value of a JSON text, or of a part that was left undecoded. Any problem with it is a `msgspec.MsgspecError`,
    including `TooDeep`."""
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    require_flat(encoded)
    try:
        return msgspec.json.decode(encoded, type=type)
    except RecursionError:
        raise TooDeep from None
    except UnicodeDecodeError:
        raise msgspec.DecodeError("it is not text in UTF-8") from None


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its fields, also those that it has twice."""


def leaves(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The strings and numbers of a JSON text, as they are written, each with the name of the field that it is in.

    `name` is that of the text. Raises as `decode` does.
    """
    require_flat(text.encode("utf-8", "surrogatepass"))
    try:
        tree = json.loads(text, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    except RecursionError:
        raise TooDeep from None
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    waiting = [(name, tree)]
    while waiting:
        within, value = waiting.pop()
        if isinstance(value, str):
            yield within, value
        elif isinstance(value, _Pairs):
            waiting += value
        elif isinstance(value, list):
            waiting += [(within, inner) for inner in value]


def same(value: Any, other: Any) -> bool:
    """True if two values are equal in JSON. In Python true equals 1 and 1.0, in maps and lists, too."""
    if value is other:
        return True
    if type(value) is not type(other) or value != other:
        return False
    if not isinstance(value, (dict, list)):
        return True
    return _as_it_is.encode(value) == _as_it_is.encode(other) or _sorted.encode(value) == _sorted.encode(other)


def require_flat(text: bytes) -> None:
    """Raise `TooDeep` if a JSON text is nested too deeply. Does not check that the text is JSON."""
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return
    # Without strings and their escapes, only brackets are left. Escaped backslashes are removed first: a backslash
    # that is then left before a quote escapes it.
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_BRACKETS)
    brackets = b"".join(bare.split(b'"')[::2])
    if max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0) > MOST_LEVELS:
        raise TooDeep


def decoder(type: type[T]) -> Callable[[bytes], T]:
    """A function that decodes to one type, for what an API server stores or says: its depth is not measured, but one
    beyond what the decoder can follow is a `msgspec.MsgspecError` as well."""
    decoded = msgspec.json.Decoder(type).decode

    def decode(text: bytes) -> T:
        try:
            return decoded(text)
        except RecursionError:
            raise TooDeep from None
        except UnicodeDecodeError:
            raise msgspec.DecodeError("it is not text in UTF-8") from None

    return decode


def without_nulls(value: Any) -> Any:
    """A tree without null fields, which API servers treat as absent; null items of lists stay."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
