"""Warnings quote what clients wrote; as a header they are text of one line, whatever that was."""

from __future__ import annotations

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from espalier.apiserver.wire.warnings import MAX_BYTES, header

LONGEST_LINE = 8190
"""Bytes of a header that aiohttp reads, as other clients."""


@given(st.lists(st.text(st.characters(), max_size=300), max_size=40))
def test_warning_header_has_the_length_clients_read(texts: list[str]) -> None:
    line = header(texts)
    assert all(char.isprintable() for char in line)
    assert len(line.encode()) <= MAX_BYTES
    web.Response(headers={"warning": line})


def test_unprintable_characters_are_written_as_numbers() -> None:
    assert header(['say "\x1b[31m"\r\nX-Injected: é\\']) == r'299 - "say \"\\u001b[31m\"  X-Injected: é\\"'


def test_first_of_many_long_warnings_are_shortened() -> None:
    line = header(["x" * 3000, "y" * 3000, *["z" * 3000] * 50])
    assert line.startswith(f'299 - "{"x" * 256}…", 299 - "{"y" * 256}…"')
    assert len(line.encode()) < LONGEST_LINE, "clients would refuse the whole answer"
    assert line.count("299 - ") == MAX_BYTES // len(f'299 - "{"x" * 256}…", '.encode()), (
        "and as many as there is room for"
    )
