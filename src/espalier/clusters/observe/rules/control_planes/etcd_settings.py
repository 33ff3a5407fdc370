"""Upgrades of a cluster's etcd that can't be made: to a version out of reach, or one that lacks a setting. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.meta import Tree
from espalier.api.version_matrix import ETCD, etcd_minors_for, minor_of, numbers
from espalier.clusterapi.kubernetes_versions import is_older

_LOCAL = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local"


def out_of_reach(control_plane: Tree, wanted: str, kubernetes: str) -> str:
    """A sentence about an etcd in a KubeadmControlPlane that can't become one of the `wanted` version.

    Empty if it can, if nothing is known of either, or if an earlier `kubernetes` is wanted: such a revert is allowed
    only where no member has the later etcd.
    """
    present = str(_local(control_plane).get("imageTag") or "")
    is_reverted = is_older(kubernetes, str((control_plane.get("spec") or {}).get("version") or ""))
    obstacle = step_obstacle(present, wanted, is_reverted=is_reverted)
    return f"{_LOCAL}.imageTag: {obstacle}" if obstacle else ""


def step_obstacle(present: str, wanted: str, *, is_reverted: bool) -> str:
    """The reason why etcd can't go from one version to another; empty if it can, or if nothing is known of either.

    If it `is_reverted`, it may go back.
    """
    allowed = etcd_minors_for(present)
    is_skipped = numbers(minor_of(wanted)) > numbers(minor_of(present))
    if not allowed or not minor_of(wanted) or minor_of(wanted) in allowed or (is_reverted and not is_skipped):
        return ""
    why = "is upgraded one minor version at a time" if is_skipped else "does not start with data of a later one"
    return (
        f"found {present}, allowed is a release with etcd {' or '.join(allowed)}, and this one has {wanted}: etcd "
        f"{why}; choose {'such a release first' if is_skipped else 'such a release'}"
    )


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
