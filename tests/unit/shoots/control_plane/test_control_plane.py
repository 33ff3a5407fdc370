"""The control plane of a shoot, rendered."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.core import DEPLOYMENT, NAMESPACE, SERVICE
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.install.garden_manifests import of_seed
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.shoots.control_plane.programs import (
    API_SERVER,
    CONTROLLER_MANAGER,
    MACHINE_CONTROLLER_MANAGER,
    SCHEDULER,
    ControlPlane,
)
from tests.support.gardens.seeds import SHOOT, namespace

NAMES = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER, MACHINE_CONTROLLER_MANAGER)


def shoot(**networking: str) -> Shoot:
    body: dict[str, Any] = {
        "metadata": {"name": "garden", "namespace": "garden-team"},
        "spec": {
            "provider": {"type": "simulated"},
            "kubernetes": {"version": "1.35.4"},
            "networking": {"type": "any", **networking},
        },
    }
    return msgspec.convert(body, Shoot)


def rendered(name: str, plane: ControlPlane | None = None, replicas: int = 1, **networking: str) -> Tree:
    return (plane or ControlPlane()).deployment(name, shoot(**networking), SHOOT, replicas)


def container(tree: Tree) -> Tree:
    return dict(tree["spec"]["template"]["spec"]["containers"][0])


@pytest.mark.parametrize("name", NAMES)
def test_files_of_flags_are_in_mounted_secrets(name: str) -> None:
    tree = rendered(name)
    mounts = {mount["mountPath"] for mount in container(tree)["volumeMounts"]}
    files = [folder for word in container(tree)["args"] for folder in re.findall(r"=(/.*)/[^/]+$", word)]
    assert files
    assert set(files) == mounts
    volumes = {volume["name"]: volume["secret"]["secretName"] for volume in tree["spec"]["template"]["spec"]["volumes"]}
    assert {f"/srv/kubernetes/{secret}" for secret in volumes.values()} == mounts


def test_programs_have_version_and_networks_of_a_shoot() -> None:
    manager = container(rendered(CONTROLLER_MANAGER, services="10.1.0.0/16", pods="10.2.0.0/16"))
    assert manager["image"] == "registry.k8s.io/kube-controller-manager:v1.35.4"
    assert {"--service-cluster-ip-range=10.1.0.0/16", "--cluster-cidr=10.2.0.0/16"} <= set(manager["args"])


def test_etcd_behind_tls_is_shown_client_certificate() -> None:
    plain = rendered(API_SERVER)
    tls = ControlPlane().deployment(API_SERVER, shoot(), SHOOT, 1, "etcd-client-1")
    assert "--etcd-servers=http://etcd-main-client:2379" in container(plain)["args"]
    assert not [word for word in container(plain)["args"] if word.startswith("--etcd-cafile")]
    assert {
        f"--etcd-servers=https://etcd-main-client.{SHOOT}.svc:2379",
        "--etcd-cafile=/srv/kubernetes/etcd-client-1/ca.crt",
        "--etcd-certfile=/srv/kubernetes/etcd-client-1/tls.crt",
        "--etcd-keyfile=/srv/kubernetes/etcd-client-1/tls.key",
    } <= set(container(tls)["args"])


def test_two_machine_controllers_never_run_at_once() -> None:
    assert rendered(MACHINE_CONTROLLER_MANAGER)["spec"]["strategy"] == {"type": "Recreate"}


def test_machine_controller_has_flags_of_gardener() -> None:
    """As of 0.62.1, it ends with an error for any other: those of a provider's half are the provider's."""
    flags = {
        word.removeprefix("--").partition("=")[0] for word in container(rendered(MACHINE_CONTROLLER_MANAGER))["args"]
    }
    assert flags == {"control-kubeconfig", "target-kubeconfig", "namespace", "port"}


def test_pod_of_machine_controller_has_its_account() -> None:
    account = ControlPlane().service_account(SHOOT, "")["metadata"]
    assert (account["name"], account["namespace"]) == (
        rendered(MACHINE_CONTROLLER_MANAGER)["spec"]["template"]["spec"]["serviceAccountName"],
        SHOOT,
    )
    binding = ControlPlane().role_binding(SHOOT)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": SHOOT}]
    installed = {tree["metadata"]["name"] for tree in of_seed() if tree["kind"] == "ClusterRole"}
    assert binding["roleRef"]["name"] in installed


def test_a_control_plane_that_sleeps_has_no_pods() -> None:
    assert all(rendered(name, replicas=0)["spec"]["replicas"] == 0 for name in NAMES)


async def test_an_api_server_accepts_all_of_it() -> None:
    rng = random.Random(1)
    server = Server(MemoryStore(), now=lambda: datetime(2026, 3, 1, tzinfo=UTC), random=rng)
    await server.start()
    client = Client(InProcessTransport(server))
    await client.create(NAMESPACE, namespace(SHOOT))
    for name in NAMES:
        created = await client.create(DEPLOYMENT, rendered(name))
        assert created.name == name
    [service] = ControlPlane().services(shoot(), SHOOT)
    created = await client.create(SERVICE, service)
    assert created.tree["spec"]["selector"] == rendered(API_SERVER)["spec"]["selector"]["matchLabels"]
    await client.close()
    await server.close()


def test_api_server_without_its_etcd_ends_first() -> None:
    probe = container(rendered(API_SERVER))["livenessProbe"]
    assert probe["httpGet"]["path"].partition("?")[0] == "/livez", "which tells about etcd"
    found_out = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert found_out + probe["terminationGracePeriodSeconds"] <= Timing().serving_grace


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe"])
def test_probes_wait_for_no_priority_classes(probe: str) -> None:
    path = container(rendered(API_SERVER))[probe]["httpGet"]["path"]
    assert path.partition("?")[2] == "exclude=poststarthook/scheduling/bootstrap-system-priority-classes"


def test_watches_close_in_a_fraction_of_a_second() -> None:
    assert "--shutdown-watch-termination-grace-period=200ms" in container(rendered(API_SERVER))["args"]


def test_probes_are_answered_that_show_no_credentials() -> None:
    assert not [word for word in container(rendered(API_SERVER))["args"] if word.startswith("--anonymous-auth")]
