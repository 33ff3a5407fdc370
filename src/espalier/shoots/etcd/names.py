"""Names of an Etcd's objects, of their containers, and paths in these."""

from __future__ import annotations

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Finalizer, Label, Writer

FINALIZER: Annotated[
    str,
    Finalizer(
        "Etcd",
        Writer.ETCD,
        "Keeps the Etcd until its pods have ended, and its objects and data are deleted.",
        "condition `Ready` says what it waits for",
    ),
] = "druid.gardener.cloud/etcd-druid"

INSTANCE: Annotated[
    str,
    Label(
        "objects of an Etcd",
        Writer.ETCD,
        "Name of the Etcd. Objects without it are not watched; the controller of Etcds sets it again.",
    ),
] = "instance"
NAME: Annotated[str, Label("objects of an Etcd", Writer.ETCD, "`etcd`.")] = "name"

ETCD_CONTAINER = "etcd"
AGENT_CONTAINER = "backup-restore"
"""The containers of the proposal."""

CLIENT_PORT = 2379
AGENT_PORT = 8080

DATA_VOLUME = "etcd-main"
DATA_PATH = "/var/etcd/data"
DATA_DIRECTORY = f"{DATA_PATH}/new.etcd"
CONFIG_VOLUME = "etcd-config"
CONFIG_PATH = "/var/etcd/config"
CONFIG_FILE = "etcd.conf.yaml"
TIMING_FILE = "timing.json"
"""The timing of elections in this garden."""
RUN_VOLUME = "etcd-run"
RUN_PATH = "/run/etcd"
GUARD_SOCKET = f"{RUN_PATH}/guard.sock"
"""The socket of the guard, on which the agent sets until when clients may pass."""
CLIENT_SOCKET = f"{RUN_PATH}/client.sock"
"""The socket on which etcd listens: clients reach it through its guard alone."""
TLS_SOCKET = f"{RUN_PATH}/clients.sock"
"""The socket on which etcd demands certificates. Its agent, in the same pod, uses the other one."""
PEER_SOCKET = f"{RUN_PATH}/peer.sock"
"""The socket on which etcd would listen for other members."""
MEMBER_FILE = f"{RUN_PATH}/etcd.conf.yaml"
"""The configuration of a member of three, which its agent completes before each start."""
PEER_VOLUME = "etcd-peer-tls"
PEER_PATH = "/var/etcd/peer"
"""The certificate with which members know each other."""
PEER_PORT = 2380
POD_NAME = "POD_NAME"
"""The environment variable with the pod's name, which is the member's."""
BACKUP_PATH = "/var/etcd-backup"
SOURCE_BACKUP_PATH = "/var/source-etcd-backup"
"""The folder in which the credentials of the stores are mounted."""

CHECKSUM: Annotated[
    str,
    Annotation("Pod of an Etcd", Writer.ETCD, "Digest of its configuration: the pod is replaced when that changes."),
] = "checksum/etcd-config"


def member(etcd: str, ordinal: int) -> str:
    """The name of a member, and of its pod."""
    return f"{etcd}-{ordinal}"


def member_host(etcd: str, namespace: str, member: str) -> str:
    """The DNS name of a member's pod."""
    return f"{member}.{peer_service(etcd)}.{namespace}.svc"


def client_service(etcd: str) -> str:
    """The Service by which an API server reaches etcd: ready pods only."""
    return f"{etcd}-client"


def agent_service(etcd: str) -> str:
    """The Service by which gardenlets reach the agent, also while its etcd is closed."""
    return f"{etcd}-agent"


def peer_service(etcd: str) -> str:
    """The headless Service that gives pods their names."""
    return f"{etcd}-peer"


def config_map(etcd: str) -> str:
    """The ConfigMap with etcd's configuration."""
    return f"{etcd}-config"


def claim(etcd: str, ordinal: int = 0) -> str:
    """The claim of a pod, as its StatefulSet names it."""
    return f"{DATA_VOLUME}-{etcd}-{ordinal}"
