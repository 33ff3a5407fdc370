"""Settings of a control plane's etcd that the next minor version of etcd no longer takes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.meta import Tree
from espalier.api.version_matrix import ETCD, minor_of, numbers

_LOCAL = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local"


def removed_setting(control_plane: Tree, wanted: str) -> str:
    """A sentence about the first setting of a KubeadmControlPlane that etcd of a wanted version does not take.

    Empty if there is none, if the control plane's etcd is of that minor version already, or is elsewhere. Such settings
    are a person's: nothing that this project renders is among them.
    """
    local = _local(control_plane)
    for minor, etcd in ETCD.items():
        if not numbers(minor_of(str(local.get("imageTag") or ""))) < numbers(minor) <= numbers(minor_of(wanted)):
            continue
        for name in _names(local.get("extraArgs")):
            if name.startswith(etcd.removed_flags):
                return (
                    f"etcd {minor} does not start with flag --{name} of {_LOCAL}.extraArgs: remove it, "
                    "or set what replaces it, before this change"
                )
        for name in _names(local.get("extraEnvs")):
            flag = name.removeprefix("ETCD_").lower().replace("_", "-")
            if name.startswith("ETCD_") and flag.startswith(etcd.removed_flags):
                return (
                    f"etcd {minor} ignores {name} of {_LOCAL}.extraEnvs, so that what it sets would be off: remove it, "
                    "or set what replaces it, before this change"
                )
    return ""


def _local(control_plane: Tree) -> Tree:
    value: object = control_plane
    for part in _LOCAL.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _names(settings: object) -> Iterator[str]:
    for setting in settings if isinstance(settings, list) else ():
        if isinstance(setting, dict):
            yield str(setting.get("name") or "")
