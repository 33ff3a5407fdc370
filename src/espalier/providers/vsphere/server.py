"""The vCenter of a datacenter."""

from __future__ import annotations

from espalier.clusters.report.checks import questions
from espalier.providers.vsphere.kinds import VSphereDatacenterConfigSpec


class Server(questions.Server, frozen=True):
    """A vCenter."""

    thumbprint: str = ""
    """SHA-1 of the certificate; empty to verify it with this machine's CAs."""


def server_of(spec: VSphereDatacenterConfigSpec) -> Server:
    """The vCenter of a datacenter. A thumbprint pins its certificate."""
    return Server(spec.server.lower(), spec.insecure and not spec.thumbprint, spec.thumbprint)
