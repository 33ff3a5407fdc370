"""Ready means that every client's first request works: right after `espalier up`, and in restarts of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from espalier.cli.kit.connecting.home import Home
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import Kubeconfig
from tests.support.environments.environment import LocalEnvironment
from tests.support.environments.managed_clusters import EXAMPLES

pytestmark = pytest.mark.embedded

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
SWAGGER = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SWAGGER_ANSWER = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
EKSA = "apis/anywhere.eks.amazonaws.com/v1alpha1"


def aggregated(*versions: str) -> str:
    return (
        ",".join(f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in versions)
        + f",{JSON}"
    )


def table(version: str) -> str:
    return f"{JSON};as=Table;v={version};g=meta.k8s.io"


FIRST = [
    # kubectl and client-go, by version
    ("/version", f"{JSON}, */*", JSON),
    ("/api?timeout=32s", aggregated("v2", "v2beta1"), f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ("/apis?timeout=32s", aggregated("v2beta1"), f"{JSON};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
    ("/api?timeout=32s", f"{JSON}, */*", JSON),
    ("/apis?timeout=32s", f"{JSON}, */*", JSON),
    (f"/{EKSA}?timeout=32s", f"{JSON}, */*", JSON),
    ("/openapi/v2?timeout=32s", SWAGGER, SWAGGER_ANSWER),
    ("/openapi/v2", f"{SWAGGER_ANSWER},{JSON}", SWAGGER_ANSWER),
    ("/openapi/v3?timeout=32s", f"{JSON}, */*", JSON),
    (f"/openapi/v3/{EKSA}?timeout=32s", JSON, JSON),
    ("/api/v1/namespaces/default", f"{PROTOBUF},{JSON}", JSON),
    ("/api/v1/namespaces?limit=500", f"{table('v1')},{table('v1beta1')},{JSON}", JSON),
    (f"/{EKSA}/namespaces/default/clusters", JSON, JSON),
    # Python's client, whose calls end paths with a slash, and its dynamic one
    ("/version/", JSON, JSON),
    ("/api/", JSON, JSON),
    ("/apis/", JSON, JSON),
    ("/version", JSON, JSON),
    ("/apis", JSON, JSON),
    ("/api/v1", JSON, JSON),
    (f"/{EKSA}/", JSON, JSON),
    ("/api/v1/namespaces", JSON, JSON),
    # others
    ("/openapi/v2", JSON, JSON),
    (f"/{EKSA}/clusters", "application/json;q=0.9, application/yaml, */*", JSON),
    ("/api/v1/pods", "*/*", JSON),
]


@contextmanager
def started(home: Path, *, again: int = 0) -> Iterator[LocalEnvironment]:
    """An environment that has just started, after so many earlier starts in the same folder."""
    home.mkdir()
    env = LocalEnvironment(home)
    for _ in range(again):
        env.up()
        env.down()
    env.up()
    try:
        yield env
    finally:
        env.down()


async def answers(access: Access) -> list[str]:
    """The wrong answers to the first requests, sent all at once."""
    context = ssl.create_default_context(cadata=(access.certificate_authority or b"").decode())
    with tempfile.NamedTemporaryFile() as pair:
        pair.write((access.client_certificate or b"") + b"\n" + (access.client_key or b""))
        pair.flush()
        context.load_cert_chain(pair.name)
    wrong = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as session:

        async def ask(path: str, accept: str, media: str) -> None:
            async with session.get(access.server + path, headers={"Accept": accept}) as answer:
                content = await answer.read()
                results = (answer.status, answer.headers.get("content-type"), bool(content))
                if results != (200, media, True):
                    wrong.append(f"{path} for {accept}: {results}")

        await asyncio.gather(*(ask(*item) for item in FIRST))
    return wrong


def first_requests(env: LocalEnvironment) -> None:
    """kubectl's, if there is one, beside those of other clients."""
    kubectl = shutil.which("kubectl")
    command = [kubectl or "true", "apply", "-f", str(EXAMPLES / "docker.yaml")]
    environment = env.environment | {"KUBECONFIG": str(Home(env.home).kubeconfig)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as applying:
        access = Kubeconfig.load([Home(env.home).kubeconfig]).context()
        assert asyncio.run(answers(access)) == []
        output, _ = applying.communicate(timeout=60)
    assert applying.returncode == 0, output.decode()


def test_the_first_requests_of_every_client_work(tmp_path: Path) -> None:
    with started(tmp_path / "home") as env:
        first_requests(env)


@pytest.mark.soak
def test_the_first_requests_of_two_hundred_starts_work(tmp_path: Path) -> None:
    for number in range(int(os.environ.get("STARTS", "200"))):
        home = tmp_path / f"home-{number}"
        with started(home, again=number % 4 // 3) as env:
            first_requests(env)
        shutil.rmtree(home)


@pytest.mark.soak
def test_kubeconfig_is_there_all_time_of_restart(tmp_path: Path) -> None:
    """Without one, kubectl asks whoever listens on localhost:8080."""
    kubeconfig = Home(tmp_path / "home").kubeconfig
    with started(tmp_path / "home") as env:
        over, absent = threading.Event(), 0

        def look() -> None:
            nonlocal absent
            while not over.is_set():
                absent += not kubeconfig.exists()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            for _ in range(3):
                env.down()
                env.up()
        finally:
            over.set()
            looking.join()
        assert absent == 0
