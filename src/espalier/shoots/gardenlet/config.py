"""Settings of a gardenlet."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.api.etcd.timing import Timing


@dataclass(frozen=True)
class GardenletConfig:
    """The seed of the gardenlet, and times in seconds."""

    seed: str
    timing: Timing = field(default_factory=Timing)
    domain: str = "internal.example.com"
    """The domain of the names of API servers: `api.<technical ID>.<domain>`."""
    dns_type: str = ""
    """Type of the DNSRecords that name API servers; empty for none."""
    dns_ttl: int = 120
    """Seconds for which resolvers cache an address: they add to the gap for clients that use names."""
    heartbeat: float = 10.0
    """Time between two renewals of the seed's Lease in the garden."""
    extension_timeout: float = 600.0
    """Time after which waiting for an extension is reported as an error; the wait continues."""
    agent_poll: float = 2.0
    """Time between two requests to an etcd agent that hands over. It answers earlier once it is done."""
    nodes_timeout: float = 120.0
    """The longest wait, after a move, for nodes to find the new API server; then controllers start that would replace
    silent nodes."""
    care: float = 60.0
    """Time between two requests to the agent of a shoot's etcd about its backups."""
    bucket_check: float = 600.0
    """Time between two reads of a shoot's bucket with the credentials that another seed would get, and between two
    connections to the store of another seed."""
    roles_check: float = 600.0
    """Time between two restorations of the roles that machine-controller-manager has in a shoot, whose owner may delete
    them: up to a quarter more or less for each shoot, so that a gardenlet with many has an even load."""
    retry_for: float = 12 * 3600.0
    """Time in error after which an operation is Failed."""
    version: str = "0.0.0"
    """The version of the gardenlet, as its Seed shows it."""
