"""Whatever stops a reconcile stops its preview, with the same reason and sentence: both ask the same decisions."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pytest

from espalier.api.eksa.upgrades import PROGRESSING, FrontEnd, refusal
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER, CLUSTER_NAMESPACE_LABEL, PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_REFUSED
from espalier.api.meta import Tree
from espalier.clusters.act.context import ClusterContext, ClusterTools
from espalier.clusters.act.step import ClusterStep
from espalier.clusters.act.steps import STEPS, steps_of
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.cluster_objects.adoption import Adoption
from espalier.clusters.design.drift.rate_limit import RateLimits
from espalier.clusters.design.provider import Provider
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.effects.simulate import simulate
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import Scope
from espalier.clusters.observe.settling import Settling
from espalier.clusters.report import synced
from espalier.kube.client import Client
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.management.adoption.plan import record_tree
from espalier.providers.registry import PROVIDERS
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers import steps
from espalier.runtime.controllers.events import Recorder
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.runtime.workload_clusters.remote_tasks import RemoteTasks
from tests.support.objects import eks_anywhere
from tests.support.objects.installed_cluster_api import deployment
from tests.support.objects.made_clusters import objects, settled
from tests.support.objects.observed_clusters import GARDEN, as_object, datacenter, example, laptop, naming, observer
from tests.support.objects.runtime_hooks import DISCOVERED, asked

HOOKS = FrontEnd.HOOKS
LEFT: Tree = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "garden-ca", "namespace": "eksa-system", "uid": "left", "resourceVersion": "5"},
}


class Case(NamedTuple):
    """An environment in which a Cluster does not get on."""

    trees: Sequence[Tree]
    front_end: FrontEnd = FrontEnd.ANNOTATIONS
    secrets: Sequence[Tree] = ()
    with_releases: bool = True
    providers: Mapping[str, Provider] = PROVIDERS


def cluster(spec: Tree | None = None, **metadata: Any) -> Tree:
    """The example, held by the finalizer as if a reconcile had been there."""
    tree = example(**(spec or {}))[0]
    tree["metadata"] |= {"finalizers": [CLUSTER_FINALIZER]} | metadata
    return tree


def case(spec: Tree | None = None, *more: Tree, **env: Any) -> Case:
    return Case([cluster(spec), datacenter(), *more], **env)


def of_kind(trees: Sequence[Tree], kind: str) -> Tree:
    return next(tree for tree in trees if tree["kind"] == kind)


def without_release(management: Tree) -> Case:
    tree = cluster()
    del tree["spec"]["eksaVersion"]
    return Case([tree, datacenter(), management])


def no_release_to_take() -> Case:
    management = laptop()
    management["metadata"]["resourceVersion"] = "2"
    del management["spec"]["eksaVersion"]
    return without_release(management)


def objects_missing() -> Case:
    tree = cluster() | {"status": settled()}
    scope = observer(tree, datacenter()).scope(GARDEN)
    assert scope is not None
    tree["metadata"]["annotations"] = {metadata_keys.GATE_ANNOTATION: scope.content_hash}
    return Case([tree, datacenter()])


def came_again() -> Case:
    record = release_content.record({"Bundles/bundles-1": "another"})
    tree = cluster(annotations={metadata_keys.RELEASE_ANNOTATION: record})
    return Case([tree, datacenter(), *objects()])


def not_adopted() -> Case:
    return Case([cluster() | {"status": {"reconciledGeneration": 1}}, datacenter(), *objects()])


def with_their_controller() -> Case:
    results = objects()
    made = as_object(next(tree for tree in results if tree["apiVersion"].startswith("cluster.x-k8s.io/")))
    record = Adoption(*GARDEN, objects=("Cluster garden",))
    return case(None, *results, record_tree(record, made), eks_anywhere.controller())


def two_claimants() -> Case:
    rival = cluster(namespace="team-b", uid="rival", creationTimestamp="2025-01-01T00:00:00Z")
    return Case([cluster(), datacenter(), rival])


def taken() -> Case:
    results = objects()
    of_kind(results, "KubeadmControlPlane")["metadata"]["labels"][CLUSTER_NAMESPACE_LABEL] = "team-b"
    return case(None, *results)


def upgrade_refused() -> Case:
    results = objects(**asked(), front_end=HOOKS)
    control_plane = of_kind(results, "KubeadmControlPlane")
    control_plane["metadata"]["annotations"][IN_PLACE_REFUSED] = refusal(1, "files can't be changed in place")
    control_plane["status"] |= {"upToDateReplicas": 0}
    return case(asked(), *results, DISCOVERED, front_end=HOOKS)


def upgrade_failed() -> Case:
    results = objects()
    control_plane = of_kind(results, "KubeadmControlPlane")
    marks = {"controlplane.clusters.x-k8s.io/in-place-upgrade-needed": "true"}
    control_plane["metadata"]["annotations"] = marks | {"cluster.x-k8s.io/paused": "in-place-upgrade"}
    metadata = {
        "name": "garden",
        "namespace": "eksa-system",
        "resourceVersion": "5",
        "labels": {"cluster.x-k8s.io/cluster-name": "garden"},
        "ownerReferences": [
            {
                "apiVersion": control_plane["apiVersion"],
                "kind": "KubeadmControlPlane",
                "name": "garden",
                "uid": control_plane["metadata"]["uid"],
            }
        ],
    }
    condition = {"status": "False", "reason": "OwnerNotPaused", "message": "pause the owner"}
    upgrade = {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "ControlPlaneUpgrade",
        "metadata": metadata,
        "spec": {
            "controlPlane": {"name": "garden"},
            "kubernetesVersion": "v1.36.1",
            "machinesRequireUpgrade": [{"name": "garden-1"}],
            "controlPlaneSpecData": "e30=",
        },
        "status": {"conditions": [{"type": "Ready", **condition}, {"type": PROGRESSING, **condition}]},
    }
    return case(None, *results, upgrade)


def remediation_stopped() -> Case:
    results = objects(control_plane={"readyReplicas": 0})
    check = next(item for item in results if item["metadata"]["name"] == "garden-kcp-unhealthy")
    stopped = {"cluster.x-k8s.io/paused": "true", metadata_keys.REMEDIATION_STOPPED_ANNOTATION: "a@b"}
    check["metadata"]["annotations"] = stopped
    return case(None, *results)


def drifted(value: Sequence[Tree], annotations: Tree | None = None, **env: Any) -> Case:
    """A settled Cluster whose workers somebody scaled by hand, which its annotation has corrected."""
    of_kind(value, "MachineDeployment")["spec"]["replicas"] = 9
    marks = {metadata_keys.DRIFT_ANNOTATION: "correct"} | (annotations or {})
    return Case([cluster(annotations=marks) | {"status": settled()}, datacenter(), *value], **env)


def of_others() -> Case:
    results = objects()
    of_kind(results, "MachineHealthCheck")["metadata"]["labels"][CLUSTER_NAMESPACE_LABEL] = "team-b"
    return drifted(results)


def needing_an_image_more() -> Case:
    docker = "DockerDatacenterConfig"
    return drifted(
        objects(), providers={**PROVIDERS, docker: replace(PROVIDERS[docker], images=("docker.gatekeeper",))}
    )


SETTLED: dict[str, Callable[[], Case]] = {
    "another cluster's object has the name": of_others,
    "a manager needs an image that its Bundles lack": needing_an_image_more,
    "its Bundles are missing": lambda: drifted(objects(), with_releases=False),
    "the release came again with other content": lambda: drifted(
        objects(), {metadata_keys.RELEASE_ANNOTATION: release_content.record({"Bundles/bundles-1": "another"})}
    ),
}
"""Settled clusters that can't be compared; linked objects and values are awaited before that."""

CASES: dict[str, tuple[str, Callable[[], Case]]] = {
    "a linked object is missing": ("MissingDependentObjects", lambda: Case([cluster()])),
    "no such management cluster": (
        "ManagementClusterRefInvalid",
        lambda: case({"managementCluster": {"name": "nobody"}}),
    ),
    "a record that is not the management cluster's": (
        "ManagementClusterRefInvalid",
        lambda: Case(
            [
                cluster({"managementCluster": {"name": "garden"}}, annotations={PAUSED_ANNOTATION: "true"}),
                datacenter(),
                naming(laptop()),
            ]
        ),
    ),
    "no release is named, nor by the management cluster": ("EksaVersionInvalid", no_release_to_take),
    "a release is to be taken": ("ReleaseChosen", lambda: without_release(laptop())),
    "an unknown release": ("EksaVersionInvalid", lambda: case({"eksaVersion": "v0.99.0"})),
    "an invalid spec": ("ClusterInvalid", lambda: case({"controlPlaneConfiguration": {"count": 2}})),
    "stock Cluster API makes no etcd of its own": (
        "RequiresEKSAnywhereClusterAPI",
        lambda: case({"externalEtcdConfiguration": {"count": 3}}),
    ),
    "Cluster API is of another version": ("ClusterAPIVersionNotSupported", lambda: case(None, deployment(":v1.15.0"))),
    "its Bundles are missing": (
        "BundleNotFoundForCluster",
        lambda: case(
            {"eksaVersion": None, "bundlesRef": {"apiVersion": "x/v1", "name": "gone", "namespace": "eksa-system"}}
        ),
    ),
    "EKS Anywhere made it": ("NotAdopted", not_adopted),
    "EKS Anywhere's controller runs": ("EKSAnywhereRuns", with_their_controller),
    "another cluster has the name": ("ClusterNameTaken", two_claimants),
    "another cluster's object has the name": ("ClusterNameTaken", taken),
    "Secrets are left over": ("ClusterNameTaken", lambda: case(secrets=[LEFT])),
    "the release came again with other content": ("ReleaseReplaced", came_again),
    "its objects of Cluster API are gone": ("ClusterAPIObjectsMissing", objects_missing),
    "too few machines for the hooks": (
        "TooFewMachinesForHooks",
        lambda: case(
            asked(1) | {"kubernetesVersion": "1.36"},
            *objects(**asked(1), front_end=HOOKS),
            DISCOVERED,
            front_end=HOOKS,
        ),
    ),
    "an upgrade in place was refused": ("InPlaceUpgradeRefused", upgrade_refused),
    "an upgrade in place has failed": ("InPlaceUpgradeFailed", upgrade_failed),
    "unhealthy machines are no longer replaced": ("RemediationStopped", remediation_stopped),
}

NOT_BY_A_STEP = {
    "BundlesInvalid": "as `EksdReleaseInvalid`",
    "EksdReleaseInvalid": "the releases of this build have theirs; `validity` says it, as it does the other problems",
    "CredentialsNotPermitted": "decided as a missing object is: `test_references`",
    "DatacenterConfigInvalid": "of a provider: `tests/unit/providers`",
    "MachineConfigInvalid": "of a provider: `tests/unit/providers`",
    "ControlPlaneAddressTaken": "of a provider: `tests/unit/providers`",
    "MachineAddressesTaken": "of a provider: `tests/unit/providers`",
    "CertificatesExpireSoon": "of machines: `test_certificates`; no change waits for it",
    "CertificatesExpired": "of machines: `test_certificates`; no change waits for it",
    "NotEnoughHardware": "of a provider: `tests/unit/providers`",
    "ManagesClusters": "of a record, when it is deleted",
    "ObjectRefused": "the API server's answer to a write",
    "TooManyWrites": "other writers",
    "KubeconfigSecretTaken": "of the copy, which holds nothing up",
    "KubeconfigCopyNotAllowed": "of the copy, which holds nothing up",
    "KubeconfigNotOfThisCluster": "of the copy, which holds nothing up",
    "DefaultCNIMissing": "of the workload cluster, which no plan reads",
    "DefaultCNIRefused": "of the workload cluster, which no plan reads",
    "WorkloadObjectsRefused": "of the workload cluster, which no plan reads",
    "ControlPlaneLost": "by `check`, as the problems: `test_ways_out`",
    "ClusterCertificatesMissing": "of Secrets that no plan reads: `test_lost_certificates`",
    "ControlPlaneBroken": "of the local environment: `test_broken_files`",
    "ClusterAPIObjectDeleted": "of an object that somebody deleted: `test_ways_out`",
    "ClusterAPIPaused": "of deletion",
    "LabelsChanged": "by an edit of a live object",
    "ReplicasChanged": "of settled clusters, which are left alone: drift says it",
    "Paused": "by the whole Cluster, below",
    "Drifted": "of Synced",
    "ClusterBeingMoved": "of a move, during which nobody plans: `test_move`",
    "ClusterHandedOver": "of a move, during which nobody plans: `test_move`",
    "MoveRefused": "of a move, during which nobody plans: `test_move`",
    "ClusterBeingRestored": "of a restore, during which nobody plans: `test_move_by_folder`",
    "EtcdUpgradeRefused": "of the etcd of a live control plane: `test_etcd_settings`",
    "EtcdSettingsRemoved": "of the settings of a live control plane: `test_etcd_settings`",
}


class Server:
    """Agrees to every write, and has these Secrets."""

    def __init__(self, secrets: Sequence[Tree]) -> None:
        self._secrets = secrets
        self.written: list[str] = []

    async def request(self, request: Request) -> Response:
        if request.method == "GET":
            asked = dict(request.query).get("fieldSelector", "")
            results = [secret for secret in self._secrets if asked == f"metadata.name={secret['metadata']['name']}"]
            body = {"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "9"}, "items": results}
            return Response(200, json.dumps(body).encode())
        self.written.append(request.path)
        return Response(200, request.body)

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError(request.path)

    async def close(self) -> None: ...


def observed(case: Case) -> ClusterObserver:
    return observer(*case.trees, front_end=case.front_end, with_releases=case.with_releases, providers=case.providers)


def scope_of(case: Case) -> Scope:
    scope = observed(case).scope(GARDEN)
    assert scope is not None
    return scope


def acted(case: Case, server: Server | None = None) -> Outcome:
    """How a reconcile ends."""

    async def act() -> Outcome:
        client, scope = Client(server or Server(case.secrets)), scope_of(case)
        remotes = RemoteClients(lambda _: client)
        recorder = Recorder(client, component="test", clock=SystemClock(), rng=random.Random(1))
        writer = Writer(client, {})
        tools = ClusterTools(
            observed(case),
            writer,
            remotes,
            recorder,
            SystemClock(),
            RemoteTasks(remotes),
            RateLimits(),
            Settling(0),
            None,
        )
        return await steps.run(steps_of(scope), ClusterContext(tools, scope))

    return asyncio.run(act())


def simulated(case: Case) -> str:
    left_over = object_names.left_over(GARDEN, map(as_object, case.secrets))
    return simulate(msgspec.structs.replace(scope_of(case), left_over=left_over)).stops


@pytest.mark.parametrize(("reason", "make"), CASES.values(), ids=CASES)
def test_a_preview_stops_where_the_reconcile_does(reason: str, make: Callable[[], Case]) -> None:
    outcome = acted(make())
    assert isinstance(outcome, Wait | Fault), outcome
    assert outcome.reason == reason
    assert simulated(make()) == f"{outcome.reason}: {outcome.message}"


@pytest.mark.parametrize("make", SETTLED.values(), ids=SETTLED)
def test_preview_corrects_nothing_that_is_uncompared(make: Callable[[], Case]) -> None:
    server = Server(())
    assert isinstance(acted(make(), server), Done)
    assert [path for path in server.written if "/machinedeployments/" in path] == []
    scope = scope_of(make())
    condition, plan = synced.unseen(scope), simulate(scope)
    assert condition is not None
    assert (plan.settled, plan.objects, plan.drift) == (True, (), ())
    assert plan.stops == f"{condition.reason}: {condition.message}"
    assert condition.reason == Reason.NOT_COMPARABLE


def test_compared_fields_are_corrected() -> None:
    assert [object_.kind for object_ in simulate(scope_of(drifted(objects()))).objects] == ["MachineDeployment"]


def test_lasting_reasons_are_compared_or_explained() -> None:
    compared = {reason for reason, _ in CASES.values()} - {"ReleaseChosen"} | {Reason.NOT_COMPARABLE}
    assert compared | NOT_BY_A_STEP.keys() == names.FAILURES


def test_every_step_that_decides_is_asked_by_both() -> None:
    """A step that only acts has no name in this list: what it meets is not known before."""
    only_act = {steps.name_of(step) for step in STEPS if not isinstance(step, ClusterStep)}
    assert only_act == {
        "add_finalizer",
        "limit_remediation",
        "copy_credentials_to_workload",
        "own_children",
        "make_gate_key",
        "copy_kubeconfig",
        "read_left_over_secrets",
        "restore_cni",
        "fill_authenticator_secrets",
        "install_cni",
        "compare_cni",
        "begin_workload_objects",
        "install_workload_objects",
        "compare_workload_objects",
        "settle",
    }


def test_obstacle_that_time_removes_stops_no_preview() -> None:
    """Cluster API asks soon whether machines can be upgraded in place; the control plane is written then."""
    spec = asked()
    waiting = case(spec | {"kubernetesVersion": "1.36"}, *objects(**spec, front_end=HOOKS), front_end=HOOKS)
    outcome = acted(waiting)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "RuntimeHooksNotDiscovered"
    plan = simulate(scope_of(waiting))
    assert plan.stops == ""
    assert "KubeadmControlPlane" in {object_.kind for object_ in plan.objects}


def refused_and_changed(**spec: Any) -> Scope:
    results = [tree for tree in upgrade_refused().trees if tree["metadata"].get("finalizers") != [CLUSTER_FINALIZER]]
    return scope_of(Case([cluster(asked() | spec), *results], HOOKS))


def test_report_on_a_changing_object_stops_no_plan() -> None:
    """Who asks for something else is not told that what he asked for before was refused."""
    other = simulate(refused_and_changed(kubernetesVersion="1.36"))
    assert other.stops == ""
    assert "MachineDeployment" in {object_.kind for object_ in other.objects}
    workers = asked()["workerNodeGroupConfigurations"][0] | {"count": 3}
    beside = simulate(refused_and_changed(workerNodeGroupConfigurations=[workers]))
    assert beside.stops.startswith("InPlaceUpgradeRefused: ")
    assert beside.objects == ()


def test_leftover_secrets_block_no_existing_cluster() -> None:
    there = case(None, *objects(), secrets=[LEFT])
    assert simulated(there) == ""
    meant = LEFT | {"metadata": LEFT["metadata"] | {"labels": names.labels(GARDEN)}}
    assert simulated(case(secrets=[meant])) == ""
