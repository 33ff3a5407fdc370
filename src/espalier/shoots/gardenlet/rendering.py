"""Objects of a shoot in its seed, as trees: pure functions of the scope."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.gardener.etcd import MAIN, Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.dns_record import DNSRecord
from espalier.api.gardener.extensions.extension import Extended, Extension
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import (
    BOOTSTRAP_KUBECONFIG,
    BOOTSTRAP_TOKEN,
    KUBELET_CLIENT_CA,
    KUBELET_CONFIG,
    PROVISION,
    OperatingSystemConfig,
)
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.trees import json_trees
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.objects import encode_json
from espalier.shoots.gardenlet.names import GARDENER_ROLE, MANAGED_BY, SHOOT_NAME, SHOOT_UID
from espalier.shoots.gardenlet.scope import Scope
from espalier.shoots.secrets import names as secret_names
from espalier.shoots.secrets import peers
from espalier.shoots.secrets.persisted import Data

CLOUD_CONFIG_KEY = "cloud_config"
"""Key of the user data in Secrets of OperatingSystemConfigs."""


_KUBELET: Tree = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": KUBELET_CLIENT_CA},
    },
    "authorization": {"mode": "Webhook"},
    "rotateCertificates": True,
    "serverTLSBootstrap": True,
}


class Rendered(NamedTuple):
    """A rendered extension resource."""

    kind: type[Extended]
    name: str
    body: Tree
    purpose: str = ""


def namespace(scope: Scope) -> Tree:
    """The shoot's namespace, with the shoot's UID and its epoch."""
    labels = {GARDENER_ROLE: "shoot", SHOOT_NAME: scope.object.name}
    return _object(core.NAMESPACE, scope.technical_id, labels=labels, annotations=_identity(scope))


def cluster(scope: Scope, *, lease: str | None) -> Tree:
    """The Cluster for extensions, with a new lease, or with the one that it has."""
    shoot = scope.object.tree
    shoot["metadata"].pop("managedFields", None)
    spec: Tree = {"shoot": shoot}
    if scope.seed is not None:
        spec["seed"] = json_trees.decode(encode_json(scope.seed))
    if lease is not None:
        spec["leaseExpiration"] = lease
    body = _object(Cluster.resource, scope.technical_id, annotations=_identity(scope))
    return {**body, "spec": spec}


def secret(scope: Scope, name: str, data: Data) -> Tree:
    """A secret in the shoot's namespace."""
    body = _object(core.SECRET, name, scope.technical_id, labels={MANAGED_BY: "gardenlet"})
    return {**body, "type": "Opaque", "data": {key: b64encode(value).decode() for key, value in data.items()}}


def etcd(scope: Scope, *, replicas: int) -> Tree:
    """The shoot's etcd of the current epoch."""
    annotations = {metadata_keys.EPOCH: str(scope.epoch)}
    if scope.ownership.predecessor is None or scope.is_emptied:
        annotations[metadata_keys.FOUNDING] = "true"
    else:
        annotations[metadata_keys.SOURCE_EPOCH] = str(scope.ownership.predecessor.epoch)
    spec = _etcd_spec(scope, replicas)
    if "clientUrlTls" in spec["etcd"] and scope.has_plain_clients:
        annotations[metadata_keys.PLAIN_CLIENTS] = "true"
    body = _object(Etcd.resource, MAIN, scope.technical_id, annotations=annotations)
    return {**body, "spec": spec}


def woken_etcd(scope: Scope) -> Tree:
    """The part of an Etcd's spec with which a hibernated etcd runs again."""
    replicas = scope.etcd_members
    return {"replicas": replicas, "etcd": _etcd_config(scope, replicas)}


def peer_secret(scope: Scope) -> str:
    """The Secret with which members of etcd and their agents know each other; empty while there is none."""
    return peers.secret_of(scope.secrets_in_seed, scope.peer_use, scope.now)


def _etcd_config(scope: Scope, replicas: int) -> Tree:
    secret = peer_secret(scope) if replicas else ""
    if not secret:
        return {}
    tls = {"serverTLSSecretRef": {"name": secret}}
    has_clients = peers.has_clients(scope.secrets_in_seed.get(secret))
    return {"peerUrlTls": tls, **({"clientUrlTls": tls} if has_clients else {})}


def copy_etcd(scope: Scope) -> Tree:
    """The Etcd that only copies: the agent alone, which copies the predecessor's backups. Raises `ValueError` without a
    predecessor."""
    before = scope.ownership.predecessor
    if before is None:
        raise ValueError("there is nothing to copy: the shoot's etcd starts with this epoch")
    annotations = {metadata_keys.EPOCH: str(scope.epoch), metadata_keys.SOURCE_EPOCH: str(before.epoch)}
    body = _object(Etcd.resource, MAIN, scope.technical_id, annotations=annotations)
    spec = _etcd_spec(scope, 1)
    spec["backup"]["sourceStore"] = {
        "container": before.bucket,
        "prefix": names.store_prefix(scope.entry_name, before.epoch),
        "provider": store_provider(scope),
        "secretRef": {"name": names.SOURCE_BACKUP_SECRET},
    }
    return {**body, "spec": spec}


def _etcd_spec(scope: Scope, replicas: int) -> Tree:
    labels = {"instance": MAIN, "name": "etcd"}
    current = scope.ownership.current
    store = {
        "container": current.bucket if current is not None else "",
        "prefix": names.store_prefix(scope.entry_name, scope.epoch),
        "provider": store_provider(scope),
        "secretRef": {"name": names.BACKUP_SECRET},
    }
    return {
        "replicas": replicas,
        "labels": labels,
        "selector": {"matchLabels": labels},
        "etcd": _etcd_config(scope, replicas),
        "backup": {"store": store},
    }


def store_provider(scope: Scope) -> str:
    """The provider of the epoch's store; empty if it is not known. If the Seed was deleted or recreated, it is that of
    the present Etcd."""
    bucket, current, etcd = scope.bucket, scope.ownership.current, scope.typed_etcd
    is_of_epoch = bucket is not None and current is not None and bucket.metadata.name == current.bucket
    present = etcd.spec.backup.store if etcd is not None and not is_of_epoch else None
    if present is not None and present.provider:
        return present.provider
    return bucket.spec.provider.type if bucket is not None else ""


def extensions(scope: Scope, dns_type: str, domain: str, dns_ttl: int = 120) -> list[Rendered]:
    """The extension resources of a shoot."""
    return [
        _infrastructure(scope),
        *_network(scope),
        _control_plane(scope),
        *_operating_system_configs(scope, domain),
        *_extensions(scope),
        _worker(scope),
        *_dns_records(scope, dns_type, domain, dns_ttl),
    ]


def _infrastructure(scope: Scope) -> Rendered:
    provider = scope.shoot.spec.provider
    spec = _provider_spec(scope) | _config(provider.infrastructure_config) | _ssh(scope)
    return _extension(scope, Infrastructure, scope.object.name, spec)


def _network(scope: Scope) -> Iterator[Rendered]:
    networking = scope.shoot.spec.networking
    if networking is not None and networking.type:
        spec = {"type": networking.type, "podCIDR": networking.pods, "serviceCIDR": networking.services}
        yield _extension(scope, Network, scope.object.name, spec | _config(networking.provider_config))


def _control_plane(scope: Scope) -> Rendered:
    config = _config(scope.shoot.spec.provider.control_plane_config)
    spec = {**_provider_spec(scope), "purpose": "normal", **config, **_infrastructure_status(scope)}
    return _extension(scope, ControlPlane, scope.object.name, spec, purpose="normal")


def _operating_system_configs(scope: Scope, domain: str) -> Iterator[Rendered]:
    for pool in scope.shoot.spec.provider.workers:
        image = pool.machine.image
        type_ = image.name if image is not None else "any"
        spec = {"type": type_, "purpose": PROVISION, "files": _kubelet_files(scope, domain)}
        yield _extension(scope, OperatingSystemConfig, _config_name(pool.name), spec, purpose=PROVISION)


def _kubelet_files(scope: Scope, domain: str) -> list[Tree]:
    """The files of a new node: a bootstrap kubeconfig with the API server's name, and the kubelet's configuration. None
    has a secret."""
    config = Kubeconfig.of_cluster(
        scope.technical_id,
        server=f"https://{_api_name(scope, domain)}:443",
        certificate_authority=scope.persisted_secrets.get(secret_names.CA, {}).get("ca.crt", b""),
        user="kubelet-bootstrap",
        credentials=BOOTSTRAP_TOKEN,
    )
    files = {
        BOOTSTRAP_KUBECONFIG: config.to_bytes(),
        KUBELET_CLIENT_CA: scope.persisted_secrets.get(secret_names.CA_KUBELET, {}).get("ca.crt", b""),
        KUBELET_CONFIG: encode_json(_KUBELET),
    }
    return [{"path": path, "content": {"inline": {"data": data.decode()}}} for path, data in files.items()]


def _extensions(scope: Scope) -> Iterator[Rendered]:
    for extension in scope.shoot.spec.extensions:
        if not extension.disabled:
            yield _extension(
                scope, Extension, extension.type, {"type": extension.type, **_config(extension.provider_config)}
            )


def _worker(scope: Scope) -> Rendered:
    shoot = scope.shoot
    pools = []
    for pool in shoot.spec.provider.workers:
        is_hibernated = scope.is_hibernated
        pools.append(
            {
                "name": pool.name,
                "machineType": pool.machine.type,
                "minimum": 0 if is_hibernated else pool.minimum,
                "maximum": 0 if is_hibernated else pool.maximum,
                "maxSurge": 1 if pool.max_surge is None else pool.max_surge,
                "maxUnavailable": 0 if pool.max_unavailable is None else pool.max_unavailable,
                "kubernetesVersion": shoot.spec.kubernetes.version,
                **({"machineImage": msgspec.to_builtins(pool.machine.image)} if pool.machine.image else {}),
                **({"zones": pool.zones} if pool.zones else {}),
                **({"labels": pool.labels} if pool.labels else {}),
                **({"annotations": pool.annotations} if pool.annotations else {}),
                **({"taints": msgspec.to_builtins(pool.taints)} if pool.taints else {}),
                **({"volume": msgspec.to_builtins(pool.volume)} if pool.volume else {}),
                **_user_data(scope, pool.name),
                **_config(pool.provider_config),
            }
        )
    spec = {**_provider_spec(scope), **_ssh(scope), **_infrastructure_status(scope), "pools": pools}
    return _extension(scope, Worker, scope.object.name, spec)


def _dns_records(scope: Scope, dns_type: str, domain: str, ttl: int) -> Iterator[Rendered]:
    """A CNAME for the API server, to its address in this seed; none without `dns_type`."""
    if not dns_type:
        return
    name = _api_name(scope, domain)
    target = f"{scope.technical_id}.{scope.seed_name}.{domain}"
    spec = {
        "type": dns_type,
        "name": name,
        "recordType": "CNAME",
        "values": [target],
        "ttl": ttl,
        "secretRef": {"name": secret_names.CLOUD_PROVIDER, "namespace": scope.technical_id},
    }
    yield _extension(scope, DNSRecord, f"{scope.object.name}-internal", spec)


def _api_name(scope: Scope, domain: str) -> str:
    """The name of the API server, which stays when the shoot moves."""
    return f"api.{scope.technical_id}.{domain}"


def _extension(scope: Scope, kind: type[Extended], name: str, spec: Tree, purpose: str = "") -> Rendered:
    body = _object(kind.resource, name, scope.technical_id, annotations={metadata_keys.EPOCH: str(scope.epoch)})
    return Rendered(kind, name, {**body, "spec": spec}, purpose)


def _provider_spec(scope: Scope) -> Tree:
    spec = scope.shoot.spec
    reference = {"name": secret_names.CLOUD_PROVIDER, "namespace": scope.technical_id}
    return {"type": spec.provider.type, "region": spec.region, "secretRef": reference}


def _user_data(scope: Scope, pool: str) -> Tree:
    """The Secret with the user data of the pool's OperatingSystemConfig; empty until the extension has created it."""
    config = scope.extension(OperatingSystemConfig, _config_name(pool))
    status = config.decode(OperatingSystemConfig).status if config is not None else None
    if status is None or status.cloud_config is None:
        return {}
    return {"userDataSecretRef": {"name": status.cloud_config.secret_ref.name, "key": CLOUD_CONFIG_KEY}}


def _config_name(pool: str) -> str:
    return f"{pool}-provision"


def _ssh(scope: Scope) -> Tree:
    key = scope.persisted_secrets.get(secret_names.SSH_KEYPAIR, {}).get("id_rsa.pub", b"")
    return {"sshPublicKey": b64encode(key).decode()}


def _infrastructure_status(scope: Scope) -> Tree:
    infrastructure = scope.extension(Infrastructure, scope.object.name)
    status = infrastructure.decode(Infrastructure).status.provider_status if infrastructure is not None else None
    return {} if not status else {"infrastructureProviderStatus": json_trees.decode(bytes(status))}


def _config(raw: Any) -> Tree:
    return {} if not raw else {"providerConfig": json_trees.decode(bytes(raw))}


def _identity(scope: Scope) -> dict[str, str]:
    return {SHOOT_UID: scope.uid, metadata_keys.EPOCH: str(scope.epoch)}


def _object(
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Tree:
    metadata: Tree = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
