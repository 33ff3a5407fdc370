"""Which step from one Kubernetes version to another a machine can take in place. Pure."""

from __future__ import annotations

from espalier.clusterapi.kubernetes_versions import parsed


def obstacle(current: str, wanted: str) -> str:
    """Why a machine of one version can't be brought to another where it stands; empty when it can.

    kubeadm upgrades by one minor at most, and never down.
    """
    before, after = parsed(current), parsed(wanted)
    if before is None or after is None:
        return f"found version {current or 'nothing'}, to become {wanted}: both must be like v1.36.3"
    if (after.major, after.minor, after.patch) < (before.major, before.minor, before.patch):
        return (
            f"{current} can't become {wanted}: kubeadm does not downgrade; ask for {current} again, or for a later one"
        )
    if after.major != before.major or after.minor > before.minor + 1:
        between = f"v{before.major}.{before.minor + 1}"
        return f"{current} can't become {wanted}: go to {between} first, kubeadm upgrades by one minor at a time"
    return ""


def is_reached(reported: str, wanted: str) -> bool:
    """Whether a kubelet that reports a version is of the one wanted. One that was not built by a distributor says
    nothing of its own after the numbers, whatever the cluster calls the version."""
    found, asked = parsed(reported), parsed(wanted)
    if found is None or asked is None:
        return False
    return found == asked or (found.prerelease is None and found == asked.finalize_version())
