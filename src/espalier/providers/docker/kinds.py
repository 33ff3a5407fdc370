"""DockerDatacenterConfig: clusters whose machines are containers."""

import msgspec

from espalier.api.eksa.group import GROUP, VERSION
from espalier.api.kinds import AGE, KubeObject, kind
from espalier.api.meta import Observed, Part
from espalier.api.moves import MOVED
from espalier.api.resource import Resource


class DockerDatacenterConfigSpec(Part):
    """The spec, which is empty: Docker needs no settings."""


class DockerDatacenterConfigStatus(Observed, frozen=True):
    """The status, which is empty."""


@kind(
    Resource(GROUP, VERSION, "dockerdatacenterconfigs", "DockerDatacenterConfig"),
    labels=MOVED,
    categories=("eks-anywhere",),
    columns=(AGE,),
    status=True,
)
class DockerDatacenterConfig(KubeObject):
    """The datacenter of a Docker cluster."""

    spec: DockerDatacenterConfigSpec = msgspec.field(default_factory=DockerDatacenterConfigSpec)
    status: DockerDatacenterConfigStatus = DockerDatacenterConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (DockerDatacenterConfig,)
