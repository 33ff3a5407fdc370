"""The example, with other numbers."""

from __future__ import annotations

import yaml

from tests.support.environments.node_versions import OLDER
from tests.support.histories import kubectl_story as story

CLUSTER = "clusters.anywhere.eks.amazonaws.com/garden"


def manifest(
    workers: int,
    control_planes: int = 1,
    *,
    kubernetes: str = OLDER,
    impatient: bool = False,
    in_place: bool = False,
    manager: str = "",
) -> str:
    """A cluster of this size; `impatient` gives up a node that was not ready for half a minute. `manager` is its
    management cluster, if it is another than that of `espalier up`.
    """
    documents = list(yaml.safe_load_all(story.EXAMPLE.read_text()))
    spec = documents[0]["spec"]
    spec["workerNodeGroupConfigurations"][0]["count"] = workers
    spec["controlPlaneConfiguration"]["count"] = control_planes
    spec["kubernetesVersion"] = kubernetes
    if manager:
        spec["managementCluster"] = {"name": manager}
    if in_place:
        for group in (spec["controlPlaneConfiguration"], *spec["workerNodeGroupConfigurations"]):
            group["upgradeRolloutStrategy"] = {"type": "InPlace"}
    if impatient:
        spec["machineHealthCheck"] = {"unhealthyMachineTimeout": "30s", "nodeStartupTimeout": "10m0s"}
    text: str = yaml.safe_dump_all(documents)
    return text
