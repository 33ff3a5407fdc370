"""Opens the store of a URL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from espalier.etcdbackup.stores import credentials, location
from espalier.etcdbackup.stores.local import LocalStore
from espalier.etcdbackup.stores.location import Kind
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import Store


def open_store(
    url: str, environ: Mapping[str, str], *, source: bool = False, endpoint: str = "", retries: Retries | None = None
) -> Store:
    """The store of a URL, with the credentials that the environment names. Sends no request yet.

    `source`: that of a copy, whose variables begin with `SOURCE_`. `endpoint`: URL of another server than the
    provider's. Raises `ValueError` for an invalid URL, and `Refused` if no credentials are found.
    """
    place = location.parse(url)
    limits = retries or Retries()
    if place.kind is Kind.LOCAL:
        return LocalStore(Path(place.container), retries=limits)
    from espalier.etcdbackup.stores.clients import Access  # noqa: PLC0415  obstore is an extra
    from espalier.etcdbackup.stores.remote import RemoteStore  # noqa: PLC0415

    files = credentials.find(place.kind, environ, source=source)
    return RemoteStore(str(place), place.prefix, Access(place, files, limits, environ, endpoint), limits)
