"""The command line of a container: a verb, and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

USAGE = 2
"""Exit code of a program with an invalid command."""


class InvalidCommandLine(ValueError):
    """An invalid command; the message names the flag."""


@dataclass(frozen=True)
class CommandLine:
    """A command line in the form of our renderers: words, then flags as `--flag=value`."""

    positional: Sequence[str]
    flags: Mapping[str, str]

    @classmethod
    def of(cls, arguments: Sequence[str]) -> CommandLine:
        """Parse a command; what follows `--` belongs to another command."""
        flags: dict[str, str] = {}
        positional = []
        for word in arguments:
            if word == "--":
                break
            name, separator, value = word.removeprefix("--").partition("=")
            if word.startswith("--"):
                flags[name] = value if separator else "true"
            else:
                positional.append(word)
        return cls(positional, flags)

    def text(self, name: str, default: str | None = None) -> str:
        """A flag. Raises `InvalidCommandLine` if it is missing and has no default."""
        value = self.flags.get(name, default)
        if value is None:
            raise InvalidCommandLine(f"--{name}: it is missing")
        return value

    def number(self, name: str) -> int:
        """A number of at least 1. Raises `InvalidCommandLine`."""
        value = self.text(name)
        if not (value.isascii() and value.isdigit() and int(value) >= 1):
            raise InvalidCommandLine(f"--{name}: found {value!r}, allowed is a number, 1 or more")
        return int(value)

    def is_set(self, name: str) -> bool:
        """True if a flag is given, and not false."""
        return self.flags.get(name, "false") not in ("false", "")

    def port(self, name: str, default: int) -> int:
        """The port of `HOST:PORT`. Raises `InvalidCommandLine`."""
        value = self.text(name, f":{default}").rpartition(":")[2]
        if not (value.isascii() and value.isdigit() and int(value) < 1 << 16):
            raise InvalidCommandLine(f"--{name}: found {value!r}, allowed is HOST:PORT")
        return int(value)


def with_flags(arguments: Sequence[str], flags: Mapping[str, str]) -> list[str]:
    """A command in which these flags replace those of the same names; others are added."""
    left, words = dict(flags), list(arguments)
    end = words.index("--") if "--" in words else len(words)
    for index, word in enumerate(words[:end]):
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--") and name in flags:
            words[index] = f"--{name}={flags[name]}"
            left.pop(name, None)
    return [*words[:end], *(f"--{name}={value}" for name, value in left.items()), *words[end:]]
