"""The Secrets that clusters of each provider need."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.clusters.design.shared_parts import with_shared_parts
from espalier.providers.registry import PROVIDERS
from tests.support.objects.observed_upgrades import made
from tests.support.providers.every_provider import KINDS, SAMPLES
from tests.support.providers.examples import stored


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_with_their_fields_are_usable(kind: str) -> None:
    """A message about a Secret that is absent names the same fields as that about one that lacks them."""
    cluster, *others = stored(SAMPLES[kind].cluster("team-a", "garden"))
    depend = with_shared_parts(PROVIDERS[kind]).links.depend
    needed = [one for one in depend(msgspec.convert(cluster, Cluster), list(map(made, others))) if one.server]
    assert needed
    for one in needed:
        assert one.resource == SECRET
        lack = one.unusable({}, {})
        assert one.fields
        assert all(field in lack for field in one.fields), lack
        every = one.unusable(dict.fromkeys(one.fields, b"x"), {})
        assert "found none of them" not in every
