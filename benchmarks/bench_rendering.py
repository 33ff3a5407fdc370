"""Rendering: all objects of one cluster with three control plane machines and three groups, for each example."""

from __future__ import annotations

import copy
import time
from pathlib import Path

import msgspec

from benchmarks.measure import arguments, report, size, spread
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.manifests import read_manifests
from espalier.cli.clusters.manifests.offline import OfflineManager
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from espalier.providers.registry import PROVIDERS

EXAMPLES = Path(__file__).parents[1] / "examples"
MANAGED = "managementCluster:\n    name: laptop\n"
"""In the examples that a manager renders: not in that of a management cluster."""
GROUPS, TIMES, ROUNDS = 3, size(200, 1), size(7, 1)


def render_input_of(example: Path) -> RenderInput:
    """Of the example, with more groups."""
    documents = read_manifests(example.read_bytes(), source=example.name)
    cluster = next(document for document in documents if document.kind == Cluster.resource.kind)
    spec = cluster.tree["spec"]
    spec["controlPlaneConfiguration"]["count"] = 3
    first = spec["workerNodeGroupConfigurations"][0]
    spec["workerNodeGroupConfigurations"] = [copy.deepcopy(first) | {"name": f"md-{at}"} for at in range(GROUPS)]
    return OfflineManager(PROVIDERS, documents, None, "default").render_input(cluster)


def rendered(made: RenderInput) -> int:
    """The number of objects, rendered and planned."""
    made, nothing = msgspec.structs.replace(made), ClusterAPIObjects()  # each copy is rendered once
    return len([*plan.control_plane(made, nothing), *plan.worker_groups(made, nothing)])


def main() -> None:
    arguments(__doc__).parse_args()
    for example in sorted(path for path in EXAMPLES.glob("*.yaml") if MANAGED in path.read_text()):
        made = render_input_of(example)
        objects, runs = rendered(made), []
        for _ in range(ROUNDS):
            began = time.process_time()
            for _ in range(TIMES):
                rendered(made)
            runs.append(1000 * (time.process_time() - began) / TIMES)
        report(f"rendering {objects} objects of {example.stem}", f"CPU {spread(runs, 'ms')}", "aim: <= 2 ms")


if __name__ == "__main__":
    main()
