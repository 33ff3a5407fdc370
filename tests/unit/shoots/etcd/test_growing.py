"""An etcd of one member that gets three: the first gets peers before others join it."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import STATEFUL_SET
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import OwnerReference, Tree
from espalier.kube.objects import Object
from espalier.shoots.etcd import names
from espalier.shoots.etcd.observe import Scope
from espalier.shoots.etcd.plan import plan
from espalier.shoots.etcd.rendering import rendered
from espalier.shoots.etcd.settings import InvalidEtcd

TREE: Tree = {
    "apiVersion": "druid.gardener.cloud/v1alpha1",
    "kind": "Etcd",
    "metadata": {
        "name": "etcd-main",
        "namespace": "shoot--team--garden",
        "uid": "u",
        "annotations": {metadata_keys.EPOCH: "1", metadata_keys.FOUNDING: "true"},
    },
    "spec": {
        "replicas": 3,
        "etcd": {"peerUrlTls": {"serverTLSSecretRef": {"name": "etcd-peer"}}},
        "backup": {"store": {"provider": "S3", "container": "b", "prefix": "entry/etcd-main/1"}},
    },
}
OWNER = OwnerReference(api_version="druid.gardener.cloud/v1alpha1", kind="Etcd", name="etcd-main", uid="u")
READY = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 2}


def claims(*ordinals: int) -> tuple[Object, ...]:
    """The claims of these members."""
    trees = ({"metadata": {"name": names.claim("etcd-main", ordinal)}} for ordinal in ordinals)
    return tuple(Object(msgspec.json.encode(tree)) for tree in trees)


def planned(
    replicas: int | None, status: Tree, *, is_new: bool = True, wanted: int = 3, members: tuple[int, ...] = ()
) -> int | None:
    """The replicas that are written where the StatefulSet has these; None if nothing is. `members`: have claims."""
    etcd = Object(msgspec.json.encode({**TREE, "spec": {**TREE["spec"], "replicas": wanted}}))
    typed = etcd.decode(Etcd)
    live = {}
    if replicas is not None:
        single = msgspec.convert({**TREE, "spec": {**TREE["spec"], "replicas": 1}}, Etcd)
        [body] = [made.body for made in rendered(typed if is_new else single, OWNER) if made.resource == STATEFUL_SET]
        owner = {**msgspec.to_builtins(OWNER), "controller": True}
        metadata = {**body["metadata"], "uid": "s", "generation": 2, "ownerReferences": [owner]}
        tree = {**body, "metadata": metadata, "spec": {**body["spec"], "replicas": replicas}, "status": status}
        live[STATEFUL_SET, "etcd-main"] = Object(msgspec.json.encode(tree))
    due = plan(Scope(etcd, typed, live, claims(*members)))
    assert not due.replace
    return next((made.body["spec"]["replicas"] for made in due.apply if made.resource == STATEFUL_SET), None)


@pytest.mark.parametrize("replicas", [None, 0])
def test_new_and_hibernated_etcds_get_all_members(replicas: int | None) -> None:
    assert planned(replicas, {}) == 3


@pytest.mark.parametrize(
    ("status", "is_new", "expected"),
    [
        (READY, False, 1),
        (READY, True, 3),
        ({**READY, "observedGeneration": 1}, True, 1),
        ({**READY, "readyReplicas": 0}, True, 1),
        ({**READY, "updatedReplicas": 0}, True, 1),
    ],
)
def test_others_join_once_the_first_has_peers(status: Tree, is_new: bool, expected: int) -> None:
    assert planned(1, status, is_new=is_new) == expected


@pytest.mark.parametrize("is_new", [True, False])
def test_set_that_was_scaled_to_one_gets_all_again(is_new: bool) -> None:
    """Its first member has no quorum alone: it would be waited for in vain."""
    lost = {**READY, "readyReplicas": 0}
    assert planned(1, lost, is_new=is_new, members=(0, 1)) == 3
    assert planned(1, READY, is_new=False, members=(0,)) == 1


def test_three_members_are_not_made_one() -> None:
    with pytest.raises(InvalidEtcd, match=r"spec.replicas: found 1, allowed are 0 and 3: .* etcd-main-etcd-main-2"):
        planned(3, READY, wanted=1, members=(0, 1, 2))
    assert planned(3, READY, wanted=1, members=(0,)) == 1
    assert planned(3, READY, wanted=0, members=(0, 1, 2)) == 0
