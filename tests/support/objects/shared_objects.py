"""Deletions of what other Clusters still need."""

from __future__ import annotations

import msgspec

from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.objects.observed_clusters import NOW, RELEASES, as_object, observer
from tests.support.servers.admission_reviews import SPEC

MANAGER = SPEC + "managementCluster.name"
SHARED = {"kind": "DockerDatacenterConfig", "name": "shared"}


def delete(old: Tree, *seen: Tree, kind: str = "Cluster", names_others: bool = True) -> AdmissionResponse:
    admission = Admission(observer(*seen), lambda: NOW, names_others=names_others)
    handler = admission.validate if kind == "Cluster" else admission.protected(lambda _request: AdmissionResponse())
    metadata = old["metadata"]
    request = AdmissionRequest(
        "DELETE", kind, metadata.get("namespace", ""), metadata["name"], ADMIN, None, as_object(old)
    )
    return handler(request)


def release_of_bundles() -> Tree:
    result = (msgspec.to_builtins(object_) for object_ in RELEASES.objects() if isinstance(object_, EKSARelease))
    return next(tree for tree in result if tree["spec"]["bundlesRef"]["name"] == "bundles-1")
