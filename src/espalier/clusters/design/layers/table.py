"""The layers of this build, oldest first. Append a new one with the release that introduces it."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.clusters.design.layers import (
    cgroup_v1,
    cni_updates,
    half_unhealthy,
    images_by_digest,
    provider_settings,
    registry_mirrors,
    short_lived_tokens,
    tls_min_version,
)
from espalier.clusters.design.layers.layer import BASE, Layer

LAYERS: Sequence[Layer] = (
    Layer("base", BASE, "Shared by all supported releases: the rendering code, and layers folded into it."),
    tls_min_version.LAYER,
    cni_updates.LAYER,
    half_unhealthy.LAYER,
    short_lived_tokens.LAYER,
    images_by_digest.LAYER,
    cgroup_v1.LAYER,  # before the next, which moves flags into the same file
    provider_settings.LAYER,
    registry_mirrors.LAYER,
)
