"""Logs: coloured lines on a terminal, otherwise one JSON object per line. Secrets are redacted in both."""

from __future__ import annotations

import dataclasses
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import msgspec
import structlog

from espalier.api.text import redaction
from espalier.kube.objects import Object

REDACTED = "(redacted)"

_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")


def setup(*, level: str = "info", stream: TextIO | None = None) -> None:
    """Log to `stream` (by default standard error), from `level` on: debug, info, warning or error."""
    stream = stream or sys.stderr
    last: structlog.typing.Processor
    if stream.isatty():
        last = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        last = structlog.processors.JSONRenderer(serializer=_json)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,  # as text, so that the traceback is redacted, too
            redact,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )


def redact(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that redacts values of secret names, and private keys and bearer tokens anywhere."""
    for name, value in event.items():
        event[name] = REDACTED if redaction.hides_all_below(name) else _clean(value)
    return event


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        if "PRIVATE KEY" in value:
            value = _PEM.sub(REDACTED, value)
        return _BEARER.sub(rf"\1{REDACTED}", value) if "earer" in value.lower() else value
    if isinstance(value, Mapping):
        return {
            name: REDACTED if isinstance(name, str) and redaction.hides_all_below(name) else _clean(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"is": type(value).__name__, **_clean(fields)}
    if isinstance(value, msgspec.Struct):
        return {"is": type(value).__name__, **_clean(msgspec.structs.asdict(value))}
    if isinstance(value, Object):
        return repr(value)  # never the value's content
    return value


def _json(event: Any, **options: Any) -> str:
    return _encode(event).decode()


_encode = msgspec.json.Encoder(enc_hook=repr).encode
