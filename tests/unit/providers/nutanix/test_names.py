"""A Secret that is made for a cluster may have the name of one that Cluster API makes for another."""

from __future__ import annotations

import json

import pytest

from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, laptop, observer
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers.examples import stored
from tests.support.providers.nutanix import manifest


def named(name: str) -> list[Tree]:
    trees: list[Tree] = json.loads(json.dumps(stored(manifest())).replace("quarry", name))
    trees[0]["metadata"]["uid"] = f"uid-{name}"
    return trees


@pytest.mark.parametrize(("older", "younger"), [("capx-a", "a-ca"), ("a-ca", "capx-a"), ("capx-a", "a-kubeconfig")])
def test_names_of_secrets_of_two_clusters_do_not_clash(older: str, younger: str) -> None:
    """`capx-a-ca` has the account of cluster `a-ca`, and is the authority of cluster `capx-a`."""
    trees = named(younger)
    known = observer(*named(older), *trees[1:], laptop(), FORK)
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, younger, ADMIN, as_object(trees[0]))
    answer = Admission(known, lambda: NOW).validate(request)
    assert not answer.allowed
    assert f"Secret {'capx-' + younger if younger.startswith('a') else 'capx-a-ca'}" in answer.message
