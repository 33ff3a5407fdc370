"""Clients of commands that are killed at one of their writes."""

from __future__ import annotations

from espalier.kube.client import Client
from espalier.kube.inprocess import InProcessTransport
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.servers.dying import Dying


def mortal(env: ManagedEnvironment, dying: Dying) -> Client:
    return Client(dying(InProcessTransport(env.server)), user_agent="move").without_repeats()
