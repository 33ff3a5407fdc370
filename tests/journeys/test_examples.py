"""Each example runs in a local environment as it is: addresses that it names are those of simulated machines."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from espalier.api.trees import yaml_trees
from espalier.cli.kit.connecting.home import Home
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.environment import LocalEnvironment
from tests.support.providers import hardware
from tests.support.providers.credential_variables import CREDENTIALS, in_files
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EXAMPLES = Path(__file__).parents[2] / "examples"
MANAGED = "managementCluster:\n    name: laptop\n"
"""In the examples of an environment: that of a management cluster has `test_management_commands`."""
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if MANAGED in path.read_text())


@pytest.mark.parametrize("name", sampled(NAMES, 7))
def test_example_becomes_a_cluster_and_is_deleted(env: LocalEnvironment, name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    asyncio.run(put_hardware(env))
    made = env.espalier(
        "create", "cluster", "-f", "-", stdin=text, folder=env.home, **CREDENTIALS, **in_files(env.home)
    )
    assert made.code == 0, made.err
    assert "canary" not in made.out + made.err
    assert "then nothing is done" not in made.err

    cluster, *linked = yaml_trees.trees(text, name)
    of = cluster["metadata"]["name"]
    result = env.espalier("describe", "cluster", of)
    assert (result.code, "Blocked" in result.out) == (0, False), result.out
    assert "Restored" not in result.out
    assert all(f"{item['kind']} {item['metadata']['name']} " in result.out for item in linked)
    access = yaml_trees.trees(env.espalier("kubeconfig", of).out, of)[0]["clusters"][0]["cluster"]
    answers(access["server"], base64.b64decode(access["certificate-authority-data"]).decode())
    assert env.espalier("delete", "cluster", of).code == 0


@pytest.mark.soak
def test_all_examples_are_clusters_of_one_environment(env: LocalEnvironment) -> None:
    asyncio.run(put_hardware(env))
    variables = {**CREDENTIALS, **in_files(env.home)}
    for name in NAMES:
        file = str(EXAMPLES / f"{name}.yaml")
        made = env.espalier("create", "cluster", "-f", file, folder=env.home, **variables)
        assert made.code == 0, made.err
    result = json.loads(env.espalier("get", "clusters", "-o", "json").out)["items"]
    names = {yaml_trees.trees((EXAMPLES / f"{name}.yaml").read_text(), name)[0]["metadata"]["name"] for name in NAMES}
    assert len(names) == len(NAMES)
    assert names <= {item["metadata"]["name"] for item in result}


async def put_hardware(env: LocalEnvironment) -> None:
    """The bare metal of the example."""
    made = env.espalier("generate", "hardware", "-z", str(EXAMPLES / "hardware.csv"), "-o", "json").out
    client = Client(HttpTransport(Kubeconfig.load([Home(env.home).kubeconfig]).context(), environment={}))
    try:
        await hardware.put(client, json.loads(made)["items"])
    finally:
        await client.close()


def answers(server: str, authority: str) -> None:
    """Raises `OSError` unless a server with a certificate of this authority is there, from all processes."""
    url = urlsplit(server)
    context = ssl.create_default_context(cadata=authority)
    with socket.create_connection((url.hostname, url.port), 10) as opened:
        context.wrap_socket(opened, server_hostname=url.hostname).close()
