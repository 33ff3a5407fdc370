"""The Secrets that clusters of each provider need."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.clusters.design.cluster_objects.shared_parts import with_shared_parts
from espalier.providers.registry import PROVIDERS
from tests.support.objects.observed_upgrades import made
from tests.support.providers.every_provider import KINDS, SAMPLES
from tests.support.providers.examples import stored


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_with_their_fields_are_usable(kind: str) -> None:
    """A message about a Secret that is absent names the same fields as that about one that lacks them."""
    cluster, *others = stored(SAMPLES[kind].cluster("team-a", "garden"))
    depend = with_shared_parts(PROVIDERS[kind]).links.depend
    needed = [
        dependency
        for dependency in depend(msgspec.convert(cluster, Cluster), list(map(made, others)))
        if dependency.server
    ]
    assert needed
    for dependency in needed:
        assert dependency.resource == SECRET
        lack = dependency.unusable({}, {})
        assert dependency.fields
        assert all(field in lack for field in dependency.fields), lack
        every = dependency.unusable(dict.fromkeys(dependency.fields, b"x"), {})
        assert "found none of them" not in every
