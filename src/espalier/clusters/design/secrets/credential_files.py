"""Users' files with credentials: profiles (INI) and certificates (PEM). Errors name the line.

Only names of profiles and fields are quoted, no other content.
"""

from __future__ import annotations

import base64
import binascii
import configparser
import re
from collections.abc import Iterator, Mapping, Sequence

from espalier.api.text.listing import first
from espalier.api.text.printable import quoted

Profiles = Mapping[str, Mapping[str, str]]
"""Fields by name, for each profile by its name in lower case."""

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_MARK = re.compile(r"-----(?:BEGIN|END) [A-Z0-9 ]+-----")
_MOST_NAMED, _LONGEST_NAME = 10, 60


class Unreadable(ValueError):
    """A user's file that can't be used. The message names the variable, and what was expected."""


def profiles(variable: str, text: str, expected: str) -> Profiles:
    """The profiles of an INI file. Raises `Unreadable`."""
    parser = configparser.RawConfigParser(strict=False, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        wrong: Sequence[tuple[int, str]] = getattr(error, "errors", ())
        line = wrong[0][0] if wrong else getattr(error, "lineno", None)
        where = f"line {line}" if line else "a line"
        raise Unreadable(
            f"{variable}: {where} is neither the name of a profile ([NAME]) nor a field of one (NAME = VALUE); "
            f"expected: {expected}"
        ) from None
    profiles = {name.strip().lower(): {field: value or "" for field, value in parser[name].items()} for name in parser}
    if not any(profiles.values()):
        raise Unreadable(f"{variable}: found no profile; expected: {expected}")
    return profiles


def lacking(variable: str, profiles: Profiles, profile: str, fields: Sequence[str], expected: str) -> None:
    """Check that a profile has these fields. Raises `Unreadable`."""
    if profile not in profiles:
        names = [quoted(name, _LONGEST_NAME) for name in sorted(filter(None, profiles))]
        there = first(names, _MOST_NAMED)
        raise Unreadable(
            f"{variable}: no profile [{profile}], which the manifest names; found {there}; expected: {expected}"
        )
    missing = [field for field in fields if not profiles[profile].get(field, "").strip()]
    if missing:
        raise Unreadable(f"{variable}: profile [{profile}] lacks {' and '.join(missing)}; expected: {expected}")


def check_certificates(variable: str, text: str) -> None:
    """Check that a text consists of PEM certificates, at least one, with optional comments between them. Raises
    `Unreadable`.
    """
    from cryptography import x509  # noqa: PLC0415  loads much, which most commands do not need

    count = 0
    for line, body in _blocks(variable, text):
        try:
            x509.load_der_x509_certificate(base64.b64decode(body, validate=True))
        except (ValueError, binascii.Error):
            raise Unreadable(
                f"{variable}: the certificate that begins in line {line} can't be parsed; {_CERTIFICATES}"
            ) from None
        count += 1
    if not count:
        raise Unreadable(f"{variable}: found no certificate; {_CERTIFICATES}")


_CERTIFICATES = f"expected: certificates as PEM, each from {_BEGIN} to {_END}"


def _blocks(variable: str, text: str) -> Iterator[tuple[int, str]]:
    """Each certificate: its first line, and the content between its markers."""
    began, body = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()  # noqa: PLW2901
        if _MARK.fullmatch(line) and line != (_END if began else _BEGIN):
            what = "within a certificate" if began else "outside of one"
            raise Unreadable(f"{variable}: line {number} has {line} {what}; {_CERTIFICATES}")
        if line == _BEGIN:
            began, body = number, ""
        elif line == _END:
            yield began, body
            began = 0
        elif began:
            body += line
    if began:
        raise Unreadable(f"{variable}: the certificate that begins in line {began} has no end; {_CERTIFICATES}")
