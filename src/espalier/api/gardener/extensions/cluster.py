"""`extensions.gardener.cloud/v1alpha1 Cluster`: what extensions in a seed may know of a shoot, and its lease.

Its name is the shoot's technical ID. `spec.shoot` and the others are whole objects of the garden, for extensions that
can't reach it.
"""

from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.extensions.extension import extension_kind
from espalier.api.gardener.vocabulary.operations import RawExtension, Time
from espalier.api.kinds import AGE, Column, KubeObject
from espalier.api.meta import ABSENT, Part


class ClusterSpec(Part):
    """Copies of the garden's objects, and the lease."""

    cloud_profile: RawExtension = ABSENT
    seed: RawExtension = ABSENT
    shoot: RawExtension = ABSENT
    lease_expiration: Annotated[
        Time,
        Meta(description="Extensions start no operation after it, as the seed may no longer be responsible. RFC 3339."),
    ] = ""


@extension_kind(
    Column("Lease", ".spec.leaseExpiration", "string", "When extensions stop"), AGE, status=False, namespaced=False
)
class Cluster(KubeObject, kw_only=True):
    """A shoot, for the extensions of its seed."""

    spec: ClusterSpec
