"""The objects of an Etcd, as trees: pure functions of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from espalier.api.core import CONFIG_MAP, NETWORK_POLICY, POD_DISRUPTION_BUDGET, SERVICE, STATEFUL_SET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener import images
from espalier.api.gardener.etcd import Etcd
from espalier.api.meta import OwnerReference, Tree
from espalier.api.resource import Resource
from espalier.shoots.etcd import names
from espalier.shoots.etcd.settings import (
    agent_command,
    agent_port,
    client_port,
    credentials_variable,
    guard_command,
    has_client_tls,
    has_members,
    is_copy,
)
from espalier.shoots.secrets import peers

VERSION = "v1"
"""The version of our own images."""
DEFAULT_QUOTA = 8 * 1024**3
DEFAULT_CAPACITY = "16Gi"
GRACE = 60
"""Seconds in which a pod terminates."""
ELECTION = {"heartbeat-interval": 50, "election-timeout": 250}
"""Milliseconds. A single member waits for its election at each start, 0.5 s on average with etcd's defaults. Those are
long so that members with a slow network keep their leader; here there are no other members.
"""
PROBE_PERIOD = 1
"""Seconds, the minimum of Kubernetes: the API gap of a move includes the time until the next probe."""

_EPOCH = "--epoch="


class Rendered(NamedTuple):
    """A rendered object."""

    resource: Resource
    body: Tree

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])


def rendered(etcd: Etcd, owner: OwnerReference, timing: Timing | None = None) -> list[Rendered]:
    """Return all objects of an Etcd, in the order of their creation. Raises `InvalidEtcd`.

    `timing` is that of elections in its garden; None leaves it to the agent's image.
    """
    files = {} if is_copy(etcd) else {names.CONFIG_FILE: _configuration(etcd)}
    if timing is not None:
        files[names.TIMING_FILE] = msgspec.json.encode(timing).decode()
    objects = [_agent_service(etcd)]
    if files:
        objects.append(_config_map(etcd, files))
    if not is_copy(etcd):
        objects += [_client_service(etcd), _peer_service(etcd)]
        objects.append(_network_policy(etcd))
    if has_members(etcd):
        objects.append(_disruption_budget(etcd))
    objects.append(_stateful_set(etcd, agent_command(etcd, timed=timing is not None), files))
    for rendered_object in objects:
        rendered_object.body["metadata"]["ownerReferences"] = [msgspec.to_builtins(owner)]
    return objects


def epoch_in(stateful_set: Tree) -> str | None:
    """The epoch with which the agent of a StatefulSet runs; None if it can't be found."""
    containers = stateful_set["spec"].get("template", {}).get("spec", {}).get("containers", [])
    words = (word for container in containers for word in container.get("command") or ())
    return next((word.removeprefix(_EPOCH) for word in words if word.startswith(_EPOCH)), None)


def selector(etcd: Etcd) -> dict[str, str]:
    """The labels that select its pods."""
    return {names.INSTANCE: etcd.metadata.name, names.NAME: "etcd"}


def _object(etcd: Etcd, resource: Resource, name: str, **rest: Tree) -> Rendered:
    labels = {**etcd.spec.labels, **selector(etcd)}
    metadata = {"name": name, "namespace": etcd.metadata.namespace, "labels": labels}
    return Rendered(resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest})


def _client_service(etcd: Etcd) -> Rendered:
    port = {"name": "client", "port": client_port(etcd), "targetPort": client_port(etcd), "protocol": "TCP"}
    spec = {"selector": selector(etcd), "ports": [port]}
    return _object(etcd, SERVICE, names.client_service(etcd.metadata.name), spec=spec)


def _agent_service(etcd: Etcd) -> Rendered:
    """The agent answers while its etcd is closed, so the pod need not be ready."""
    port = {"name": "backup-restore", "port": names.AGENT_PORT, "targetPort": agent_port(etcd), "protocol": "TCP"}
    spec = {"selector": selector(etcd), "publishNotReadyAddresses": True, "ports": [port]}
    return _object(etcd, SERVICE, names.agent_service(etcd.metadata.name), spec=spec)


def _peer_service(etcd: Etcd) -> Rendered:
    port = {"name": "peer", "port": names.PEER_PORT, "targetPort": names.PEER_PORT, "protocol": "TCP"}
    spec = {"selector": selector(etcd), "clusterIP": "None", "publishNotReadyAddresses": True, "ports": [port]}
    return _object(etcd, SERVICE, names.peer_service(etcd.metadata.name), spec=spec)


def _disruption_budget(etcd: Etcd) -> Rendered:
    """Two of three members are the quorum."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": selector(etcd)}}
    return _object(etcd, POD_DISRUPTION_BUDGET, etcd.metadata.name, spec=spec)


def _network_policy(etcd: Etcd) -> Rendered:
    """Pods of its namespace alone reach etcd, which asks for certificates as well. Its agent asks for them too; probes
    come from the node, which no policy keeps away."""
    inside: list[Tree] = [{"podSelector": {}}]
    ports = [{"port": port, "protocol": "TCP"} for port in (client_port(etcd), names.PEER_PORT)]
    rules: list[Tree] = [
        {"from": inside, "ports": ports},
        {"ports": [{"port": agent_port(etcd), "protocol": "TCP"}]},
    ]
    spec = {"podSelector": {"matchLabels": selector(etcd)}, "policyTypes": ["Ingress"], "ingress": rules}
    return _object(etcd, NETWORK_POLICY, etcd.metadata.name, spec=spec)


def _config_map(etcd: Etcd, files: dict[str, str]) -> Rendered:
    return _object(etcd, CONFIG_MAP, names.config_map(etcd.metadata.name), data=files)


def _configuration(etcd: Etcd) -> str:
    """etcd's configuration file; for three members, what they have in common."""
    common = {
        "data-dir": names.DATA_DIRECTORY,
        "quota-backend-bytes": etcd.spec.etcd.quota or DEFAULT_QUOTA,
        "listen-client-urls": ",".join(_listens(etcd)),
    }
    compaction = {"auto-compaction-mode": "periodic", "auto-compaction-retention": "30m"}
    settings: dict[str, object] = {}
    if has_members(etcd):
        settings = {**common, "listen-peer-urls": f"https://0.0.0.0:{names.PEER_PORT}", **compaction}
    else:  # in the order of earlier gardenlets: a changed file ends etcd
        scheme = "https" if has_client_tls(etcd) else "http"
        settings = {
            "name": names.member(etcd.metadata.name, 0),
            **common,
            "listen-peer-urls": f"unix://{names.PEER_SOCKET}",  # a single member has no peers
            "advertise-client-urls": f"{scheme}://{names.client_service(etcd.metadata.name)}:{client_port(etcd)}",
            **compaction,
            **ELECTION,
        }
    text = "".join(f"{name}: {value}\n" for name, value in settings.items())
    text += _security("client", peers.CLIENTS) if has_client_tls(etcd) else ""
    return text + _security("peer", peers.TRUSTED) if has_members(etcd) else text


def _listens(etcd: Etcd) -> list[str]:
    """The agent is in the same pod, and reaches etcd without TLS also while its clients can't."""
    urls = [f"unix://{names.CLIENT_SOCKET}"]
    return [*urls, f"unixs://{names.TLS_SOCKET}"] if has_client_tls(etcd) else urls


def _security(of: str, trusted: str) -> str:
    """Members present and demand certificates of authorities that sign nothing else, so names need not be compared:
    that of a pod's address may not be known yet when it connects, and a socket has none."""
    settings = {
        "cert-file": f"{names.PEER_PATH}/{peers.CERTIFICATE}",
        "key-file": f"{names.PEER_PATH}/{peers.KEY}",
        "trusted-ca-file": f"{names.PEER_PATH}/{trusted}",
        "client-cert-auth": "true",
        "skip-client-san-verification": "true",
    }
    return f"{of}-transport-security:\n" + "".join(f"  {name}: {value}\n" for name, value in settings.items())


def _stateful_set(etcd: Etcd, command: list[str], files: dict[str, str]) -> Rendered:
    name = etcd.metadata.name
    copies = is_copy(etcd)
    agent = _agent(etcd, command, configured=names.TIMING_FILE in files)
    checksum = hashlib.sha256("".join(files.values()).encode()).hexdigest()
    annotations = {**etcd.spec.annotations, **({names.CHECKSUM: checksum} if files else {})}
    pod: Tree = {
        "metadata": {"labels": {**etcd.spec.labels, **selector(etcd)}, "annotations": annotations},
        "spec": {
            "shareProcessNamespace": True,  # the agent ends etcd with SIGTERM
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": GRACE,
            "containers": [agent] if copies else [_etcd(etcd), agent],
            "volumes": _volumes(etcd, configured=bool(files)),
        },
    }
    if has_members(etcd):
        pod["spec"]["affinity"] = _apart(etcd)
    spec: Tree = {
        "replicas": etcd.spec.replicas,
        "serviceName": names.agent_service(name) if copies else names.peer_service(name),
        "podManagementPolicy": "Parallel",  # else a pod that is not ready is never recreated with another template
        "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": selector(etcd)},
        "template": pod,
    }
    if not copies:
        spec["volumeClaimTemplates"] = [_claim(etcd)]
    return _object(etcd, STATEFUL_SET, name, spec=spec)


def _apart(etcd: Etcd) -> Tree:
    """Members on different nodes, and where possible in different zones."""

    def term(topology: str) -> Tree:
        return {"topologyKey": topology, "labelSelector": {"matchLabels": selector(etcd)}}

    zones = {"weight": 100, "podAffinityTerm": term("topology.kubernetes.io/zone")}
    return {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term("kubernetes.io/hostname")],
            "preferredDuringSchedulingIgnoredDuringExecution": [zones],
        }
    }


def _etcd(etcd: Etcd) -> Tree:
    """etcd behind its guard. Its agent decides whether it is ready: it is not unless the agent is sure of being the
    owner."""
    port = client_port(etcd)
    ports = [{"name": "client", "containerPort": port}]
    mounts = [
        {"name": names.DATA_VOLUME, "mountPath": names.DATA_PATH},
        {"name": names.RUN_VOLUME, "mountPath": names.RUN_PATH},
        _CONFIGURED,
    ]
    if has_members(etcd):
        ports.append({"name": "peer", "containerPort": names.PEER_PORT})
    if has_members(etcd) or has_client_tls(etcd):
        mounts.append(_CERTIFIED)
    return {
        "name": names.ETCD_CONTAINER,
        "image": etcd.spec.etcd.image or images.tagged(images.ETCD, VERSION),
        "command": guard_command(etcd),
        "ports": ports,
        "readinessProbe": _probe(etcd, failures=5),
        "volumeMounts": mounts,
    }


_CONFIGURED = {"name": names.CONFIG_VOLUME, "mountPath": names.CONFIG_PATH, "readOnly": True}
_CERTIFIED = {"name": names.PEER_VOLUME, "mountPath": names.PEER_PATH, "readOnly": True}


def _agent(etcd: Etcd, command: list[str], *, configured: bool) -> Tree:
    mounts: list[Tree] = []
    if not is_copy(etcd):
        mounts.append({"name": names.DATA_VOLUME, "mountPath": names.DATA_PATH})
        mounts.append({"name": names.RUN_VOLUME, "mountPath": names.RUN_PATH})
    mounts += [_CONFIGURED] if configured else []
    mounts += [_CERTIFIED] if etcd.peer_secret else []
    mounts += [
        {"name": credential.volume, "mountPath": credential.path, "readOnly": True} for credential in _credentials(etcd)
    ]
    variables: list[Tree] = [
        {"name": credential.variable, "value": credential.path} for credential in _credentials(etcd)
    ]
    if has_members(etcd):
        variables.append({"name": names.POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    container: Tree = {
        "name": names.AGENT_CONTAINER,
        "image": etcd.spec.backup.image or images.tagged(images.AGENT, VERSION),
        "command": command,
        "env": variables,
        "ports": [{"name": "agent", "containerPort": agent_port(etcd)}],
        "volumeMounts": mounts,
    }
    return container | ({"readinessProbe": _probe(etcd, failures=1)} if is_copy(etcd) else {})


def _probe(etcd: Etcd, *, failures: int) -> Tree:
    request = {"path": "/healthz", "port": agent_port(etcd), **({"scheme": "HTTPS"} if etcd.peer_secret else {})}
    return {"httpGet": request, "periodSeconds": PROBE_PERIOD, "timeoutSeconds": 5, "failureThreshold": failures}


def _volumes(etcd: Etcd, *, configured: bool) -> list[Tree]:
    volumes: list[Tree] = [
        {"name": credential.volume, "secret": {"secretName": credential.secret}} for credential in _credentials(etcd)
    ]
    if not is_copy(etcd):
        volumes.append({"name": names.RUN_VOLUME, "emptyDir": {"medium": "Memory"}})
    if etcd.peer_secret:
        volumes.append({"name": names.PEER_VOLUME, "secret": {"secretName": etcd.peer_secret}})
    if configured:
        volumes.append({"name": names.CONFIG_VOLUME, "configMap": {"name": names.config_map(etcd.metadata.name)}})
    return volumes


class _Credentials(NamedTuple):
    """Credentials of a store: their Secret, its mount, and the environment variable with the path."""

    volume: str
    path: str
    secret: str
    variable: str


def _credentials(etcd: Etcd) -> Iterator[_Credentials]:
    backup = etcd.spec.backup
    for store, volume, path, prefix in (
        (backup.store, "etcd-backup", names.BACKUP_PATH, ""),
        (backup.source_store, "source-etcd-backup", names.SOURCE_BACKUP_PATH, "SOURCE_"),
    ):
        if store is not None and store.secret_ref is not None and store.secret_ref.name:
            yield _Credentials(volume, path, store.secret_ref.name, prefix + credentials_variable(store))


def _claim(etcd: Etcd) -> Tree:
    capacity = etcd.spec.storage_capacity or DEFAULT_CAPACITY
    storage_class = {"storageClassName": etcd.spec.storage_class} if etcd.spec.storage_class else {}
    return {
        "metadata": {"name": names.DATA_VOLUME},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(capacity)}},
            **storage_class,
        },
    }
