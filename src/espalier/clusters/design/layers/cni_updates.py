"""v0.25.1: an update of the CNI rolls out to a tenth of the nodes at a time.

One node after the other, the default of DaemonSets, takes hours in clusters of hundreds of nodes; two at a time
(Cilium's value before) is too many for a cluster of three.
"""

from __future__ import annotations

import semver

from espalier.api.core import DAEMON_SET
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import each_manifest
from espalier.clusters.design.rendered import Manifest, Rendered

STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}


def _updated(manifest: Manifest) -> Manifest:
    if manifest.resource != DAEMON_SET:
        return manifest
    spec = manifest.body["spec"] | {"updateStrategy": STRATEGY}
    return manifest._replace(body=manifest.body | {"spec": spec})


def roll_a_tenth_at_a_time(rendered: Rendered) -> Rendered:
    """The DaemonSets of the CNI are updated on a tenth of the nodes at a time, at least on one."""
    return each_manifest(rendered, _updated)


LAYER = Layer(
    name="cni-updates",
    since=semver.Version(0, 25, 1),
    why="Updates of the CNI roll out to a tenth of the nodes at a time; this does not replace its pods.",
    functions=(roll_a_tenth_at_a_time,),
)
