"""The dashboard that a manager serves to whoever has a token of the API server."""

from __future__ import annotations

import msgspec

from espalier.cli.clusters.plans.dashboard_plans import plan_of
from espalier.dashboard.portal import Portal
from espalier.dashboard.sessions import Sessions
from espalier.kube.connection.access import Access
from espalier.kube.transports.http import HttpTransport
from espalier.runtime.clock import SystemClock


def portal(access: Access) -> Portal:
    """A portal to the API server of a manager, for tokens of others."""

    def connect(token: str) -> HttpTransport:
        return HttpTransport(for_token(access, token))

    return Portal(Sessions(connect, SystemClock(), plan_of, HttpTransport(for_token(access, "")).host))


def for_token(access: Access, token: str) -> Access:
    """Access to the same API server with this token, and without any other credentials."""
    return msgspec.structs.replace(
        access,
        token=token,
        token_file=None,
        client_certificate=None,
        client_key=None,
        exec_plugin=None,
        impersonation=None,
    )
