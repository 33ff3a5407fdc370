"""User data of a virtual machine: its files, among them the bootstrap kubeconfig of its kubelet."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from espalier.api.cloud import LONGEST_USER_DATA
from espalier.api.gardener.extensions.operating_system_config import BOOTSTRAP_KUBECONFIG
from espalier.api.meta import Observed
from espalier.api.trees import json_trees
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError

_MAX_FILES = 1000


class _File(Observed, frozen=True):
    path: str
    content: str = ""


class _UserData(Observed, frozen=True):
    files: list[_File] = msgspec.field(default_factory=list)


class Bootstrap(Observed, frozen=True):
    """The configuration with which a kubelet becomes a node."""

    host: str
    """Name of the API server, to be resolved by DNS."""
    kubeconfig: str


def files_of(user_data: bytes) -> dict[str, str]:
    """The content of the files in user data, by path; empty if they are too long or of another format."""
    if len(user_data) > LONGEST_USER_DATA:
        return {}
    try:
        files = json_trees.decode(user_data, _UserData).files[:_MAX_FILES]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return {file.path: file.content for file in files}


def bootstrap_of(user_data: bytes) -> Bootstrap | None:
    """The bootstrap settings in user data; None without a valid kubeconfig: the machine does not become a node."""
    kubeconfig = files_of(user_data).get(BOOTSTRAP_KUBECONFIG, "")
    try:
        host = urlsplit(Kubeconfig.parse(kubeconfig.encode()).context().server).hostname if kubeconfig else None
    except (KubeconfigError, ValueError):
        return None
    return Bootstrap(host, kubeconfig) if host else None
