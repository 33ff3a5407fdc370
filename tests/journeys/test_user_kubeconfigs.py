"""People get kubeconfigs of workload clusters with their own names, and no more rights than roles there give them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from espalier.api.core import CERTIFICATE_SIGNING_REQUEST, CONFIG_MAP, ROLE, ROLE_BINDING, SECRET
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import KeyPair
from espalier.kube.errors import Forbidden
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.environment import LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = Path(__file__).parents[2] / "examples" / "docker.yaml"
NAME = "garden"
READER = {
    "metadata": {"name": "reader", "namespace": "default"},
    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
}
BINDING = {
    "metadata": {"name": "developers", "namespace": "default"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers"}],
}


@asynccontextmanager
async def using(text: str) -> AsyncIterator[Client]:
    config = Kubeconfig.parse(text.encode()).context()
    client = Client(HttpTransport(config, environment={}))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def cluster(env: LocalEnvironment) -> LocalEnvironment:
    if env.espalier("kubeconfig", NAME).code:
        made = env.espalier("create", "cluster", "-f", str(EXAMPLE), folder=env.home)
        assert made.code == 0, made.err
    return env


@pytest.mark.demand(L63="people")
async def test_a_user_may_do_what_roles_allow(cluster: LocalEnvironment) -> None:
    printed = cluster.espalier("kubeconfig", NAME, "--user", "jane", "--group", "developers", "--ttl", "2h")
    assert printed.code == 0, printed.err
    certificate = KeyPair(Kubeconfig.parse(printed.out.encode()).context().client_certificate or b"", b"")
    assert 7100 < (certificate.not_after - datetime.now(UTC)).total_seconds() < 7300
    async with using(printed.out) as jane, using(cluster.espalier("kubeconfig", NAME).out) as administrator:
        with pytest.raises(Forbidden, match='User "jane" cannot list'):
            await jane.list(CONFIG_MAP, "default")
        await administrator.create(ROLE, READER)
        await administrator.create(ROLE_BINDING, BINDING)
        await jane.list(CONFIG_MAP, "default")
        with pytest.raises(Forbidden, match='User "jane" cannot list'):
            await jane.list(SECRET, "default")
        assert not (await administrator.list(CERTIFICATE_SIGNING_REQUEST)).items


async def test_kubectl_obtains_certificates_itself(
    cluster: LocalEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = cluster.espalier("kubeconfig", NAME, "--user", "jane", "--exec")
    assert printed.code == 0, printed.err
    tree = yaml.safe_load(printed.out)
    assert set(tree["users"][0]["user"]) == {"exec"}
    file = tmp_path / "jane.kubeconfig"
    file.write_text(printed.out)
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    client = Client(HttpTransport(Kubeconfig.load([file]).context()))
    try:
        with pytest.raises(Forbidden, match='User "jane" cannot list'):
            await client.list(CONFIG_MAP, "default")
    finally:
        await client.close()
    del tree["users"][0]["user"]["exec"]["env"]
    file.write_text(yaml.safe_dump(tree))
    ended = cluster.espalier("kubeconfig", NAME, "--user", "jane", "--credential", KUBECONFIG=str(file))
    assert (ended.code, ended.out) == (1, ""), "its plugin names the context of the management cluster, so it ends"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--user", "system:kube-controller-manager"), "names that begin with system: belong to Kubernetes"),
        (("--user", "jane", "--group", "system:masters"), "names that begin with system: belong to Kubernetes"),
        (("--user", ""), "--user: found '', allowed is a name of printable characters"),
        (("--user", "j" * 65), "found 65 characters, allowed are 64"),
        (("--user", "espalier:manager"), "names that begin with espalier: belong to Espalier's manager"),
        (("--user", "jane", "--ttl", "9m"), "--ttl: found 9m, allowed: from 10m to 24h"),
        (("--group", "developers"), "--group: found it without --user NAME"),
        (("--exec",), "--exec: found it without --user NAME"),
        (("--ttl", "1h"), "--ttl: found 1h without --user NAME or --shoot NAME"),
        (("--user", "jane", "--aws-iam"), "--user: found it beside --aws-iam"),
    ],
)
def test_wrong_users_are_refused(env: LocalEnvironment, words: tuple[str, ...], sentence: str) -> None:
    refused = env.espalier("kubeconfig", NAME, *words)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err
