"""The output of `espalier generate clusterconfig` becomes a Ready cluster of a local environment as it is."""

from __future__ import annotations

import asyncio
import json

import pytest

from espalier.cli.kit.connecting.home import Home
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.providers.kinds import CATALOG, MANIFESTS
from tests.support.environments.environment import LocalEnvironment
from tests.support.providers import hardware
from tests.support.providers.credential_variables import CREDENTIALS, in_files
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

HARDWARE = """\
hostname,mac,ip_address,netmask,gateway,nameservers,labels,disk
cp,00:00:5e:00:53:01,192.0.2.101,255.255.255.0,192.0.2.1,192.0.2.53,type=control-plane,/dev/sda
worker,00:00:5e:00:53:02,192.0.2.102,255.255.255.0,192.0.2.1,192.0.2.53,type=worker,/dev/sda
"""
"""Machines with the labels that the manifest for bare metal selects."""

VARIANTS = [
    (provider, etcd) for provider in MANIFESTS for etcd in (False, True) if (provider, etcd) != ("tinkerbell", True)
]


@pytest.mark.parametrize(("provider", "etcd"), sampled(VARIANTS, 2))
def test_a_generated_manifest_becomes_ready(env: LocalEnvironment, provider: str, etcd: bool) -> None:
    options = ["--management-cluster", "laptop", *(["--external-etcd"] if etcd else [])]
    manifest = env.espalier("generate", "clusterconfig", "garden", "-p", provider, *options).out
    asyncio.run(put_hardware(env))
    variables = {**CREDENTIALS, **in_files(env.home)}
    made = env.espalier("create", "cluster", "-f", "-", stdin=manifest, folder=env.home, **variables)
    assert made.code == 0, made.err
    asyncio.run(takes(env, env.espalier("generate", "objects", "-f", "-", "-o", "json", stdin=manifest).out))
    assert env.espalier("delete", "cluster", "garden").code == 0


async def put_hardware(env: LocalEnvironment) -> None:
    """The bare metal, by the other generator."""
    made = env.espalier("generate", "hardware", "-z", "-", "-o", "json", stdin=HARDWARE).out
    client = Client(HttpTransport(Kubeconfig.load([Home(env.home).kubeconfig]).context(), environment={}))
    try:
        await hardware.put(client, json.loads(made)["items"])
    finally:
        await client.close()


async def takes(env: LocalEnvironment, objects: str) -> None:
    """The management cluster accepts every generated object."""
    client = Client(HttpTransport(Kubeconfig.load([Home(env.home).kubeconfig]).context(), environment={}))
    try:
        for tree in json.loads(objects)["items"]:
            resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
            await client.apply(resource, tree, field_manager="a-reader", dry_run=True, force=True)
    finally:
        await client.close()
