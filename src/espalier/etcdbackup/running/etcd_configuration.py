"""`/config`: etcd's configuration file completed with what its agent knows of the member, for etcd-wrapper.

As in `server/httpAPI.go` of etcd-backup-restore: a file of the operator, into which the member's name, cluster and URLs
are filled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from espalier.api.trees import yaml_text, yaml_trees
from espalier.etcdbackup.restore.members import Membership

_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class EtcdConfiguration:
    """The parts of the configuration. `file`: the operator's part (None: there is none), read again for each
    request."""

    members: Membership
    token: str
    data: Path
    file: Path | None = None

    def text(self) -> str:
        """The configuration as YAML. Raises `ValueError` for a file that can't be read or has no configuration."""
        return self.text_of({})

    def text_of(self, settings: Mapping[str, str]) -> str:
        """The configuration with further settings, which take precedence. Raises as `text`."""
        urls = [f"{member.name}={url}" for member in self.members.members for url in member.peer_urls]
        settings_of_member = {
            "name": self.members.own.name,
            "data-dir": str(self.data),
            "initial-advertise-peer-urls": ",".join(self.members.own.peer_urls),
            "initial-cluster": ",".join(sorted(urls)),
            "initial-cluster-token": self.token,
        }
        tree: dict[str, Any] = {
            "initial-cluster-state": "new",
            **self._settings_of_file(),
            **settings_of_member,
            **settings,
        }
        return yaml_text.dump(tree, sort_keys=True, allow_unicode=True)

    def _settings_of_file(self) -> dict[str, Any]:
        if self.file is None:
            return {}
        try:
            tree = yaml_trees.document(self.file, _LARGEST)
        except OSError as error:
            raise ValueError(f"{self.file}: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"{self.file}: {error}") from None
        if not isinstance(tree, dict):
            raise ValueError(f"{self.file}: allowed is one document with etcd's settings by name")
        return tree


def add_configuration(application: web.Application, configuration: EtcdConfiguration) -> None:
    """`GET /config`."""

    async def config(_request: web.Request) -> web.Response:
        try:
            text = await asyncio.to_thread(configuration.text)
        except ValueError as error:
            raise web.HTTPInternalServerError(text=f"{error}\n") from None
        return web.Response(text=text, content_type="application/x-yaml")

    application.router.add_get("/config", config, allow_head=False)
