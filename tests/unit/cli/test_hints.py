from __future__ import annotations

import pytest

from espalier.api.capi.machine import MachineSet
from espalier.api.core import LEASE
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.resource import Resource
from espalier.cli.kit.hints import hint
from espalier.cli.programs import garden_components
from espalier.kube.errors import ApiError, Forbidden, Invalid, NotFound

RIGHT = 'x is forbidden: User "system:serviceaccount:eksa-system:m" cannot list resource "releases" in API group "x"'
APPLY = "apply the output of this version's `espalier manifests`, which"


@pytest.mark.parametrize(
    ("resource", "error", "advised"),
    [
        (DistroRelease.resource, Forbidden.of(RIGHT), f"{APPLY} grants it"),
        (
            DistroRelease.resource,
            NotFound.of("404 page not found"),
            f"{APPLY} defines it",
        ),
        (
            MachineSet.resource,
            NotFound.of("404 page not found"),
            "install Cluster API and its providers in a version that serves it, as `clusterctl init` does",
        ),
        (LEASE, NotFound.of('namespaces "eksa-system" not found'), f"{APPLY} creates the namespace"),
        (DistroRelease.resource, Forbidden.of('admission webhook "x" denied the request: no'), ""),
        (DistroRelease.resource, Invalid.of("spec: wrong"), ""),
    ],
)
def test_the_hint_follows_from_the_refusal(resource: Resource, error: ApiError, advised: str) -> None:
    assert hint(resource, error) == advised


IN_GARDEN = "apply the output of `espalier manifests --of garden` (in seeds `--of seed`), which"


@pytest.mark.parametrize(
    ("resource", "error", "advised"),
    [
        (LEASE, NotFound.of('namespaces "eksa-system" not found'), f"{IN_GARDEN} creates the namespace"),
        (Shoot.resource, NotFound.of("404 page not found"), f"{IN_GARDEN} defines it"),
        (LEASE, NotFound.of("404 page not found"), ""),
        (Shoot.resource, Invalid.of("spec: wrong"), ""),
    ],
)
def test_the_same_of_a_garden_and_its_seeds(resource: Resource, error: ApiError, advised: str) -> None:
    assert garden_components.hint(resource, error) == advised
