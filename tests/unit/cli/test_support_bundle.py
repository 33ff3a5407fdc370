"""Support bundles: what they have of a management cluster, whole or broken, and what never leaves it."""

from __future__ import annotations

import asyncio
import base64
import json
import tarfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from espalier.api import core
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.cli.clusters.support import archive, bundle, fields, masks, reading, values
from espalier.cli.clusters.support.reading import Findings, Log, Reader
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Request, Response, Transport
from tests.support.servers.embedded_server import new_server
from tests.support.servers.faults import Interceptor, refusal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CAPI, INFRASTRUCTURE = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
CONTROL_PLANE, BOOTSTRAP = "controlplane.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"
OF_GARDEN = {"cluster.x-k8s.io/cluster-name": "garden"}
KINDS = (
    (GROUP, "v1alpha1", "clusters", "Cluster"),
    (GROUP, "v1alpha1", "vspheredatacenterconfigs", "VSphereDatacenterConfig"),
    (GROUP, "v1alpha1", "vspheremachineconfigs", "VSphereMachineConfig"),
    (GROUP, "v1alpha1", "nodeupgrades", "NodeUpgrade"),
    (GROUP, "v1alpha1", "eksareleases", "EKSARelease"),
    (CAPI, "v1beta2", "clusters", "Cluster"),
    (CAPI, "v1beta2", "machines", "Machine"),
    (CAPI, "v1beta2", "machinedeployments", "MachineDeployment"),
    (CONTROL_PLANE, "v1beta2", "kubeadmcontrolplanes", "KubeadmControlPlane"),
    (BOOTSTRAP, "v1beta2", "kubeadmconfigs", "KubeadmConfig"),
    (INFRASTRUCTURE, "v1beta1", "vspheremachines", "VSphereMachine"),
)

IN_JSON = "blossomletters"


def crd(group: str, version: str, plural: str, kind: str) -> Tree:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [served],
        },
    }


class Canaries:
    """Private values, each with the place that it was put into."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        assert place not in self.values
        value = self.values[place] = f"canary{len(self.values):02}x7Qz"
        return value


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Site:
    """A management cluster whose objects may have anything anywhere."""

    def __init__(self) -> None:
        self.server = new_server()
        self.client = self.as_seen_by(Interceptor())
        self.logs: dict[str, str] = {}

    def as_seen_by(self, interceptor: Interceptor) -> Client:
        return Client(interceptor(InProcessTransport(self.server)), retry=Retry(attempts=1))

    async def fill(self, *objects: tuple[Resource, Tree]) -> None:
        await self.server.start()
        self.server.read_log = self._log
        await self.client.create(core.NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        for kind in KINDS:
            await self.client.create(core.CUSTOM_RESOURCE_DEFINITION, crd(*kind))
        for resource, tree in objects:
            await self.client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **tree})

    async def _log(self, pod: Tree, container: str) -> bytes:
        return self.logs.get(f"{pod['metadata']['name']}/{container}", "").encode()

    async def read(self, name: str | None = "garden", client: Client | None = None) -> Findings:
        key = Key("default", name) if name else None
        return await Reader(client or self.client, key, lambda _text: None).read()


def of(kind: str, group: str = "", name: str = "garden", **parts: Any) -> tuple[Resource, Tree]:
    resource = next(Resource(*each) for each in KINDS if each[3] == kind and (not group or each[0] == group))
    namespace = "default" if resource.group == GROUP and kind != "NodeUpgrade" else SYSTEM_NAMESPACE
    metadata = {"name": name, "namespace": namespace} | parts.pop("metadata", {})
    return resource, {"metadata": metadata, **parts}


def garden(canary: Canaries) -> list[tuple[Resource, Tree]]:
    """Objects of a cluster with a private value in each place where somebody may put it."""
    message = {"type": "Ready", "status": "False", "reason": "Waiting"}
    quoted = canary("environment, quoted by a condition")
    return [
        of(
            "Cluster",
            GROUP,
            metadata={
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": canary("last applied configuration"),
                    f"{GROUP}/paused": canary("value of an annotation of ours"),
                    f"example.com/{canary('name of an annotation')}": "x",
                },
                "labels": {"team": canary("label")},
            },
            spec={
                "kubernetesVersion": "1.35",
                "datacenterRef": {"kind": "VSphereDatacenterConfig", "name": "garden"},
                "controlPlaneConfiguration": {
                    "count": 3,
                    "machineGroupRef": {"kind": "VSphereMachineConfig", "name": "garden-cp"},
                    "apiServerExtraArgs": {"oidc-client-secret": canary("flag of the API server")},
                    "labels": {"x": canary("label of nodes")},
                },
                "proxyConfiguration": {"httpsProxy": f"http://jane:{canary('password of a proxy')}@proxy:3128"},
                "registryMirrorConfiguration": {"endpoint": "mirror.example", "caCertContent": canary("CA content")},
                "gitOpsRef": {"kind": canary("kind that is a map")} and {"kind": "FluxConfig", "name": "flux"},
                "someNewField": {"deep": [canary("field of a later version")]},
            },
            status={
                "conditions": [message | {"message": f"HTTP_PROXY was {quoted} there"}],
                "failureMessage": f"login failed: password: {canary('assigned in a message')}",
            },
        ),
        of("VSphereDatacenterConfig", spec={"server": "vc", "thumbprint": canary("thumbprint")}),
        of(
            "VSphereMachineConfig",
            name="garden-cp",
            spec={
                "users": [{"name": "ec2-user", "sshAuthorizedKeys": [f"ssh-rsa {canary('SSH key')}"]}],
                "hostOSConfiguration": {"ntpConfiguration": {"servers": [canary("file of a host")]}},
            },
        ),
        of("Cluster", CAPI, metadata={"labels": OF_GARDEN}, spec={"topology": {"variables": canary("variable")}}),
        of(
            "KubeadmControlPlane",
            metadata={"labels": OF_GARDEN},
            spec={
                "version": "v1.35.1",
                "replicas": 3,
                "kubeadmConfigSpec": {
                    "files": [{"path": f"/etc/{canary('path of a file')}", "content": canary("kubeadm file")}],
                    "preKubeadmCommands": [f"echo {canary('command')} > /x"],
                    "users": [{"name": "root", "passwd": canary("password of a user")}],
                },
            },
            status={"conditions": [message | {"message": f"Authorization: Bearer {canary('bearer in a condition')}"}]},
        ),
        of(
            "MachineDeployment",
            metadata={"labels": OF_GARDEN},
            spec={"template": {"metadata": {"annotations": {"x": canary("annotation of a template")}}}},
        ),
        of(
            "Machine",
            metadata={"labels": OF_GARDEN, "annotations": {"a": canary("annotation of a machine")}},
            spec={"clusterName": "garden", "version": "v1.35.1"},
            status={"addresses": [{"type": "Hostname", "address": canary("address")}]},
        ),
        of(
            "KubeadmConfig",
            metadata={"labels": OF_GARDEN},
            spec={"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}},
            status={"failureMessage": f"kubeadm join --token {canary('token of a flag')} vc failed"},
        ),
        of("VSphereMachine", metadata={"labels": OF_GARDEN}, spec={"cloneSpec": {"userData": canary("user data")}}),
        (
            core.SECRET,
            {
                "metadata": {
                    "name": "garden-kubeconfig",
                    "namespace": SYSTEM_NAMESPACE,
                    "labels": OF_GARDEN,
                    "annotations": {"x": canary("annotation of a Secret")},
                },
                "data": {
                    "value": b64(f"users:\n- user:\n    token: {canary('token of a kubeconfig')}\n"),
                    "password": b64(canary("data of a Secret")),
                    "phrase": b64(f"two words {canary('phrase of a Secret')}"),
                    "userdata": b64(f"#cloud-config\nwrite_files:\n- content: {canary('cloud-init')}\n"),
                },
            },
        ),
        (
            core.SECRET,
            {
                "metadata": {"name": "vsphere-credentials", "namespace": SYSTEM_NAMESPACE},
                "data": {"password": b64(canary("credentials"))},
            },
        ),
        (
            core.SECRET,
            {
                "metadata": {"name": "nutanix-credentials", "namespace": SYSTEM_NAMESPACE},
                "data": {"credentials": b64(json.dumps([{"data": {"prismCentral": {"password": IN_JSON}}}]))},
            },
        ),
        (
            core.CONFIG_MAP,
            {
                "metadata": {"name": "settings", "namespace": SYSTEM_NAMESPACE},
                "data": {"config": canary("ConfigMap")},
            },
        ),
        (
            core.POD,
            {
                "metadata": {"name": "manager", "namespace": SYSTEM_NAMESPACE},
                "spec": {
                    "containers": [
                        {
                            "name": "manager",
                            "image": "registry.example/espalier:1",
                            "command": ["espalier", canary("argument of a container")],
                            "env": [
                                {"name": "VSPHERE_PASSWORD", "value": canary("environment of a container")},
                                {"name": "HTTP_PROXY", "value": quoted},
                            ],
                        }
                    ]
                },
            },
        ),
        (
            core.CORE_EVENT,
            {
                "metadata": {"name": "a", "namespace": "default"},
                "involvedObject": {"kind": "Cluster", "name": "garden", "namespace": "default"},
                "reason": "Failed",
                "message": f"token={canary('event')} was refused, and {IN_JSON}",
            },
        ),
    ]


def log_of(canary: Canaries) -> str:
    values = canary.values
    long = canary("encoded") * 6
    return "\n".join(
        [
            json.dumps({"event": "login", "password": canary("JSON log"), "n": 1}),
            f"sent Authorization: Basic {canary('basic authorization')}",
            f"sent header Bearer {canary('bearer')}",
            f"GET https://jane:{canary('URL')}@vc.example/sdk",
            f"client says {values['data of a Secret']}",
            f"as base64 {b64(values['credentials'])}",
            f"whole: two words {values['phrase of a Secret']}",
            f"ran {values['command']} and wrote {values['kubeadm file']} with {values['cloud-init']}",
            "-----BEGIN EC PRIVATE KEY-----",
            canary("PEM"),
            "-----END EC PRIVATE KEY-----",
            f"value {long}",
            f"escaped {json.dumps(json.dumps({'apiToken': canary('escaped JSON')}))}",
            "machine garden-md-0 of cluster garden is ready",
        ]
    )


def files_of(path: Path) -> dict[str, str]:
    with tarfile.open(path) as opened:
        members = [member for member in opened.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: (opened.extractfile(member) or BytesIO()).read().decode()
            for member in members
        }


async def packed(
    findings: Findings, folder: Path, limit: int = 2**20, *, without_values: bool = False
) -> dict[str, str]:
    about = {"of": "cluster default/garden", "madeAt": NOW.isoformat(), "espalier": "1"}
    path = folder / "b.tar.gz"
    archive.write(path, archive.entries(findings, about, limit, without_values=without_values), NOW)
    return files_of(path)


@pytest.mark.parametrize("name", ["garden", None], ids=["one cluster", "all"])
async def test_no_canary_is_in_a_bundle(name: str | None, tmp_path: Path) -> None:
    site, canary = Site(), Canaries()
    await site.fill(*garden(canary))
    site.logs["manager/manager"] = log_of(canary)
    assert len(canary.values) >= 30
    files = await packed(await site.read(name), tmp_path)
    everything = "\n".join([*files, *files.values()])
    leaked = {place for place, value in canary.values.items() if value in everything or b64(value) in everything}
    assert leaked == set()
    assert "abcdef.0123456789abcdef" not in everything
    assert IN_JSON not in everything


async def test_secrets_beside_programs_are_masked(tmp_path: Path) -> None:
    """A provider's credentials are in the namespace of its program, which has no clusters."""
    site = Site()
    metadata = {"name": "capx", "namespace": "capx-system", "labels": {"cluster.x-k8s.io/provider": "nutanix"}}
    await site.fill(
        of("Cluster", GROUP),
        (core.NAMESPACE, {"metadata": {"name": "capx-system"}}),
        (core.POD, {"metadata": metadata, "spec": {"containers": [{"name": "manager", "image": "x"}]}}),
        (core.SECRET, {"metadata": {"name": "a", "namespace": "capx-system"}, "data": {"x": b64(IN_JSON)}}),
    )
    site.logs["capx/manager"] = f"login {IN_JSON} failed"
    files = await packed(await site.read(), tmp_path)
    assert files["logs/capx-system/capx/manager.log"] == "login (hidden) failed"


async def test_a_bundle_has_what_explains_a_cluster(tmp_path: Path) -> None:
    site, canary = Site(), Canaries()
    await site.fill(*garden(canary))
    site.logs["manager/manager"] = log_of(canary)
    files = await packed(await site.read(), tmp_path)
    (cluster,) = json.loads(files[f"clusters/clusters.{GROUP}.json"])
    assert cluster["spec"]["kubernetesVersion"] == "1.35"
    assert cluster["spec"]["controlPlaneConfiguration"]["count"] == 3
    assert "HTTP_PROXY was (hidden) there" in files["conditions.txt"]
    (machine,) = json.loads(files["objects/machines.cluster.x-k8s.io.json"])
    assert machine["spec"] == {"clusterName": "garden", "version": "v1.35.1"}
    assert "machine garden-md-0 of cluster garden is ready" in files[f"logs/{SYSTEM_NAMESPACE}/manager/manager.log"]
    assert [secret["name"] for secret in json.loads(files["secrets.json"])] == ["garden-kubeconfig"]
    assert json.loads(files["events.json"])[0]["message"] == "token=(hidden) was refused, and (hidden)"
    report = json.loads(files["report.json"])
    assert report["apiServer"]["gitVersion"].startswith("v1.")
    assert report["notRead"] == []


async def test_other_clusters_stay_out_of_a_bundle_of_one(tmp_path: Path) -> None:
    site = Site()
    other = {"cluster.x-k8s.io/cluster-name": "orchard"}
    await site.fill(
        of(
            "Cluster",
            GROUP,
            spec={"controlPlaneConfiguration": {"machineGroupRef": {"kind": "VSphereMachineConfig", "name": "cp"}}},
        ),
        of("Cluster", GROUP, name="orchard", spec={}),
        of("VSphereMachineConfig", name="cp"),
        of("VSphereMachineConfig", name="orchard-cp"),
        (
            core.CORE_EVENT,
            {
                "metadata": {"name": "a", "namespace": "default"},
                "involvedObject": {"kind": "Cluster", "name": "orchard", "namespace": "default"},
                "message": "about orchard",
            },
        ),
        of("Machine", name="orchard-1", metadata={"labels": other}),
        of("Machine", name="garden-1", metadata={"labels": OF_GARDEN}),
    )
    files = await packed(await site.read(), tmp_path)
    assert "orchard" not in "".join([*files, *files.values()])
    assert "garden-1" in files["objects/machines.cluster.x-k8s.io.json"]
    assert '"cp"' in files[f"objects/vspheremachineconfigs.{GROUP}.json"]
    files = await packed(await site.read(None), tmp_path)
    assert "orchard-1" in files["objects/machines.cluster.x-k8s.io.json"]


class Broken(Interceptor):
    """Refuses some requests, and loses others."""

    def __init__(self, *, refused: str = "", lost: str = "") -> None:
        self.refused, self.lost, self.asked = refused, lost, 0

    async def request(self, transport: Transport, request: Request) -> Response:
        self.asked += 1
        if self.refused and self.refused in request.path:
            return refusal(Forbidden.of(f"may not read {request.path}"))
        if self.lost and self.lost in request.path:
            raise Unreachable(f"no answer for {request.path}")
        return await transport.request(request)


async def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    site, canary = Site(), Canaries()
    await site.fill(*garden(canary))
    findings = await site.read(client=site.as_seen_by(Broken(refused="/secrets", lost="/machines")))
    files = await packed(findings, tmp_path)
    unread = {read["what"]: read["error"] for read in json.loads(files["report.json"])["notRead"]}
    assert "may not read" in unread[f"Secrets of namespace {SYSTEM_NAMESPACE}"]
    assert "no answer" in unread["machines.cluster.x-k8s.io"]
    assert "machines.cluster.x-k8s.io: no answer" in files["README.txt"]
    assert "objects/machinedeployments.cluster.x-k8s.io.json" in files


async def test_without_values_texts_are_left_out(tmp_path: Path) -> None:
    """A log may quote any value; with consent it is there, and README.txt says what is not masked."""
    site, canary = Site(), Canaries()
    await site.fill(*garden(canary))
    site.logs["manager/manager"] = log_of(canary)
    findings = await site.read(client=site.as_seen_by(Broken(refused="/secrets")))
    files = await packed(findings, tmp_path)
    assert not [name for name in files if name.startswith("logs/")]
    assert IN_JSON not in "".join(files.values())
    assert json.loads(files["events.json"])[0]["message"] == archive.LEFT_OUT
    assert archive.LEFT_OUT in files["conditions.txt"]
    left_out = f"Values of Secrets of namespace {SYSTEM_NAMESPACE}, namespace default could not be read: logs and mess"
    assert left_out in files["README.txt"].replace(" and namespace default", ", namespace default")
    files = await packed(findings, tmp_path, without_values=True)
    assert [name for name in files if name.startswith("logs/")]
    assert "are not masked, for they could not be read: logs and messages may quote them" in files["README.txt"]
    assert IN_JSON in json.loads(files["events.json"])[0]["message"]


@pytest.mark.parametrize("without_values", [False, True])
def test_the_end_says_what_is_not_masked(without_values: bool, capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings(without_values=["namespace default"])
    with Progress() as progress:
        if without_values:
            bundle._tell_of_values(progress, findings, True)
            assert "of namespace default are not masked" in " ".join(capsys.readouterr().err.split())
        else:
            with pytest.raises(Failure, match=r"namespace default could not be read: .*; --without-secret-values"):
                bundle._tell_of_values(progress, findings, False)


async def test_bundle_counts_texts_beyond_the_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site, many = Site(), "".join(f"k{n}: value{n}\n" for n in range(values.MOST_VALUES + 1))
    large = {"metadata": {"name": "large", "namespace": "default"}, "data": {"a": b64(many)}}
    await site.fill(of("Cluster", GROUP), (core.SECRET, large))
    findings = await site.read()
    files = await packed(findings, tmp_path)
    sentence = f"of 1 text beyond the first {values.MOST_VALUES}"
    assert f"Values {sentence}" in files["README.txt"]
    report = json.loads(files["report.json"])
    assert (report["textsBeyondBounds"], report["valuesBeyondBounds"].startswith(sentence)) == (1, True)
    with Progress() as progress:
        bundle._tell_of_values(progress, findings, False)
    assert f"values {sentence}" in " ".join(capsys.readouterr().err.split())


async def test_unknown_namespaces_count_as_unread() -> None:
    site = Site()
    await site.fill(of("Cluster", GROUP))
    findings = await site.read(None, site.as_seen_by(Broken(refused=f"{GROUP}/v1alpha1/clusters")))
    assert findings.without_values == ["namespaces of clusters"]


@pytest.mark.parametrize("lost", ["/apis", "clusters/garden"])
async def test_a_bundle_goes_on_without_discovery(lost: str, tmp_path: Path) -> None:
    site, canary = Site(), Canaries()
    await site.fill(*garden(canary))
    broken = Broken(refused=lost)
    findings = await site.read(client=site.as_seen_by(broken))
    files = await packed(findings, tmp_path)
    assert json.loads(files["report.json"])["notRead"]


async def test_a_dead_api_server_is_asked_once(tmp_path: Path) -> None:
    site = Site()
    broken = Broken(lost="/")
    findings = await site.read(client=site.as_seen_by(broken))
    assert broken.asked == 2  # and if it answers at all
    files = await packed(findings, tmp_path)
    assert all("not tried" in read["error"] for read in json.loads(files["report.json"])["notRead"][1:])


class Nonsense(Interceptor):
    """A proxy answers instead of the API server."""

    async def request(self, transport: Transport, request: Request) -> Response:
        return Response(200, b"<html>" if "/version" in request.path else b"[" * 9999)


async def test_nonsense_is_listed(tmp_path: Path) -> None:
    files = await packed(await Site().read(None, Site().as_seen_by(Nonsense())), tmp_path)
    assert len(json.loads(files["report.json"])["notRead"]) > 10


async def test_conditions_of_any_shape_are_no_obstacle(tmp_path: Path) -> None:
    """Providers define kinds of their own."""
    site, bad = Site(), {"type": "Ready", "status": "False", "message": "m"}
    shapes: list[Any] = [bad, [[bad]], "x", [None, 5, bad], {"type": [bad]}]
    machines = [
        of("VSphereMachine", name=f"m{number}", metadata={"labels": OF_GARDEN}, status={"conditions": shape})
        for number, shape in enumerate(shapes)
    ]
    await site.fill(of("Cluster", GROUP), *machines)
    files = await packed(await site.read(), tmp_path)
    assert [line.split()[1] for line in files["conditions.txt"].splitlines()] == [f"{SYSTEM_NAMESPACE}/m3"]


class Queries(Interceptor):
    """Notes the queries for logs."""

    def __init__(self) -> None:
        self.of_logs: list[dict[str, str]] = []

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.path.endswith("/log"):
            self.of_logs.append(dict(request.query))
        return await transport.request(request)


async def test_a_log_has_a_largest_size() -> None:
    """A container may write lines of any length, and all of an answer is in memory."""
    site, canary, queries = Site(), Canaries(), Queries()
    await site.fill(*garden(canary))
    await site.read(client=site.as_seen_by(queries))
    assert [query["limitBytes"] for query in queries.of_logs] == [str(reading.LOG_BYTES)]


class Hanging(Interceptor):
    """Never answers for one kind."""

    async def request(self, transport: Transport, request: Request) -> Response:
        if "/machines" in request.path:
            await asyncio.Event().wait()
        return await transport.request(request)


async def test_a_read_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SECONDS", 0.5)
    site = Site()
    await site.fill(of("Cluster", GROUP))
    findings = await site.read(client=site.as_seen_by(Hanging()))
    assert [read.what for read in findings.unread] == ["machines.cluster.x-k8s.io"]


async def test_a_container_that_restarted_has_two_logs() -> None:
    site, canary = Site(), Canaries()
    await site.fill(*garden(canary))
    statuses = [{"name": "manager", "restartCount": 1, "ready": True, "image": "x", "imageID": "x"}]
    await site.client.patch(
        core.POD,
        "manager",
        SYSTEM_NAMESPACE,
        patch={"status": {"containerStatuses": statuses}},
        type=PatchType.MERGE,
        subresource="status",
    )
    findings = await site.read()
    assert [log.name.rpartition("/")[2] for log in findings.logs] == ["manager.log"]
    (unread,) = findings.unread  # the embedded server has none of before
    assert unread.what == f"log previous of container manager of pod {SYSTEM_NAMESPACE}/manager"
    assert "previous terminated container" in unread.error


async def test_an_absent_cluster_is_refused() -> None:
    site = Site()
    await site.fill()
    with pytest.raises(Failure, match=r"NAME: found garden, which does not exist in namespace default"):
        await site.read()


async def test_logs_are_shortened_first(tmp_path: Path) -> None:
    findings = Findings(logs=[Log(f"logs/{name}.log", "\n".join(f"{n} {name}" for n in range(99999))) for name in "ab"])
    findings.objects["objects/x"] = [{"kind": "X"}]
    files = await packed(findings, tmp_path, limit=10_000)
    assert "objects/x.json" in files
    assert sum(len(text) for name, text in files.items() if name.startswith("logs/")) <= 10_000
    assert files["logs/a.log"].endswith("99998 a")
    assert files["logs/b.log"].endswith("99998 b")


async def test_what_has_no_room_is_named(tmp_path: Path) -> None:
    findings = Findings(objects={"objects/x": [{"kind": "X" * 999}]})
    files = await packed(findings, tmp_path, limit=500)
    assert "objects/x.json" not in files
    assert json.loads(files["report.json"])["leftOutForSize"] == ["objects/x.json: 1022 bytes"]


def test_an_archive_is_private_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.tar.gz"
    archive.write(path, {"a.txt": b"a"}, NOW)
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        archive.write(tmp_path / "c.tar.gz", {"a.txt": b"a"}, NOW)
    assert [file.name for file in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_link_in_place_of_an_archive_is_harmless(tmp_path: Path) -> None:
    """Its name is easy to guess, and the folder may be one that all write to."""
    target = tmp_path / "target"
    target.write_text("of somebody else")
    for name in (".b.tar.gz.partial", "b.tar.gz"):
        (tmp_path / name).symlink_to(target)
    archive.write(tmp_path / "b.tar.gz", {"a.txt": b"a"}, NOW)
    assert target.read_text() == "of somebody else"
    assert files_of(tmp_path / "b.tar.gz") == {"a.txt": "a"}


def test_hostile_names_stay_in_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    archive.write(path, {"logs/../../etc/passwd": b"x", "/srv/\x1b[31m.log": b"x", "logs/./a": b"x"}, NOW)
    with tarfile.open(path) as opened:
        assert opened.getnames() == ["b/logs/etc/passwd", "b/srv/__31m.log", "b/logs/a"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("secretName: vsphere-credentials", "secretName: vsphere-credentials"),
        ('"token":"abc"', '"token":"(hidden)"'),
        ("--password hunter2 now", "--password (hidden) now"),
        ("image@sha256:" + "a1" * 32, "image@sha256:" + "a1" * 32),
        ("/apis/anywhere.eks.amazonaws.com/v1alpha1/namespaces/default", None),
        ("2026-01-01T00:00:00Z v1.35.1 10.0.0.1", None),
        ("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJr.c2ln", "(hidden)"),
        (r'{"password":"a\"b c","n":"d"}', '{"password":"(hidden)","n":"d"}'),
        (r'"{\"password\":\"a\\\"b c\",\"n\":1}"', r'"{\"password\":\"(hidden)\",\"n\":1}"'),
        ('{"password":"a b', '{"password":"(hidden)"'),
        (r'{"password":"a\\"', '{"password":"(hidden)"'),
        ("abcD12==\n-----END EC PRIVATE KEY-----\nend", "(hidden)\nend"),
        ("begin\n-----BEGIN A-----\nx\n-----END A-----\nend", "begin\n(hidden)\nend"),
        ("x" * 5000, "x" * 4096 + " (and 904 characters)"),
    ],
)
def test_a_text_keeps_what_tells_nothing(text: str, shown: str | None) -> None:
    assert masks.Masks().text(text) == (text if shown is None else shown)


def test_long_hostile_lines_are_masked_quickly() -> None:
    for text in ("a" * 10**6, "-/" * 500_000, "token" * 200_000, "--token " * 100_000, "://" * 300_000):
        masks.Masks().text(text)


def test_names_of_objects_are_never_masked() -> None:
    hide = masks.Masks(values=["garden-md-0"], private=["garden-md-0x7"], public=["garden-md-0", "garden-md-0x7"])
    assert hide.text("garden-md-0 garden-md-0x7") == "garden-md-0 garden-md-0x7"


def test_a_map_in_place_of_a_text_stays_out() -> None:
    part = fields.admitted({"spec": {"kubernetesVersion": {"x": "y"}, "eksaVersion": "v1"}}, GROUP, "Cluster")
    assert part.tree == {"spec": {"eksaVersion": "v1"}}


@pytest.mark.parametrize("text", ["", "big", "1", "-5Gi", "NaN", "1e99"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(Usage, match=r"--max-size: found .*, allowed is a size such as 20Mi"):
        bundle.size_limit(text)


def test_clusters_are_read_by_their_typed_kind() -> None:
    assert (Cluster.resource.group, Cluster.resource.kind) in fields.ALLOWED
