"""Which step from one Kubernetes version to another a machine can take in place. Pure."""

from __future__ import annotations

import semver


def parsed(version: str) -> semver.Version | None:
    """A version like v1.36.3-eks-1-36-1, None when it is none. What EKS Distro appends is no prerelease to us."""
    try:
        return semver.Version.parse(version.removeprefix("v"))
    except ValueError:
        return None


def obstacle(current: str, wanted: str) -> str:
    """Why a machine of one version can't be brought to another where it stands; empty when it can.

    kubeadm upgrades by one minor at most, and never down.
    """
    before, after = parsed(current), parsed(wanted)
    if before is None or after is None:
        return f"found version {current or 'nothing'}, to become {wanted}: both must be like v1.36.3"
    if (after.major, after.minor, after.patch) < (before.major, before.minor, before.patch):
        return f"{current} can't become {wanted}: kubeadm does not downgrade"
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


def is_older(one: str, other: str) -> bool:
    """Whether a version is older than another, patches included. Of what is no version nothing is said."""
    before, after = parsed(one), parsed(other)
    return before is not None and after is not None and before.finalize_version() < after.finalize_version()
