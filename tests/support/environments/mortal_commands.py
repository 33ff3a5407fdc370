"""Clients of commands that are killed at one of their writes."""

from __future__ import annotations

from espalier.api.capi import cluster as capi
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment
from tests.support.servers.faults import Interceptor


def mortal(env: ManagedEnvironment, fault: Interceptor) -> Client:
    return Client(fault(InProcessTransport(env.server)), user_agent="move").without_repeats()


def is_active(env: ManagedEnvironment) -> bool:
    """True if a management cluster acts on the garden, by either of its records."""
    cluster, result = env.clusters.get(GARDEN), env.capi_objects.of(capi.Cluster.resource)
    made = result.get(Key(SYSTEM_NAMESPACE, GARDEN.name))
    of_capi = made is not None and not made.decode(capi.Cluster).spec.paused
    return of_capi or (cluster is not None and MOVE_ANNOTATION not in cluster.metadata.annotations)
