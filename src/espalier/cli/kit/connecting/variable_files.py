"""Files that environment variables name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from espalier.cli.kit.failures import Failure

_LARGEST_SECRET = 1 << 20


def with_content(environment: Mapping[str, str], names: Sequence[str]) -> Mapping[str, str]:
    """The same, with the content of files in place of their names. Raises `Failure`."""
    return {**environment, **{name: content(name, path) for name in names if (path := environment.get(name))}}


def content(variable: str, path: str) -> str:
    """The text of a file that a variable names. Raises `Failure`."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST_SECRET + 1)
        if len(data) <= _LARGEST_SECRET:
            return data.decode()
        reason = f"it has more than {_LARGEST_SECRET} bytes, the most that a Secret has"
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
    raise Failure(f"{variable} names {path}, which can't be used: {reason}; correct the variable, or unset it")
