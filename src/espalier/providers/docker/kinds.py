"""DockerDatacenterConfig: clusters whose machines are containers."""

import msgspec

from espalier.api.eksa.declaring import eksa_kind
from espalier.api.kinds import AGE, KubeObject
from espalier.api.meta import Observed, Part


class DockerDatacenterConfigSpec(Part):
    """The spec, which is empty: Docker needs no settings."""


class DockerDatacenterConfigStatus(Observed, frozen=True):
    """The status, which is empty."""


@eksa_kind(AGE)
class DockerDatacenterConfig(KubeObject):
    """The datacenter of a Docker cluster."""

    spec: DockerDatacenterConfigSpec = msgspec.field(default_factory=DockerDatacenterConfigSpec)
    status: DockerDatacenterConfigStatus = DockerDatacenterConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (DockerDatacenterConfig,)
