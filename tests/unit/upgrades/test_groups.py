"""The report about an upgrade of several machines, on as much of its scope as is read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, ObjectReference
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.kube.objects import Object, encode_json
from espalier.upgrades import expected
from espalier.upgrades.group import deployment as deployment_group
from espalier.upgrades.group.control_plane import ControlPlaneGroup
from espalier.upgrades.group.deployment import DeploymentGroup, Sets
from espalier.upgrades.group.group import GroupScope, shared_problem
from espalier.upgrades.group.observe import GroupContext
from espalier.upgrades.group.sequence import Member
from espalier.upgrades.observed.cluster_view import MachineView
from tests.support.objects.observed_upgrades import cluster_view, machine, node

BEFORE: Tree = {"version": "v1.36.3", "bootstrap": {}}
EDITED: Tree = {"version": "v1.36.3", "bootstrap": {"dataSecretName": "other"}}


def made(tree: Tree) -> Object:
    return Object(encode_json(tree))


def scope(*, controlled: bool, version: str = "v1.36.3") -> GroupScope:
    """An upgrade for a MachineDeployment that is paused, as it was before an edit."""
    owners = [{"apiVersion": "v1", "kind": "K", "name": "md", "uid": "1", "controller": True}] if controlled else []
    upgrade: Tree = {
        "apiVersion": MachineDeploymentUpgrade.resource.api_version,
        "kind": MachineDeploymentUpgrade.resource.kind,
        "metadata": {"name": "md-md-upgrade", "namespace": "eksa-system", "ownerReferences": owners},
        "spec": {
            "machineDeployment": {"name": "md"},
            "machinesRequireUpgrade": [],
            "kubernetesVersion": version,
            "machineSpecData": expected.encoded(BEFORE),
        },
    }
    upgrade_object = made(upgrade)
    decoded = upgrade_object.decode(MachineDeploymentUpgrade)
    paused = {"cluster.x-k8s.io/paused": "in-place-upgrade"}
    owner = made({"kind": "MachineDeployment", "metadata": {"name": "md", "uid": "1", "annotations": paused}})
    reference, data = decoded.spec.machine_deployment, decoded.spec.machine_spec_data
    return GroupScope(upgrade_object, decoded, reference, data, "garden", None, owner, (), ())


@pytest.mark.parametrize(
    ("controlled", "asked_for", "version", "reason"),
    [
        (True, BEFORE, "v1.36.3", ""),
        (True, EDITED, "v1.36.3", "OwnerEdited"),
        (True, BEFORE, "v1.35.4", "OwnerEdited"),
        (False, BEFORE, "v1.36.3", ""),
        (False, EDITED, "v1.36.3", "SpecDataDiffers"),
        (False, BEFORE, "v1.35.4", "VersionDiffers"),
    ],
)
def test_upgrade_by_hand_is_rewritten_after_an_edit(
    controlled: bool, asked_for: Tree, version: str, reason: str
) -> None:
    """Those that were made for an annotation are made anew by their controller: nobody has to act."""
    wait = shared_problem(scope(controlled=controlled, version=version), "MachineDeployment md", "v1.36.3", asked_for)
    assert (wait.reason if wait else "") == reason


@pytest.mark.parametrize(("replicas", "missing"), [(None, 1), (1, 1), (0, 0), (2, 2)])
def test_set_without_number_of_machines_asks_for_one(
    replicas: int | None, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = {"apiGroup": "i", "kind": "DockerMachineTemplate", "name": "t"}
    template = {"spec": {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": reference}}
    spec: Tree = {"clusterName": "garden", "selector": {}, "template": template}
    latest = made(
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineSet",
            "metadata": {"name": "md-a"},
            "spec": spec | ({} if replicas is None else {"replicas": replicas}),
        }
    )
    monkeypatch.setattr(deployment_group, "sets_of", lambda _objects, _owner: Sets(latest, (), ()))
    view: Any = SimpleNamespace(workload=object(), capi_objects=object())
    seen: Any = SimpleNamespace(cluster_view=view, owner=latest, members=())
    assert len(DeploymentGroup().missing(seen)) == missing


def test_writes_of_upgrade_reach_its_clusters_caches() -> None:
    """The next step reads it there: without, one machine could be begun twice."""
    plain, with_caches = object(), object()
    tools: Any = SimpleNamespace(writer=SimpleNamespace(with_caches=lambda caches: with_caches if caches else plain))
    view: Any = SimpleNamespace(capi_objects=SimpleNamespace(caches={"Machine": object()}))
    seen = scope(controlled=False)
    assert GroupContext(tools, ControlPlaneGroup(), replace(seen, cluster_view=view)).writer is with_caches
    assert GroupContext(tools, ControlPlaneGroup(), seen).writer is tools.writer


def test_nothing_remains_of_a_machine_that_is_gone() -> None:
    spec = {"version": "v1.36.3", "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}}
    owner = made({"kind": "KubeadmControlPlane", "metadata": {"name": "c", "uid": "1"}, "spec": spec})
    view: Any = SimpleNamespace(capi_objects=capi_objects([]))
    members = (Member("gone", None, None, None), Member("m", machine("m", version="v1.35.4"), None, None))
    seen = replace(scope(controlled=False), owner=owner, cluster_view=view, members=members)
    assert ControlPlaneGroup().remaining(seen) == ["Machine m (version)"]


def test_silent_cluster_lacks_nothing() -> None:
    view: Any = SimpleNamespace(workload=None, capi_objects=object())
    seen: Any = SimpleNamespace(cluster_view=view, owner=object(), members=())
    assert DeploymentGroup().missing(seen) == []


def machine_set(name: str, revision: str, *, version: str = "v1.36.3", labels: Tree | None = None) -> Object:
    """A MachineSet, or a MachineDeployment: of its revision, with a template."""
    reference = {"apiGroup": "i", "kind": "DockerMachineTemplate", "name": "t"}
    spec = {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": reference, "version": version}
    template: Tree = {"metadata": {"labels": labels or {}}, "spec": spec}
    annotations = {"machinedeployment.clusters.x-k8s.io/revision": revision}
    return made(
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineSet",
            "metadata": {"name": name, "namespace": "eksa-system", "uid": name, "annotations": annotations},
            "spec": {"clusterName": "garden", "selector": {}, "template": template},
        }
    )


def capi_objects(sets: list[Object], *of: str) -> Any:
    """These MachineSets; those that are named have a machine each."""
    return SimpleNamespace(
        controlled=lambda *_: list(sets),
        machines_of=lambda machine_set_: (
            [SimpleNamespace(name=f"{machine_set_.name}-x")] if machine_set_.name in of else []
        ),
        infrastructures=Infrastructures([]),
        template=lambda *_: None,
    )


def test_set_with_highest_revision_is_one_that_stays() -> None:
    sets = [machine_set("tenth", "10"), machine_set("second", "2"), machine_set("none", "x")]
    sets_of_deployment = deployment_group.sets_of(capi_objects(sets, "second", "tenth"), machine_set("md", "1"))
    assert sets_of_deployment.latest is not None
    assert (sets_of_deployment.latest.name, sets_of_deployment.older) == ("tenth", ("second",))


def remaining(latest: Object | None, owner: Object | None) -> list[str]:
    view: Any = SimpleNamespace(capi_objects=capi_objects([latest] if latest else []))
    seen: Any = SimpleNamespace(cluster_view=view, owner=owner)
    return DeploymentGroup().remaining(seen)


def test_other_version_replaces_machines_a_label_not() -> None:
    owner = machine_set("md", "1")
    assert remaining(machine_set("s", "1", version="v1.35.4"), owner) == ["MachineSet s (version)"]
    assert remaining(machine_set("s", "1", labels={"a": "b"}), owner) == []
    assert remaining(None, owner) == []
    assert remaining(machine_set("s", "1", version="v1.35.4"), None) == []


def test_refused_fields_and_older_sets_are_named() -> None:
    owner = machine_set("md", "1")
    latest, older = (machine_set(name, revision) for name, revision in (("latest", "2"), ("older", "1")))
    tree = latest.tree
    tree["spec"]["template"]["spec"]["failureDomain"] = "elsewhere"
    asked = owner.tree
    asked["spec"]["template"]["spec"]["failureDomain"] = "here"
    objects = capi_objects([older, made(tree)], "older")
    refused = DeploymentGroup().due(objects, made(asked)).refused
    assert refused == ("failureDomain", "machines of MachineSet older")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ({"uid": "1"}, ""),
        ({}, ""),
        ({"uid": "2"}, "MachineMissing"),
        ({"kind": "Banana"}, "MachineMissing"),
        ({"namespace": "elsewhere"}, "MachineMissing"),
    ],
)
def test_named_machine_has_to_be_the_present(reference: Tree, reason: str) -> None:
    seen = scope(controlled=False)
    spec = msgspec.structs.replace(seen.upgrade.spec, machines_require_upgrade=[ObjectReference(name="m", **reference)])
    view = machine("m", version="v1.36.3")
    named = replace(view, object=made({**view.object.tree, "metadata": {"name": "m", "uid": "1"}}))
    upgrade: Any = msgspec.structs.replace(seen.upgrade, spec=spec)
    wait = shared_problem(
        replace(seen, upgrade=upgrade, members=(Member("m", named, None, None),)),
        "MachineDeployment md",
        "v1.36.3",
        BEFORE,
    )
    assert (wait.reason if wait else "") == reason


def judged(view: Any, *, uid: str = "", foreign: tuple[str, ...] = ()) -> str:
    """The reason for which an upgrade by hand of this one machine is not made; empty when it is."""
    seen = scope(controlled=False)
    named = [ObjectReference(name="m", uid=uid)]
    upgrade: Any = msgspec.structs.replace(
        seen.upgrade, spec=msgspec.structs.replace(seen.upgrade.spec, machines_require_upgrade=named)
    )
    members = (Member("m", view, None, None),)
    seen = replace(seen, upgrade=upgrade, members=members, foreign_node_upgrades=foreign)
    wait = shared_problem(seen, "MachineDeployment md", "v1.36.3", BEFORE)
    return wait.reason if wait else ""


def test_unknown_machines_stop_their_group() -> None:
    there = machine("m", version="v1.35.4")
    tree = there.object.tree
    reference = {"apiGroup": "b", "kind": "KubeadmConfig", "name": "m"}
    lost = made({**tree, "spec": {**tree["spec"], "bootstrap": {"configRef": reference}}})
    without_config = replace(there, object=lost)
    assert judged(there) == ""
    assert judged(without_config) == "KubeadmConfigMissing"
    assert judged(replace(without_config, config=made({"kind": "KubeadmConfig", "metadata": {"name": "m"}}))) == ""
    assert judged(machine("m", version="v1.34.1")) == "VersionRefused"
    assert judged(machine("m", version="v1.37.0")) == "VersionRefused"
    assert judged(None) == "MachineMissing"
    assert judged(None, uid="1") == "", "it was there, and is replaced"
    assert judged(there, foreign=("m-node-upgrader",)) == "NodeUpgradeTaken"


def test_machine_of_another_group_is_not_upgraded() -> None:
    owner = machine_set("md", "1")
    objects = capi_objects([machine_set("s", "1")], "s")
    for name, reason in (("s-x", ""), ("other", "MachineOfAnotherOwner")):
        view = machine(name, version="v1.36.3")
        seen = replace(
            scope(controlled=False),
            owner=made(
                {**owner.tree, "metadata": {**owner.tree["metadata"], "annotations": {"cluster.x-k8s.io/paused": ""}}}
            ),
            data=expected.encoded(owner.tree["spec"]["template"]["spec"]),
            cluster_view=cast(Any, SimpleNamespace(capi_objects=objects)),
            members=(Member(name, view, None, None),),
        )
        upgrade: Any = msgspec.structs.replace(
            seen.upgrade,
            spec=msgspec.structs.replace(seen.upgrade.spec, machines_require_upgrade=[ObjectReference(name=name)]),
        )
        wait = DeploymentGroup().problem(replace(seen, upgrade=upgrade))
        assert (wait.reason if wait else "") == reason


@pytest.mark.parametrize(
    ("configuration", "uid", "reason"),
    [
        ({}, "1", "OwnerNotPaused"),  # that is checked next
        (
            {"etcd": {"external": {"endpoints": [], "caFile": "a", "certFile": "b", "keyFile": "c"}}},
            "1",
            "ExternalEtcd",
        ),
        ({}, "2", "MachineOfAnotherOwner"),
    ],
)
def test_foreign_machines_stop_upgrades_by_hand(configuration: Tree, uid: str, reason: str) -> None:
    spec = {
        "version": "v1.36.3",
        "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}},
        "kubeadmConfigSpec": {"clusterConfiguration": configuration},
    }
    owner = made({"kind": "KubeadmControlPlane", "metadata": {"name": "c", "uid": "1"}, "spec": spec})
    view = machine("m", control_plane=True)
    tree = view.object.tree
    owners = [{"apiVersion": "v1", "kind": "KubeadmControlPlane", "name": "c", "uid": uid, "controller": True}]
    of = replace(view, object=made({**tree, "metadata": {**tree["metadata"], "ownerReferences": owners}}))
    seen = replace(
        scope(controlled=False),
        owner=owner,
        cluster_view=cast(Any, SimpleNamespace(capi_objects=capi_objects([]))),
        members=(Member("m", of, None, None),),
    )
    wait = ControlPlaneGroup().problem(seen)
    assert wait is not None
    assert wait.reason == reason


@pytest.mark.parametrize(("versions", "due"), [("oon", ["a", "b"]), ("onnn", []), ("oonn", ["a", "b"])])
def test_machines_of_a_reverted_rollout_are_left(versions: str, due: list[str]) -> None:
    """As many as are asked for are as they should be: those that differ are removed, and need no upgrade."""
    spec = {"version": "v1.36.3", "replicas": 3, "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}}
    owner = made({"kind": "KubeadmControlPlane", "metadata": {"name": "c", "uid": "1"}, "spec": spec})
    objects = capi_objects([])
    objects.machines_of = lambda _owner: [
        machine(name, version="v1.36.3" if version == "n" else "v1.35.4", control_plane=True)
        for name, version in zip("abcd", versions, strict=False)
    ]
    due_machines = ControlPlaneGroup().due(objects, owner)
    assert ([view.name for view in due_machines.machines], due_machines.is_due) == (due, bool(due))


def lost(name: str, version: str = "v1.36.3") -> MachineView:
    """A machine that names a KubeadmConfig which is gone: what it was made with is not known."""
    view = machine(name, version=version, control_plane=True)
    tree = view.object.tree
    tree["spec"]["bootstrap"] = {"configRef": {"apiGroup": "b", "kind": "KubeadmConfig", "name": name}}
    return replace(view, object=made(tree))


def test_machines_whose_configs_are_lost_are_due() -> None:
    """They are reported, and wait for their configs: nobody takes them for upgraded."""
    spec = {"version": "v1.36.3", "replicas": 3, "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}}
    owner = made({"kind": "KubeadmControlPlane", "metadata": {"name": "c", "uid": "1"}, "spec": spec})
    objects = capi_objects([])
    views = [lost("a"), machine("b", version="v1.36.3"), machine("c", version="v1.35.4")]
    objects.machines_of = lambda _owner: views
    assert [view.name for view in ControlPlaneGroup().due(objects, owner).machines] == ["a", "c"]
    sets = capi_objects([machine_set("s", "1", version="v1.35.4")], "s")
    sets.machines_of = lambda _owner: views
    assert [view.name for view in DeploymentGroup().due(sets, machine_set("md", "1")).machines] == ["c", "a"]


@pytest.mark.parametrize(("version", "written"), [("v1.35.4", ["v1.36.3"]), ("v1.36.3", [])])
def test_matching_set_is_not_reverted(version: str, written: list[str]) -> None:
    versions: list[str] = []

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        versions.append(patch["spec"]["template"]["spec"]["version"])

    owner, latest = machine_set("md", "1"), machine_set("s", "1", version=version)
    wanted: Tree = {**owner.tree["spec"]["template"]["spec"], "version": "v1.36.3", "failureDomain": "elsewhere"}
    view: Any = SimpleNamespace(capi_objects=capi_objects([latest]))
    writer: Any = SimpleNamespace(merge=merge)
    asyncio.run(
        DeploymentGroup().finish(writer, cast(Any, SimpleNamespace(cluster_view=view, owner=owner, wanted=wanted)))
    )
    assert versions == written


def test_worker_without_a_ready_node_is_missing() -> None:
    sets = [machine_set("s", "1")]
    views = [machine(name) for name in ("well", "ill", "alone")]
    objects = capi_objects(sets, "s")
    objects.machines_of = lambda _owner: views
    view = cluster_view(nodes=[node("well", control_plane=False), node("ill", ready=False, control_plane=False)])
    seen: Any = SimpleNamespace(
        cluster_view=SimpleNamespace(capi_objects=objects, workload=view.workload),
        owner=machine_set("md", "1"),
        members=(),
    )
    assert DeploymentGroup().missing(seen) == ["node ill is not ready", "Machine alone has no node"]


def test_machine_with_other_files_is_outdated() -> None:
    template = {"template": {"spec": {"files": [{"path": "/a", "content": "new"}]}}}
    objects = capi_objects([])
    objects.template = lambda _kind, name: template if name == "t" else None
    tree = machine_set("md", "1").tree
    tree["spec"]["template"]["spec"]["bootstrap"] = {
        "configRef": {"apiGroup": "b", "kind": "KubeadmConfigTemplate", "name": "t"}
    }
    deployment = made(tree).decode(MachineDeployment)
    for content, names in (("new", []), ("old", ["m"])):
        config = made({"kind": "C", "metadata": {"name": "m"}, "spec": {"files": [{"path": "/a", "content": content}]}})
        view = replace(machine("m", version="v1.36.3"), config=config)
        assert [view_.name for view_ in deployment_group.outdated(objects, deployment, [view])] == names


def recorded(group: Any, wanted: Tree, view: Any) -> dict[str, Tree]:
    """Kind -> what is merged into the object of a machine once its node is upgraded."""
    written: dict[str, Tree] = {}

    async def merge(resource: Any, _object: Any, patch: Tree) -> None:
        written[resource.kind] = patch

    objects = SimpleNamespace(template=lambda *_: {})
    seen: Any = SimpleNamespace(wanted=wanted, version="v1.36.3", cluster_view=SimpleNamespace(capi_objects=objects))
    writer: Any = SimpleNamespace(merge=merge)
    asyncio.run(group.record(writer, seen, view))
    return written


REFERENCE = {"apiGroup": "i", "kind": "DockerMachineTemplate", "name": "new"}


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        (DeploymentGroup(), {"infrastructureRef": REFERENCE, "bootstrap": {"configRef": {"name": "t"}}}),
        (ControlPlaneGroup(), {"machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}}),
    ],
)
def test_objects_of_a_machine_tell_what_was_reached(group: Any, wanted: Tree) -> None:
    bare = made({"kind": "Any", "metadata": {"name": "m"}})
    kind = Resource("i", "v1", "dockermachines", "DockerMachine")
    view = replace(machine("m"), config=bare, infrastructure=bare, infrastructure_kind=kind)
    patches = recorded(group, wanted, view)
    assert list(patches) == ["Machine", "KubeadmConfig", "DockerMachine"]
    assert patches["Machine"]["spec"] == {"version": "v1.36.3"}
    cloned_from = patches["DockerMachine"]["metadata"]["annotations"]
    assert cloned_from["cluster.x-k8s.io/cloned-from-name"] == "new"
    assert list(recorded(group, wanted, machine("m"))) == ["Machine"]
    assert "DockerMachine" not in recorded(group, {}, view), "nothing is known of what it was cloned from"


def test_nodes_get_the_requested_etcd() -> None:
    spec = {
        "controlPlane": {"name": "c"},
        "machinesRequireUpgrade": [],
        "kubernetesVersion": "v1.36.3",
        "controlPlaneSpecData": "",
        "etcdVersion": "v3.6.8",
    }
    kind = ControlPlaneUpgrade.resource
    upgrade = made({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "u"}, "spec": spec})
    seen: Any = SimpleNamespace(members=(), wanted={}, upgrade=upgrade.decode(ControlPlaneUpgrade))
    extras = ControlPlaneGroup().node_upgrade_extras(seen, Member("m", machine("m"), None, None))
    assert extras == {"etcdVersion": "v3.6.8", "firstNodeToBeUpgraded": True, "bootstrapChanges": ""}
