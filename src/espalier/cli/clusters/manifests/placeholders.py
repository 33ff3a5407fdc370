"""Names of environment variables that stand for credentials in rendered objects: `$REGISTRY_PASSWORD`."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_ENCODED = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_DEEPEST = 3
"""How often a text is decoded: a file in a Secret may have an account that is encoded itself."""


def placeholder(variable: str) -> str:
    """The text that stands for the value of a variable."""
    return f"${variable}"


def variables_in(tree: Any, variables: Collection[str]) -> set[str]:
    """Those of the variables whose placeholder is in a tree, also where it is base64-encoded."""
    texts = [text for part in _texts(tree) for text in _decoded(part, _DEEPEST)]
    return {variable for variable in variables if any(placeholder(variable) in text for text in texts)}


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for part in tree.values():
            yield from _texts(part)
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from _texts(part)


def _decoded(text: str, depth: int) -> Iterator[str]:
    yield text
    for encoded in _ENCODED.findall(text) if depth else ():
        try:
            inner = base64.b64decode(encoded, validate=True).decode()
        except ValueError:
            continue
        yield from _decoded(inner, depth - 1)
