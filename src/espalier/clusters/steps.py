"""The steps of a pass, in order. Each does what is left to do of its part, and says what it waits for."""

from __future__ import annotations

import hashlib
import secrets

import msgspec

from espalier.api import core
from espalier.api.capi import cluster as capi
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.group import CLUSTER_FINALIZER, CLUSTER_NAME_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import ObjectMeta, Tree
from espalier.clusterapi import contract, kubeconfig
from espalier.clusters import cni, in_place, names, plan, readiness, workload
from espalier.clusters.design import Design
from espalier.clusters.linked import GateKey
from espalier.clusters.oversight import oversee
from espalier.clusters.passing import Pass
from espalier.clusters.plan import Removal
from espalier.clusters.rules.sharing import linked
from espalier.clusters.status import first_obstacle
from espalier.clusters.validity import missing_objects, problem
from espalier.kube.errors import AlreadyExists, Conflict, Unreachable
from espalier.runtime import owners
from espalier.runtime.errands import Failed
from espalier.runtime.outcome import Continue, Done, Fault, Outcome, Wait

CLUSTER = eksa.Cluster.resource


async def hold(p: Pass) -> Outcome:
    """The Cluster stays until everything made for it is gone."""
    scope, writer = p.scope, p.tools.writer
    if CLUSTER_FINALIZER not in scope.cluster.metadata.finalizers:
        writer.wrote(CLUSTER, await owners.add_finalizer(writer.client, CLUSTER, scope.object, CLUSTER_FINALIZER))
    return Continue()


async def choose_release(p: Pass) -> Outcome:
    """A new Cluster that names no release gets that of its management cluster; one that has machines, never."""
    spec, management = p.scope.spec, p.scope.management
    if spec.eksa_version is not None or spec.bundles_ref is not None or p.scope.is_self_managed:
        return Continue()
    if p.scope.machinery.control_plane is not None:
        return Continue()  # `check` says what is missing
    if management is None:
        found = problem(p.scope)
        return Wait(*found) if found else Continue()
    if management.spec.eksa_version is None:
        message = f'Cluster "{management.metadata.name}" names no eksaVersion itself; give spec.eksaVersion'
        return Wait(names.EKSA_VERSION_INVALID, message)
    await p.tools.writer.merge(CLUSTER, p.scope.object, {"spec": {"eksaVersion": management.spec.eksa_version}})
    message = f"release {management.spec.eksa_version} was taken from the management cluster"
    p.event("Normal", "ReleaseChosen", message)
    return Wait("ReleaseChosen", message)


async def find_children(p: Pass) -> Outcome:
    """All linked objects are there."""
    found = missing_objects(p.scope.awaited)
    return Wait(*found) if found else Continue()


async def own_children(p: Pass) -> Outcome:
    """Linked objects go with the Clusters that use them, but for those of the management cluster: they stay.

    Whose they are is not known while the record of the management cluster is not.
    """
    client, management = p.tools.writer.client, p.scope.management
    if management is None:
        return Continue()
    owner = owners.owner_reference(p.scope.object, controller=False, block_owner_deletion=False)
    lent = linked(management)
    for resource, child in p.scope.children:
        if (child.kind, child.key) in lent:
            written = await owners.remove_owner(client, resource, child, owner.uid)
        else:
            written = await owners.add_owner(client, resource, child, owner)
        if written is not None and written is not child:
            p.tools.observer.linked.wrote(resource, written)
    return Continue()


async def leave_children(p: Pass) -> Outcome:
    """What another Cluster names as well is not collected with this one, whether or not that one owns it yet."""
    for resource, child in p.tools.observer.lent_by(p.scope.object):
        written = await owners.remove_owner(p.tools.writer.client, resource, child, p.scope.object.metadata.uid)
        if written is not None:
            p.tools.observer.linked.wrote(resource, written)
    return Continue()


async def copy_kubeconfig(p: Pass) -> Outcome:
    """A copy of the kubeconfig lies beside the Cluster, for users without rights on the system's namespace.

    Also in settled clusters: Cluster API renews the certificate in it. The copy is written without being read, so the
    Cluster carries a digest of what was copied.
    """
    scope = p.scope
    content = scope.machinery.kubeconfig
    if not p.tools.copies_kubeconfigs or content is None or scope.key.namespace == SYSTEM_NAMESPACE:
        return Continue()
    digest = hashlib.sha256(scope.object.metadata.uid.encode() + content).hexdigest()[:16]
    if scope.cluster.metadata.annotations.get(names.KUBECONFIG_ANNOTATION) == digest:
        return Continue()
    writer = p.tools.writer
    body = _kubeconfig_copy(p, content)
    try:
        await writer.client.apply(core.SECRET, body, force=False, field_manager=names.FIELD_MANAGER)
    except Conflict:
        name = f"{scope.key.namespace}/{body['metadata']['name']}"
        message = f"Secret {name} is there and belongs to somebody else; remove it, the kubeconfig goes there"
        return Wait("KubeconfigSecretTaken", message, after=60.0)  # nothing of that namespace's Secrets is watched
    await writer.annotate(CLUSTER, scope.object, names.KUBECONFIG_ANNOTATION, digest)
    p.event("Normal", "KubeconfigCopied", f"the kubeconfig is in Secret {body['metadata']['name']}")
    return Continue()


async def make_gate_key(p: Pass) -> Outcome:
    """There is a key to digests of credentials. Without any, there is no need of one.

    A lost one is made anew: all that carries credentials is then compared once more, and found as it should be.
    """
    if not p.scope.credentials or p.scope.gate_key:
        return Continue()
    key = secrets.token_bytes(32)
    metadata = ObjectMeta(name=names.GATE_KEY.name, namespace=names.GATE_KEY.namespace)
    body = core.Secret(metadata=metadata, data={names.GATE_KEY_FIELD: key})
    try:
        made = await p.tools.writer.client.create(core.SECRET, body)
    except AlreadyExists:  # another pass was faster; or somebody wrote it
        message = f"waiting for Secret {names.GATE_KEY} to be read; if it has no {names.GATE_KEY_FIELD}, delete it"
        return Wait("WaitingForGateKey", message, after=1.0)
    p.tools.observer.linked.wrote(core.SECRET, made)
    p.scope = msgspec.structs.replace(p.scope, gate_key=GateKey(key))
    return Continue()


async def carry_credentials(p: Pass) -> Outcome:
    """Where nothing but credentials changed, what carries them is written.

    Nothing else is, whatever this manager would render otherwise: no machine is replaced by a new password.
    """
    scope = p.scope
    if not scope.takes_credentials or scope.is_bereft:
        return Continue()
    found = problem(scope)
    if found:
        return Wait(*found)
    await p.apply(plan.carriers(_design(p), scope.machinery), "CredentialsApplied")
    return Continue()


async def leave_settled(p: Pass) -> Outcome:
    """The gate: what was reconciled to its end is left alone until something else is asked for."""
    if p.scope.is_bereft:
        return Wait(readiness.MACHINERY_MISSING, readiness.BEREFT)
    if not p.scope.is_settled:
        return Continue()
    await p.close_gate()  # writes only when the cluster is adopted, or credentials changed
    return await oversee(p)


async def check(p: Pass) -> Outcome:
    """What is asked for can be made."""
    found = problem(p.scope)
    return Wait(*found) if found else Continue()


async def make_control_plane(p: Pass) -> Outcome:
    """The objects of the control plane are as they should be."""
    wanted = plan.control_plane(_design(p), p.scope.machinery)
    obstacle = plan.obstacle(wanted, _design(p), p.scope.machinery)
    if obstacle is not None:
        return Wait(*obstacle)
    await p.apply(wanted, "ControlPlaneApplied")
    return Continue()


async def begin_workers(p: Pass) -> Outcome:
    """The groups of a cluster that never had an API server are there beside it: their machines join when it answers.

    They are only made here, and only while all that there is of the control plane has its version: no node may be
    ahead of its API server. What is changed waits its turn.
    """
    machinery, design = p.scope.machinery, _design(p)
    cluster, control_plane = machinery.cluster, machinery.control_plane
    if cluster is None or contract.is_control_plane_initialized(cluster):
        return Continue()
    if control_plane is None or control_plane.spec.version != design.of_control_plane.version:
        return Continue()
    if not contract.is_up_to_date(control_plane):
        return Continue()
    wanted = plan.worker_groups(design, machinery)
    await p.apply([one for one in wanted if one.metadata.name not in machinery.of(one.resource)], "WorkersApplied")
    return Continue()


async def await_control_plane(p: Pass) -> Outcome:
    """All of the control plane has the version asked for: before that, nothing else changes."""
    machinery = p.scope.machinery
    control_plane = machinery.control_plane
    upgrade = in_place.story(control_plane, machinery.upgrades) if control_plane else None
    if upgrade is not None:
        return Wait(*upgrade)
    if machinery.is_available:
        return Continue()
    if control_plane is None or not contract.is_observed(control_plane):
        return Wait(readiness.OUTDATED, "waiting for the control plane to be looked at")
    available = contract.condition(control_plane.status.conditions, "Available")
    if available is None or available.status != "True":
        detail = f": {available.message}" if available and available.message else ""
        return Wait(readiness.CONTROL_PLANE_NOT_READY, f"waiting for the control plane to be available{detail}")
    at = control_plane.status.version or "no version"
    message = f"waiting for all of the control plane to have {control_plane.spec.version}; it is at {at}"
    return Wait(readiness.ROLLING, message)


async def install_cni(p: Pass) -> Outcome:
    """The workload cluster has the CNI. Asked of it only when that is another than it was given last.

    A change is noted before it begins: who takes it back half-way has neither the one nor the other.
    """
    scope = p.scope
    installed = scope.machinery.installed_cni
    cluster = scope.machinery.cluster_object
    if installed == scope.wanted_cni or (installed and scope.leaves_cni_alone) or cluster is None:
        return Continue()
    content = scope.machinery.kubeconfig
    if content is None:
        secret = kubeconfig.secret_key(SYSTEM_NAMESPACE, scope.key.name)
        return Wait("WaitingForKubeconfig", f"waiting for Secret {secret}")
    await p.open_gate()
    name = scope.wanted_cni.rpartition("-")[0]
    if installed and installed != f"{name}-{names.UNFINISHED}":
        await p.tools.writer.annotate(
            capi.Cluster.resource, cluster, names.CNI_ANNOTATION, f"{name}-{names.UNFINISHED}"
        )
        p.look_again()
    match await p.tools.errands.send(scope.key, workload.install(cni.objects(_design(p)), content)):
        case Failed(error):
            unreachable = isinstance(error, Unreachable)
            reason = names.WORKLOAD_CLUSTER_UNREACHABLE if unreachable else readiness.CNI_INSTALLATION
            return Fault(reason, f"the CNI could not be installed in the workload cluster: {error}")
        case None:
            return Wait(readiness.CNI_INSTALLATION, readiness.CNI_IS_BEING_INSTALLED)
    await p.tools.writer.annotate(capi.Cluster.resource, cluster, names.CNI_ANNOTATION, scope.wanted_cni)
    p.event("Normal", "CNIInstalled", f"{name} was applied to the workload cluster")
    p.look_again()
    return Continue()


async def make_workers(p: Pass) -> Outcome:
    """The objects of all groups of workers are as they should be, and there are no others."""
    design = _design(p)
    wanted = plan.worker_groups(design, p.scope.machinery)
    obstacle = plan.obstacle(wanted, design, p.scope.machinery)
    if obstacle is not None:
        return Wait(*obstacle)
    await p.apply(wanted, "WorkersApplied")
    await p.remove(plan.superfluous_workers(design, p.scope.machinery), "WorkersRemoved")
    return Continue()


async def await_readiness(p: Pass) -> Outcome:
    """Every part of the cluster is as it was asked for, and ready."""
    obstacle = first_obstacle(readiness.conditions(p.scope))
    if obstacle is not None:
        return Wait(obstacle.reason, obstacle.message)
    going = plan.going_workers(_design(p), p.scope.machinery)
    if going:
        return Wait(readiness.SCALING_DOWN, f"waiting for MachineDeployment {', '.join(going)} to be gone")
    return Continue()


async def remove_unused_templates(p: Pass) -> Outcome:
    """Templates go once nothing refers to them."""
    await p.remove(plan.unused_templates(p.scope.machinery), "TemplatesRemoved")
    return Continue()


async def settle(p: Pass) -> Outcome:
    """What was asked for at the beginning of the pass is there: the gate is closed upon it."""
    await p.close_gate()
    await oversee(p)
    return Done()


LIFE = (
    hold,
    choose_release,
    find_children,
    own_children,
    copy_kubeconfig,
    make_gate_key,
    carry_credentials,
    leave_settled,
    check,
    make_control_plane,
    begin_workers,
    await_control_plane,
    install_cni,
    make_workers,
    await_readiness,
    remove_unused_templates,
    settle,
)
"""From a Cluster to a cluster."""


async def delete_cluster(p: Pass) -> Outcome:
    """Cluster API deletes in order: workers, control plane, infrastructure."""
    cluster = p.scope.machinery.cluster_object
    if cluster is None:
        return Continue()
    if cluster.metadata.deletion_timestamp is None:
        await p.remove([Removal(capi.Cluster.resource, cluster)], "DeletionStarted")
    return Wait("Deleting", _what_is_left(p))


async def delete_leftovers(p: Pass) -> Outcome:
    """What Cluster API does not delete with its Cluster: objects that never had one, health checks, templates.

    Secrets are the garbage collector's. They are waited for: a cluster that comes again under the name would take them
    for its own, and lose its authority when they go.
    """
    machinery = p.scope.machinery
    await p.remove(plan.leftovers(machinery), "LeftoversRemoved")
    left = [f"{resource.kind} {name}" for resource, found in machinery.objects.items() for name in found]
    left += [f"Secret {found.name}" for found in machinery.secrets if contract.is_owned(found)]
    return Wait("Deleting", f"waiting for {', '.join(left)} to be gone") if left else Continue()


async def let_go(p: Pass) -> Outcome:
    """Nothing holds the Cluster any longer."""
    p.tools.remotes.drop(p.scope.key)
    await owners.remove_finalizer(p.tools.writer.client, CLUSTER, p.scope.object, CLUSTER_FINALIZER)
    return Continue()


DELETION = (delete_cluster, delete_leftovers, leave_children, let_go)
"""From a cluster to nothing. Needs none of the linked objects."""


def _design(p: Pass) -> Design:
    if p.scope.design is None:
        raise AssertionError("the step `check` lets nothing pass without a design")
    return p.scope.design


def _kubeconfig_copy(p: Pass, content: bytes) -> Tree:
    owner = owners.owner_reference(p.scope.object, controller=False, block_owner_deletion=False)
    secret = core.Secret(
        metadata=ObjectMeta(
            name=kubeconfig.secret_key(p.scope.key.namespace, p.scope.key.name).name,
            namespace=p.scope.key.namespace,
            labels={CLUSTER_NAME_LABEL: p.scope.key.name},
            owner_references=[owner],
        ),
        data={kubeconfig.KEY: content},
    )
    tree: Tree = msgspec.to_builtins(secret)
    return tree


def _what_is_left(p: Pass) -> str:
    machinery = p.scope.machinery
    workers = sum(deployment.status.replicas or 0 for deployment in machinery.typed_deployments.values())
    if workers:
        return f"waiting for {workers} worker {_machines(workers)} to be gone"
    control_plane = machinery.control_plane
    machines = (control_plane.status.replicas or 0) if control_plane else 0
    if machines:
        return f"waiting for {machines} control plane {_machines(machines)} to be gone"
    return "waiting for the infrastructure to be gone"


def _machines(number: int) -> str:
    return "machine" if number == 1 else "machines"
