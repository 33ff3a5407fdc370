"""Reads a small object of a shoot's backups, with the credentials that another seed would get (`ReadBackup`)."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from espalier.api.etcd.ownership import LARGEST
from espalier.api.gardener.etcd import Store as Named
from espalier.cli.kit import distribution
from espalier.etcdbackup.stores.errors import NotFound, StoreError
from espalier.etcdbackup.stores.opening import open_store
from espalier.etcdbackup.stores.store import Store
from espalier.shoots.etcd.settings import InvalidEtcd, credentials_variable, url
from espalier.shoots.gardenlet.context import ReadBackup

TIMEOUT = 20.0


async def over_network(named: Named, credentials: Mapping[str, bytes], key: str) -> str:
    """Read from the store itself. Credentials are written to a folder of this user for that time, as with agents."""
    with tempfile.TemporaryDirectory(prefix="espalier-bucket-") as folder:
        for name, value in credentials.items():
            (Path(folder) / Path(name).name).write_bytes(value)
        environ = {**os.environ, credentials_variable(named): folder}
        try:
            store = open_store(url(named, "store"), environ, endpoint=named.endpoint_override or "")
        except (ValueError, StoreError) as error:
            return str(error)
        except ImportError:
            return f"this gardenlet has no client for it: install it with `{distribution.install('etcd')}`"
        return await _read(store, key)


def through(opened: Callable[[str, Mapping[str, bytes]], Store]) -> ReadBackup:
    """Reads from stores that a function opens by URL, with credentials. It raises `ValueError`."""

    async def read(named: Named, credentials: Mapping[str, bytes], key: str) -> str:
        try:
            return await _read(opened(url(named, "store"), credentials), key)
        except (InvalidEtcd, ValueError) as error:
            return str(error)

    return read


async def _read(store: Store, key: str) -> str:
    try:
        async with asyncio.timeout(TIMEOUT):
            await store.read(key, most=LARGEST)
    except NotFound:
        return f"{store.where} has no {key}: check the bucket and its prefix"
    except TimeoutError:  # an OSError, too
        return f"{store.where} did not answer within {TIMEOUT:g} s"
    except (StoreError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
