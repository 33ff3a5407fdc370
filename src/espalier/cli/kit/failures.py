"""Exit codes of commands, and the message on standard error for each."""

from __future__ import annotations

import asyncio
import enum
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from espalier.api.text.printable import in_one_line, quoted
from espalier.api.text.violations import ManifestError
from espalier.api.version_matrix import UnknownRow
from espalier.cli.kit import distribution
from espalier.kube.errors import ApiError, KubeError, Unreachable

_LOCAL = ("apsw", "cel_expr_python", "elftools")
"""Modules of the libraries of the local environment."""
_LONGEST_LINE = 4096
"""Characters of a server's message that are shown: kube-apiserver quotes values in full."""
_ETCD = ("cronsim", "google", "grpc", "obstore")
"""Modules of the extra `etcd`. Without protobuf, its parent `google` is what Python misses."""
_GITOPS = ("dulwich",)
"""Modules of the extra `gitops`."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ESTALE)
"""Errors of a write to an open file."""


class Exit(enum.IntEnum):
    """Exit codes of all commands."""

    OK = 0
    REFUSED = 1
    """The input is invalid, the API server rejected it, or the operation failed for the reported reason."""
    USAGE = 2
    """The command line, or a file of the local environment, is invalid."""
    UNREACHABLE = 3
    """No API server answered."""
    TIMEOUT = 4
    """Timed out; the operation continues in the background."""
    DAMAGED = 5
    """A backup is damaged, incomplete or too old."""
    INTERRUPTED = 130
    """Ctrl-C; an operation of a manager continues in the background."""


class Failure(Exception):
    """A command can't do what was requested. The message says what, why, and what to do."""

    exit = Exit.REFUSED


class Usage(Failure):
    """The command line is invalid."""

    exit = Exit.USAGE


class Broken(Failure):
    """A file or folder of the local environment is unusable. The message names it, and says what to do."""

    exit = Exit.USAGE


class NotReachable(Failure):
    """No API server answered."""

    exit = Exit.UNREACHABLE


class Damaged(Failure):
    """A backup is damaged, incomplete or too old. The message names each object."""

    exit = Exit.DAMAGED


class Overdue(Failure):
    """Timed out."""

    exit = Exit.TIMEOUT


def explain(error: BaseException) -> tuple[Exit, str] | None:
    """Exit code and message for an error that users can meet; None for a bug of ours."""
    match error:
        case Failure():
            return error.exit, str(error)
        case UnknownRow():
            return Exit.USAGE, str(error)
        case ManifestError():
            return Exit.REFUSED, "\nerror: ".join(in_one_line(str(problem)) for problem in error.problems)
        case Unreachable():
            return Exit.UNREACHABLE, str(error)
        case ApiError():
            return Exit.REFUSED, f"Error from server ({error.status.reason or error.code}): {_cut(str(error))}"
        case KubeError():
            return Exit.REFUSED, _cut(str(error))
        case KeyboardInterrupt() | asyncio.CancelledError():
            return Exit.INTERRUPTED, "interrupted"
        case ModuleNotFoundError() if (error.name or "").startswith(_LOCAL) and distribution.needs("local"):
            return Exit.REFUSED, (
                f"this command needs the local environment, whose libraries are not installed (no module {error.name}):"
                f" install them with `{distribution.install('local')}`"
            )
        case ModuleNotFoundError() if (error.name or "").startswith(_LOCAL) or distribution.is_local(error.name or ""):
            return Exit.REFUSED, (
                f"this command needs the local environment, which is not installed here (no module {error.name}): "
                f"install {distribution.LOCAL} {distribution.version()}, from `packaging/local` of the checkout or "
                "from its wheel, and run the command there"
            )
        case ModuleNotFoundError() if (error.name or "").startswith(_ETCD):
            return Exit.REFUSED, (
                f"this command needs the etcd libraries, which are not installed (no module {error.name}): "
                f"install them with `{distribution.install('etcd')}`"
            )
        case ModuleNotFoundError() if (error.name or "").startswith(_GITOPS):
            return Exit.REFUSED, (
                f"this command needs the Git library, which is not installed (no module {error.name}): "
                f"install it with `{distribution.install('gitops')}`"
            )
        case OSError() if error.filename:
            return Exit.REFUSED, f"{error.filename}: {error.strerror}"
        case OSError() if error.errno in _FULL:
            return Exit.REFUSED, f"the output could not be written: {error.strerror}"
    return None


def _cut(message: str) -> str:
    return "\n".join(quoted(line, _LONGEST_LINE) for line in message.splitlines())


def _output_file() -> str:
    """The file that standard output goes to, as far as the system tells."""
    with suppress(OSError):
        if (target := os.readlink("/proc/self/fd/1")).startswith("/"):
            return f" in {target}"
    return ""


@contextmanager
def printing() -> Iterator[None]:
    """Print within the block, and flush at its end. A closed pipe (`| head`) is no error. Raises `OSError`, and
    `Failure` for output that can't be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        if error.errno in _FULL and not error.filename:
            place = _output_file()
            _discard_output()
            raise Failure(f"the output{place} could not be written: {error.strerror}") from error
        raise


def _discard_output() -> None:
    """Discard what is left in the buffer: each further flush would fail and be reported again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
