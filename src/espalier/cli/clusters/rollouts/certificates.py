"""Certificates of a cluster: when they end, as its management cluster knows it, and their renewal.

Certificates of API servers, of the front proxy and of etcd members beside them are renewed with their control plane
machine, or on its node where machines are upgraded in place (`node_certificates.py`). The administrator's kubeconfig is
issued by Cluster API; it issues a new one if there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET, Secret
from espalier.api.eksa.vocabulary.metadata_keys import KUBECONFIG_REQUESTED
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.cli.clusters.rollouts.etcd_certificates import Etcd
from espalier.cli.clusters.rollouts.rollouts import Target
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.follow import follow
from espalier.clusterapi import kubeconfig as kubeconfigs
from espalier.clusters.observe.scope import read as read_cluster
from espalier.clusters.report.certificates import expiries
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError
from espalier.kube.connection.pki import KeyPair
from espalier.kube.errors import Forbidden, KubeError, NotFound
from espalier.kube.objects import Object

REISSUED_WITHIN = 120.0
"""Seconds for Cluster API to issue a kubeconfig; then the previous one is put back."""
_AUTHORITIES = {"ca": "Kubernetes", "etcd": "etcd", "proxy": "the front proxy"}


class Component(StrEnum):
    """Parts of a cluster whose certificates are renewed, by the names of `eksctl anywhere`."""

    ALL = "all"
    CONTROL_PLANE = "control-plane"
    ETCD = "etcd"
    KUBECONFIG = "kubeconfig"


@dataclass(frozen=True)
class Certificate:
    """A certificate, or the first of several that ends."""

    what: str
    ends: datetime | None
    """None if it is not known, for the reason in `renewal`."""
    renewal: str
    """How it is renewed."""
    is_of_control_plane: bool = False
    """True for those of a control plane machine."""


async def read(client: Client, owner: Object, target: Target, etcd: Etcd | None) -> list[Certificate]:
    """The certificates of a cluster, and of its `etcd` with machines of its own. What may not be read is listed without
    its end."""
    identity = ClusterIdentity.of(owner.key)
    machines = (await client.list(Machine.resource, target.object.namespace, labels=target.selector)).items
    dates = expiries(machines)
    how = "on its node, or with its machine" if target.is_in_place else "with its machine"
    parts = "API server, front proxy, etcd" if etcd is None else "API server, front proxy"
    certificates = [
        Certificate(f"Machine {machine.name}: {parts}", dates.get(machine.name), how, is_of_control_plane=True)
        for machine in sorted(machines, key=lambda machine: machine.name)
    ]
    members = etcd.ends() if etcd is not None else {}
    certificates += [
        Certificate(f"Machine {name}: etcd (a year after it was made)", ends, "with its machine")
        for name, ends in members.items()
    ]
    certificates.append(await _of_kubeconfig(client, identity.capi))
    for purpose, of in _AUTHORITIES.items():
        certificates.append(await _of_authority(client, Key(identity.capi.namespace, f"{identity.name}-{purpose}"), of))
    return certificates


def has_external_etcd(owner: Object) -> bool:
    """True if etcd has machines of its own."""
    return read_cluster(owner).spec.external_etcd_configuration is not None


def check(certificates: Sequence[Certificate], target: Target, now: datetime) -> None:
    """Raises `Failure` if a certificate of a control plane machine has ended: then no machine can join or leave."""
    ended = [
        part.what for part in certificates if part.is_of_control_plane and part.ends is not None and part.ends <= now
    ]
    if ended:
        raise Failure(
            f"certificates of {target.title} have ended ({first(ended, 3)}), so Cluster API can't reach it and "
            "replaces no machine: on each of its machines run `kubeadm certs renew all`, move the files out of "
            "/etc/kubernetes/manifests and back, and give this command again"
        )


async def renew_kubeconfig(client: Client, cluster: Key) -> datetime:
    """Have Cluster API issue the administrator's kubeconfig anew, and return when it ends.

    Raises `Overdue` if Cluster API issues none in time: the previous one is there again then.
    """
    key = kubeconfigs.secret_key(cluster)
    try:
        present = await client.get(SECRET, key.name, key.namespace)
    except NotFound:
        raise Failure(f"there is no Secret {key}: the control plane is not initialized yet") from None
    control_planes = await client.list(KubeadmControlPlane.resource, key.namespace)
    owners = {owner.uid for owner in present.metadata.owner_references}
    issuer = next((item for item in control_planes.items if item.metadata.uid in owners), None)
    if issuer is None:
        raise Failure(
            f"Secret {key} is not of a KubeadmControlPlane, so Cluster API does not issue it: replace it yourself"
        )
    await client.delete(SECRET, key.name, key.namespace, uid=present.metadata.uid)
    try:
        await _wake(client, issuer)
        async with asyncio.timeout(REISSUED_WITHIN), aclosing(follow(client, SECRET, key)) as states:
            async for state in states:
                if state is None or state.metadata.uid == present.metadata.uid:
                    continue
                if (ends := _end_of(state)) is not None:
                    return ends
    except BaseException as error:
        await _put_back(client, present)
        if isinstance(error, TimeoutError):
            advice = "see that its control plane controller runs; the previous kubeconfig is there again"
            raise Overdue(f"Cluster API issued no Secret {key} within {REISSUED_WITHIN:g} s: {advice}") from None
        raise
    raise AssertionError("a watch ends by an error alone")


async def _wake(client: Client, issuer: Object) -> None:
    """Change a KubeadmControlPlane without effect: Cluster API looks for the Secret when it changes, not before."""
    annotations = {KUBECONFIG_REQUESTED: conditions.timestamp(datetime.now(UTC))}
    change = {"metadata": {"uid": issuer.metadata.uid, "annotations": annotations}}
    await client.patch(KubeadmControlPlane.resource, issuer.name, issuer.namespace, patch=change, type=PatchType.MERGE)


async def _put_back(client: Client, secret: Object) -> None:
    tree = secret.tree
    metadata = tree["metadata"]
    tree["metadata"] = {name: metadata[name] for name in _RESTORED if name in metadata}
    try:
        await asyncio.shield(client.create(SECRET, tree))
    except KubeError:
        return  # Cluster API was faster, or the API server does not answer: then Cluster API makes it later


_RESTORED = ("name", "namespace", "labels", "annotations", "ownerReferences")


def _end_of(secret: Object) -> datetime | None:
    """The end of the client certificate in a kubeconfig; None without any."""
    content = kubeconfigs.content(secret)
    try:
        access = Kubeconfig.parse(content or b"", source="").context()
        return KeyPair(access.client_certificate or b"", b"").not_after
    except (KubeconfigError, ValueError):
        return None


async def _of_kubeconfig(client: Client, cluster: Key) -> Certificate:
    what, how = "kubeconfig of the administrator", "by Cluster API, half a year before; or by this command"
    key = kubeconfigs.secret_key(cluster)
    try:
        return Certificate(what, _end_of(await client.get(SECRET, key.name, key.namespace)), how)
    except (Forbidden, NotFound):
        return Certificate(what, None, f"Secret {key} can't be read")


async def _of_authority(client: Client, key: Key, of: str) -> Certificate:
    try:
        secret = (await client.get(SECRET, key.name, key.namespace)).decode(Secret)
        ends: datetime | None = KeyPair(secret.data.get("tls.crt", b""), b"").not_after
        return Certificate(f"authority of {of}", ends, "never: with a new cluster")
    except (Forbidden, NotFound):
        return Certificate(f"authority of {of}", None, f"Secret {key} can't be read")
    except ValueError:
        return Certificate(f"authority of {of}", None, f"Secret {key} has no certificate")
