"""The gate: what counts as a change, and where a cluster stands."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.clusters.design.drift import gate
from espalier.clusters.design.drift.gate import Gate, Isolation
from espalier.clusters.observe.scope import Scope
from tests.support.objects.made_clusters import made, objects, settled
from tests.support.objects.observed_clusters import as_object, datacenter, example, observer

VSPHERE = "anywhere.eks.amazonaws.com/v1alpha1"


def child(name: str, generation: int = 1, **spec: object) -> Tree:
    """A linked object of a provider that has several for one cluster."""
    metadata = {"name": name, "namespace": "team-a", "generation": generation, "uid": f"{name}-{generation}"}
    return {"apiVersion": VSPHERE, "kind": "VSphereMachineConfig", "metadata": metadata, "spec": spec}


def cluster() -> Tree:
    return example()[0]


KEY = b"known to the manager alone"


def mark(
    cluster: Tree,
    *children: Tree,
    data: gate.Data | None = None,
    credentials: gate.Data | None = None,
    key: bytes = KEY,
) -> str:
    return gate.content_hash(as_object(cluster), [as_object(child) for child in children], data, credentials, key)


def generations(*trees: Tree) -> int:
    total: int = sum(tree["metadata"]["generation"] for tree in trees)
    return total


def test_content_hash_reveals_nothing_of_the_content() -> None:
    result = mark(cluster(), datacenter())
    assert result.startswith("v1:")
    assert len(result) == 3 + 40
    assert int(result[3:], 16)


def test_hash_without_credentials_is_the_earlier_one() -> None:
    """Written down: a mark that another build computes otherwise opens the gates of all clusters at its upgrade."""
    tree = datacenter() | {
        "kind": "Cluster",
        "spec": {"kubernetesVersion": "1.35", "datacenterRef": {"name": "garden"}},
    }
    assert mark(tree, datacenter()) == "v1:26f5e3b69b47a75911883b051471e9a275c502a3"
    tree["metadata"]["annotations"] = {metadata_keys.PATCHES_ANNOTATION: "a"}
    assert mark(tree, datacenter()) == "v1:8d1d12b16d25ade2db1118209bb44db4bb699151"


@pytest.mark.demand("I8")
@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree["metadata"].update(uid="other", generation=9, resourceVersion="99"),
        lambda tree: tree["metadata"].update(labels={"a": "b"}, annotations={"c": "d"}, finalizers=["e"]),
        lambda tree: tree["metadata"].update(creationTimestamp="2027-01-01T00:00:00Z", managedFields=[]),
        lambda tree: tree.update(status={"observedGeneration": 3}),
        lambda tree: tree["spec"].update(dict(reversed(list(tree["spec"].items())))),
        lambda tree: tree["spec"].update(proxyConfiguration=None),
    ],
)
def test_fields_outside_the_content_keep_the_hash(change: Callable[[Tree], None]) -> None:
    """As after a restore, a move to another management cluster, or applying the same once more."""
    before, after = cluster(), cluster()
    change(after)
    children = datacenter()
    moved = copy.deepcopy(children)
    moved["metadata"] |= {"uid": "new", "generation": 1, "ownerReferences": []}
    assert mark(after, moved) == mark(before, children)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree["spec"].update(kubernetesVersion="1.36"),
        lambda tree: tree["spec"]["workerNodeGroupConfigurations"][0].update(count=3),
        lambda tree: tree["spec"].update(packages={"disable": True}),
        lambda tree: tree["spec"].update(fieldOfALaterRelease=1),
        lambda tree: tree["spec"]["datacenterRef"].update(name="other"),
        lambda tree: tree["metadata"].update(name="copy"),
    ],
)
def test_content_counts_even_if_nothing_renders_it(change: Callable[[Tree], None]) -> None:
    before, after = cluster(), cluster()
    change(after)
    assert mark(after, datacenter()) != mark(before, datacenter())


def test_another_version_of_a_kind_is_no_other_content() -> None:
    before, after = child("a", disk=20), child("a", disk=20)
    after["apiVersion"] = "anywhere.eks.amazonaws.com/v1"
    assert mark(cluster(), after) == mark(cluster(), before)


def test_the_order_of_children_does_not_matter() -> None:
    assert mark(cluster(), child("a"), child("b")) == mark(cluster(), child("b"), child("a"))


@pytest.mark.demand("I14")
def test_child_with_a_lower_generation_is_noticed() -> None:
    """The Cluster's generation goes up by one: a single sum would stay as it was."""
    first, second = cluster(), cluster()
    second["spec"]["controlPlaneConfiguration"]["machineGroupRef"] = {"kind": "VSphereMachineConfig", "name": "b"}
    second["metadata"]["generation"] = 2
    a, b = child("a", generation=3, disk=20), child("b", generation=2, disk=40)
    assert generations(first, a) == generations(second, b)
    assert mark(first, a) != mark(second, b)


@pytest.mark.demand("I13")
def test_recreated_child_with_other_content_is_noticed() -> None:
    before, again = child("a", generation=1, disk=20), child("a", generation=1, disk=40)
    assert generations(before) == generations(again)
    assert mark(cluster(), before) != mark(cluster(), again)
    assert mark(cluster(), before) == mark(cluster(), child("a", generation=1, disk=20) | {"status": {}})


@pytest.mark.demand("I15")
def test_children_with_opposite_changes_are_noticed() -> None:
    """One is made again, so it starts anew at 1, and its sibling is changed as often as the other had been."""
    before = child("a", generation=2, disk=20), child("b", generation=1, disk=20)
    after = child("a", generation=1, disk=20), child("b", generation=2, disk=40)
    assert generations(*before) == generations(*after)
    assert mark(cluster(), *before) != mark(cluster(), *after)
    swapped = child("a", disk=40), child("b", disk=20)
    assert mark(cluster(), *swapped) != mark(cluster(), child("a", disk=20), child("b", disk=40))


SECRET = "Secret eksa-system/credentials"
ROSE, LILY = ({SECRET: {"user": b"gardener", "password": password}} for password in (b"rose", b"lily"))


def test_changed_or_renamed_secret_is_noticed() -> None:
    """Secrets have no generation at all."""
    before = mark(cluster(), datacenter(), credentials=ROSE)
    assert before == mark(cluster(), datacenter(), credentials={SECRET: {"password": b"rose", "user": b"gardener"}})
    others: list[gate.Data] = [LILY, {SECRET: {"user": b"gardener"}}, {"Secret eksa-system/other": ROSE[SECRET]}]
    for other in others:
        wanted = mark(cluster(), datacenter(), credentials=other)
        assert gate.state_of(before, wanted, generations_match=True) is Gate.CREDENTIALS


def test_changed_config_map_is_change_like_any_other() -> None:
    name = "ConfigMap eksa-system/authority"
    before, after = (mark(cluster(), datacenter(), data={name: {"ca.crt": value}}) for value in (b"rose", b"lily"))
    assert gate.state_of(before, after, generations_match=True) is Gate.OPEN
    assert before.count(":") == 1


def test_credentials_are_hashed_apart_from_content() -> None:
    before = mark(cluster(), datacenter(), credentials=ROSE)
    more = child("a", disk=20)
    assert gate.state_of(before, mark(cluster(), more, credentials=ROSE), generations_match=True) is Gate.OPEN
    assert gate.state_of(before, mark(cluster(), more, credentials=LILY), generations_match=True) is Gate.OPEN


def test_passwords_can_not_be_tried_without_the_key() -> None:
    result = mark(cluster(), datacenter(), credentials=ROSE)
    assert result != mark(cluster(), datacenter(), credentials=ROSE, key=b"guessed")
    other = cluster()
    other["metadata"]["name"] = "orchard"
    assert result.rpartition(":")[2] != mark(other, datacenter(), credentials=ROSE).rpartition(":")[2]


def test_missing_key_rolls_nothing() -> None:
    """It was restored without the key, or moved here: the gate opens for credentials alone."""
    before = mark(cluster(), datacenter(), credentials=ROSE)
    for key in (b"", b"another"):
        wanted = mark(cluster(), datacenter(), credentials=ROSE, key=key)
        assert gate.state_of(before, wanted, generations_match=False) is Gate.CREDENTIALS
    unknown = mark(cluster(), datacenter(), credentials=ROSE, key=b"")
    assert gate.state_of(unknown, unknown, generations_match=True) is Gate.CREDENTIALS


def test_finished_credentials_write_nothing_else() -> None:
    wanted = mark(cluster(), datacenter(), credentials=LILY)
    half_done = gate.opened(None, wanted, Gate.CREDENTIALS, exists=True)
    assert gate.state_of(half_done, wanted, generations_match=True) is Gate.CREDENTIALS
    back = mark(cluster(), datacenter(), credentials=ROSE)
    assert gate.state_of(half_done, back, generations_match=True) is Gate.CREDENTIALS
    more = mark(cluster(), child("a", disk=20), credentials=LILY)
    assert gate.state_of(half_done, more, generations_match=True) is Gate.OPEN


def test_change_tells_whether_the_cluster_existed() -> None:
    wanted = mark(cluster(), datacenter())
    assert gate.opened(None, wanted, Gate.OPEN, exists=False) == gate.OPENED
    assert gate.opened(None, wanted, Gate.OPEN, exists=True) == gate.CHANGING, "one that is adopted"
    assert gate.opened(wanted, wanted, Gate.OPEN, exists=True) == gate.CHANGING
    for begun in (gate.OPENED, gate.CHANGING):
        for exists in (True, False):
            assert gate.opened(begun, wanted, Gate.OPEN, exists=exists) == begun
        assert gate.state_of(begun, wanted, generations_match=True) is Gate.OPEN


def test_clusters_are_adopted_when_credentials_count() -> None:
    with_data, without = mark(cluster(), datacenter(), credentials=ROSE), mark(cluster(), datacenter())
    assert gate.state_of(without, with_data, generations_match=False) is Gate.ADOPTED
    assert gate.state_of(with_data, without, generations_match=False) is Gate.ADOPTED


KEYS = st.sampled_from(["a", "b", "c"])
CONTENT = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "a:b", '"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@given(st.dictionaries(KEYS, CONTENT, max_size=3), st.dictionaries(KEYS, CONTENT, max_size=3))
def test_hashes_are_equal_exactly_for_equal_content(tree: Tree, other: Tree) -> None:
    same = canonical(tree) == canonical(other)
    assert (mark(cluster(), child("a", **tree)) == mark(cluster(), child("a", **other))) == same


@pytest.mark.parametrize(
    ("value", "generations_match", "expected"),
    [
        ("v1:a", True, Gate.CLOSED),
        ("v1:a", False, Gate.CLOSED),  # a restore: the generations start anew
        ("v1:b", True, Gate.OPEN),  # a hidden change
        ("v1:b", False, Gate.OPEN),
        (gate.OPENED, True, Gate.OPEN),  # changed back in the middle
        (gate.OPENED, False, Gate.OPEN),
        (None, True, Gate.ADOPTED),
        (None, False, Gate.OPEN),
        ("v0:a", True, Gate.ADOPTED),
        ("v0:a", False, Gate.OPEN),
        ("", True, Gate.ADOPTED),
    ],
)
def test_where_a_cluster_stands(value: str | None, generations_match: bool, expected: Gate) -> None:
    assert gate.state_of(value, "v1:a", generations_match=generations_match) is expected


def consenting(patches: str) -> Tree:
    tree = cluster()
    tree["metadata"]["annotations"] = {metadata_keys.PATCHES_ANNOTATION: patches}
    return tree


def test_consent_is_content_but_not_its_spelling() -> None:
    assert mark(consenting("a"), datacenter()) != mark(cluster(), datacenter())
    assert mark(consenting("a"), datacenter()) != mark(consenting("a,b"), datacenter())
    assert mark(consenting("b, a"), datacenter()) == mark(consenting("a,b,a"), datacenter())
    assert mark(consenting(" ,"), datacenter()) == mark(cluster(), datacenter())


SAME = "same"


def seen(value: str | None = None, *, isolation: Isolation = Isolation.GATE, there: bool = True) -> Scope:
    """The scope of a reconcile of the example with such a content hash (`SAME`: that of its content)."""
    stored = objects() if there else []
    tree = example()[0]
    tree["status"] = settled()
    known = observer(tree, datacenter(), *stored).scope(as_object(tree).key)
    assert known is not None
    annotations = (
        {} if value is None else {metadata_keys.GATE_ANNOTATION: known.content_hash if value == SAME else value}
    )
    result = made(objects=stored, status=settled(), annotations=annotations)
    return replace(result, isolation=isolation)


def test_closed_gate_counts_only_if_there_is_one() -> None:
    assert seen(SAME).is_settled
    assert seen().is_settled
    assert not seen(gate.OPENED).is_settled
    assert not seen(SAME, isolation=Isolation.OFF).is_settled


def test_cluster_without_objects_is_not_adopted() -> None:
    assert seen(there=False).gate is Gate.OPEN
    assert seen(SAME, there=False).is_restored_without_objects
    assert not seen(SAME).is_restored_without_objects


def test_a_missing_child_is_not_what_was_reconciled() -> None:
    tree = example()[0]
    tree["metadata"]["annotations"] = {metadata_keys.GATE_ANNOTATION: gate.content_hash(as_object(tree), [])}
    scope = observer(tree).scope(as_object(tree).key)
    assert scope is not None
    assert scope.gate is Gate.OPEN
