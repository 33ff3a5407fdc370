"""The dashboard that a manager serves to whoever has a token of the API server."""

from __future__ import annotations

import msgspec

from espalier.cli.clusters.dashboard_plans import plan_of
from espalier.dashboard.portal import Portal
from espalier.dashboard.sessions import Sessions
from espalier.kube.access import Access
from espalier.kube.http import HttpTransport
from espalier.runtime.clock import SystemClock


def portal(access: Access) -> Portal:
    """A portal to the API server of a manager, for tokens of others: with no credentials of the manager's own."""
    anonymous = msgspec.structs.replace(
        access,
        token="",
        token_file=None,
        client_certificate=None,
        client_key=None,
        exec_plugin=None,
        impersonation=None,
    )

    def connect(token: str) -> HttpTransport:
        return HttpTransport(msgspec.structs.replace(anonymous, token=token))

    return Portal(Sessions(connect, SystemClock(), plan_of, HttpTransport(anonymous).host))
