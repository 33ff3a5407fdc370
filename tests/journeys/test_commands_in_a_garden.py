"""Commands in a garden: kubeconfigs of shoots, and what is said of kinds that a garden lacks."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.x509 import oid

from espalier.api import core
from espalier.api.eksa.cluster import Cluster
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.meta import Tree
from espalier.cli.local.demo_garden import served_shoot
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import (
    NODES,
    TECHNICAL_ID,
    MigrationScenario,
    quick_settings,
)
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import KeyPair
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import User
from espalier.runtime import virtual
from espalier.runtime.clock import SystemClock
from tests.support.gardens.garden_commands import GardenCommands
from tests.support.servers.embedded_server import client_of, new_server

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
IN_NAMESPACE = ("-n", "garden-dev")
MEMBER = User("carla", ("system:authenticated",))
ELSEWHERE = (
    ("get", "clusters"),
    ("get", "clusters", "-A", "-o", "json"),
    ("get", "clusters", "apple"),
    ("describe", "cluster", "apple"),
    ("kubeconfig", "apple"),
    ("delete", "cluster", "apple"),
    ("upgrades", "list"),
    ("upgrades", "describe", "apple"),
)
OF_A_GARDEN = (
    ("shoots", "list"),
    ("shoots", "list", "-A", "-o", "wide"),
    ("shoots", "list", "--seed", "east"),
    ("shoots", "describe", "apple"),
    ("shoots", "flow", "apple"),
    ("shoots", "events", "apple"),
    ("shoots", "plan", "apple", "--to", "west"),
    ("shoots", "migrate", "apple", "--to", "west"),
    ("kubeconfig", "--shoot", "apple"),
    ("seeds", "list"),
    ("seeds", "list", "-o", "wide"),
    ("seeds", "evacuate", "east"),
)


def test_a_garden_says_what_to_use_instead_of_clusters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(simulation: virtual.Simulation) -> None:
        async with Garden.run_with(simulation.clock, simulation.random, ["east"], quick_settings()) as garden:
            espalier = GardenCommands(garden.client, monkeypatch, capsys)
            for command in ELSEWHERE:
                result = await espalier(*command)
                assert (command, result.code, result.output) == (command, 1, "")
                assert "this API server is a garden: it serves " in result.complaint
                assert "`espalier kubeconfig --shoot NAME`" in result.complaint
                assert "404" not in result.complaint
            in_seed = GardenCommands(garden.seeds["east"].client, monkeypatch, capsys)
            result = await in_seed("get", "clusters")
            assert "this API server is a seed of a garden" in result.complaint

    virtual.run(story, epoch=EPOCH, seed=1)


async def test_management_cluster_names_gardens_for_shoots(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = new_server()
    await server.start()
    await install_definitions([Cluster], client_of(server))
    espalier = GardenCommands(client_of(server), monkeypatch, capsys)
    for command in OF_A_GARDEN:
        result = await espalier(*command)
        assert (command, result.code, result.output) == (command, 1, "")
        assert "use the kubeconfig of a garden" in result.complaint, command


def access_in(text: str) -> Access:
    return Kubeconfig.parse(text.encode()).context()


@pytest.mark.soak
async def test_kubeconfig_of_shoot_works_until_it_expires(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Garden.run_with(SystemClock(), random.SystemRandom(), ["east"], quick_settings())
    async with (
        run as garden,
        MigrationScenario(garden).begun("east"),
        served_shoot(garden, "apple", TECHNICAL_ID) as url,
    ):
        espalier = GardenCommands(garden.client, monkeypatch, capsys)
        began = datetime.now(UTC)
        printed = await espalier("kubeconfig", "--shoot", "apple", *IN_NAMESPACE, "--ttl", "10m", "--server", url)
        assert (printed.code, printed.complaint) == (0, "")
        access = access_in(printed.output)
        certificate = KeyPair(access.client_certificate or b"", b"").x509
        assert certificate.not_valid_after_utc - began < timedelta(minutes=10, seconds=30)
        (name,) = certificate.subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)
        assert str(name.value).startswith("gardener.cloud:user:")
        client = Client(HttpTransport(access, environment={}), retry=Retry(attempts=1))
        assert len((await client.list(core.NODE)).items) == NODES
        await client.close()

        state = await garden.client.get(ShootState.resource, "apple", "garden-dev")
        assert access.client_key is not None
        assert access.client_key not in state.raw, "the key is the user's alone"


@asynccontextmanager
async def garden_with_apple(simulation: virtual.Simulation) -> AsyncIterator[Garden]:
    """A garden with one seed, which has the shoot."""
    settings = quick_settings(random_keys=False)
    async with (
        Garden.run_with(simulation.clock, simulation.random, ["east"], settings) as garden,
        MigrationScenario(garden).begun("east"),
    ):
        yield garden


async def member(garden: Garden, rules: list[Tree]) -> Client:
    """A client of a project's member with these rights in its namespace."""
    role = {"metadata": {"name": "member", "namespace": "garden-dev"}, "rules": rules}
    subject = {"kind": "User", "name": MEMBER.name, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "member", "apiGroup": "rbac.authorization.k8s.io"}
    await garden.client.create(core.ROLE, role)
    binding = {"metadata": role["metadata"], "roleRef": reference, "subjects": [subject]}
    await garden.client.create(core.ROLE_BINDING, binding)
    return garden.connect("member", MEMBER)


def right(*verbs: str, resources: str) -> Tree:
    return {"apiGroups": ["core.gardener.cloud"], "resources": [resources], "verbs": list(verbs)}


def test_kubeconfig_of_shoot_needs_rights_on_its_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(simulation: virtual.Simulation) -> None:
        async with garden_with_apple(simulation) as garden:
            operator = GardenCommands(garden.client, monkeypatch, capsys)
            missing = await operator("kubeconfig", "--shoot", "pear", *IN_NAMESPACE)
            assert (missing.code, missing.complaint) == (
                1,
                "there is no shoot 'pear' in namespace garden-dev; existing: apple",
            )
            by_name = access_in((await operator("kubeconfig", "--shoot", "apple", *IN_NAMESPACE)).output)
            assert by_name.server == f"https://api.{TECHNICAL_ID}.{garden.settings.gardenlet.domain}"
            certificate = KeyPair(by_name.client_certificate or b"", b"").x509
            assert certificate.not_valid_after_utc - certificate.not_valid_before_utc < timedelta(minutes=70)

            rules = [right("get", "list", resources="shoots")]
            client = await member(garden, rules)
            refused = await GardenCommands(client, monkeypatch, capsys)("kubeconfig", "--shoot", "apple", *IN_NAMESPACE)
            assert (refused.code, refused.output) == (1, "")
            assert "which you may not read" in refused.complaint
            assert "Ask an operator of the garden for a kubeconfig, or for a Role in namespace garden-dev" in (
                refused.complaint
            )

            rules = [*rules, right("get", resources="shootstates")]
            patch = {"rules": rules}
            await garden.client.patch(core.ROLE, "member", "garden-dev", patch=patch, type=PatchType.MERGE)
            own = await GardenCommands(client, monkeypatch, capsys)("kubeconfig", "--shoot", "apple", *IN_NAMESPACE)
            certificate = KeyPair(access_in(own.output).client_certificate or b"", b"").x509
            (name,) = certificate.subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)
            assert name.value == "gardener.cloud:user:carla", "audit logs of the shoot name who did it"
            elsewhere = await GardenCommands(client, monkeypatch, capsys)(
                "kubeconfig", "--shoot", "apple", "-n", "other"
            )
            assert "Forbidden" in elsewhere.complaint, "rights end at the namespace"

    virtual.run(story, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("apple", "--shoot", "apple"), "found apple and --shoot apple; allowed is the name of a cluster, or --shoot"),
        ((), "NAME must be given"),
        (("--shoot", "apple", "--ttl", "5m"), "--ttl: found 5m, allowed: from 10m to 24h"),
        (("--shoot", "apple", "--ttl", "25h"), "--ttl: found 25h, allowed: from 10m to 24h"),
        (("--shoot", "apple", "--ttl", "soon"), "--ttl: found 'soon'"),
        (("--shoot", "apple", "--server", "http://a"), "--server: found 'http://a', allowed is https://HOST:PORT"),
        (("--shoot", "apple", "--aws-iam"), "--aws-iam: found it beside --shoot"),
        (("apple", "--ttl", "1h"), "--ttl: found 1h without --user NAME or --shoot NAME"),
    ],
)
def test_flags_that_do_not_belong_together(
    flags: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(simulation: virtual.Simulation) -> None:
        result = await GardenCommands(Client.__new__(Client), monkeypatch, capsys)("kubeconfig", *flags)
        assert result.code == 2
        assert message in result.complaint

    virtual.run(story, epoch=EPOCH, seed=1)


def event(kind: str, name: str, uid: str, reason: str, at: str, **fields: object) -> Tree:
    about = {"kind": kind, "name": name, "namespace": "garden-dev", "uid": uid}
    metadata = {"name": f"{name}.{reason}".lower(), "namespace": "garden-dev"}
    told = {"reason": reason, "type": "Warning", "message": f"told of {kind}", "lastTimestamp": at}
    return {"metadata": metadata, "involvedObject": about, **told, **fields}


def test_events_of_a_shoot_and_its_objects_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(simulation: virtual.Simulation) -> None:
        async with garden_with_apple(simulation) as garden:
            espalier = GardenCommands(garden.client, monkeypatch, capsys)
            story_ = (await espalier("shoots", "events", "apple", *IN_NAMESPACE)).output.splitlines()
            assert [line.split()[2] for line in story_[1:]] == ["Reconciling", "Reconciled"]
            assert "Create begins on seed east" in story_[1]
            for recorded in (await garden.client.list(core.CORE_EVENT, "garden-dev")).items:
                await garden.client.delete(core.CORE_EVENT, recorded.name, "garden-dev")
            nothing = await espalier("shoots", "events", "apple", *IN_NAMESPACE)
            assert (nothing.code, nothing.output) == (0, "")
            assert "No events of shoot apple found in namespace garden-dev: an API server keeps" in nothing.complaint
            assert "`espalier shoots describe apple -n garden-dev` shows" in nothing.complaint
            shoot = await garden.client.get(Shoot.resource, "apple", "garden-dev")
            (entry,) = (await garden.client.list(BackupEntry.resource, "garden-dev")).items
            later = {"count": 3, "lastObservedTime": "2026-01-01T00:02:00.500000Z"}
            for made in (
                event("Shoot", "apple", shoot.metadata.uid, "Fourth", "", lastTimestamp=None, series=later),
                event("Shoot", "apple", shoot.metadata.uid, "Third", "2026-01-01T00:02:00Z", count=4),
                event("BackupEntry", entry.name, entry.metadata.uid, "Second", "2026-01-01T00:01:00Z"),
                event("ShootState", "apple", "any", "First", "2026-01-01T00:00:00Z"),
                event("Shoot", "apple", "of an earlier one", "Earlier", "2026-01-01T00:00:00Z"),
                event("Shoot", "pear", "another", "Other", "2026-01-01T00:00:00Z"),
            ):
                await garden.client.create(core.CORE_EVENT, made)
            shown = await espalier("shoots", "events", "apple", *IN_NAMESPACE)
            lines = shown.output.splitlines()[1:]
            reasons = ["First", "Second", "Third", "Fourth"]
            assert [reason for line in lines for reason in reasons if reason in line] == reasons
            assert "told of Shoot (4 times)" in lines[-2]
            assert "told of Shoot (3 times)" in lines[-1]
            assert not {"Earlier", "Other"} & set(shown.output.split())
            listed = json.loads((await espalier("shoots", "events", "apple", *IN_NAMESPACE, "-o", "json")).output)
            assert [item["reason"] for item in listed["items"]] == reasons

    virtual.run(story, epoch=EPOCH, seed=1)
