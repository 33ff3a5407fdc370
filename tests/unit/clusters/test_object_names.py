"""Names of objects of different Clusters, and who may write what has one: a sweep over pairs of names."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.cluster_objects.object_names import ClusterOwnership
from espalier.clusters.observe.observe import ClusterObserver, written
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import plan
from espalier.clusters.report.validity import problem
from espalier.kube.client import Client
from espalier.kube.errors import Conflict
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.providers.registry import PROVIDERS
from espalier.runtime.controllers.writer import NONEXISTENT_VERSION, NameTaken
from tests.support.objects.observed_clusters import applied, as_object, datacenter, example, observer

WORDS = ("core", "control", "plane", "1", "md-0")
"""Names are made of these: each cut of `core-control-plane-1-md-0` is a cluster and a group."""

Name = tuple[str, str]
"""Of a cluster, and of its worker node group."""


def cuts() -> Iterator[Name]:
    """Clusters and groups that, joined, may be the same; and others that look like them."""
    for order in (WORDS, ("core", "md-0", "1"), ("core", "control", "plane", "kcp", "unhealthy"), ("core", "plane")):
        for place in range(1, len(order)):
            yield "-".join(order[:place]), "-".join(order[place:])


NAMES = tuple(dict.fromkeys(cuts()))


def cluster(name: Name, namespace: str, made: str = "2026-01-01T00:00:00Z") -> Tree:
    tree = example(workerNodeGroupConfigurations=[{"name": name[1], "count": 2}])[0]
    metadata = {"name": name[0], "namespace": namespace, "uid": f"{namespace}/{name[0]}", "creationTimestamp": made}
    tree["metadata"] |= metadata
    tree["spec"]["datacenterRef"]["name"] = "garden"
    tree["spec"]["managementCluster"]["name"] = "laptop"
    return tree


def datacenters() -> list[Tree]:
    results = []
    for namespace in ("team-a", "team-b"):
        tree = datacenter()
        tree["metadata"] |= {"namespace": namespace, "uid": f"dc-{namespace}"}
        results.append(tree)
    return results


def scope(seen: ClusterObserver, name: Name, namespace: str) -> Scope:
    observed = seen.scope(Key(namespace, name[0]))
    assert observed is not None
    return observed


def rendered(value: Scope) -> list[Tree]:
    """Everything that is made of a Cluster which has nothing yet."""
    assert value.render_input is not None
    wanted = [
        *plan.control_plane(value.render_input, ClusterAPIObjects()),
        *plan.worker_groups(value.render_input, ClusterAPIObjects()),
    ]
    return [msgspec.to_builtins(item) for item in wanted]


def resource_of(tree: Tree) -> Resource:
    return next(item for item in written(PROVIDERS) if item.kind == tree["kind"])


def named(trees: Sequence[Tree]) -> set[tuple[str, str]]:
    return {(tree["kind"], tree["metadata"]["name"]) for tree in trees}


@pytest.fixture(scope="module")
def made() -> Mapping[Name, list[Tree]]:
    """The rendered objects for each name in `team-a`, as a server stores them."""
    results = {}
    for name in NAMES:
        trees = rendered(scope(observer(cluster(name, "team-a"), *datacenters()), name, "team-a"))
        results[name] = [applied(tree) for tree in trees]
    return results


def test_clusters_collide_when_they_share_a_series(
    made: Mapping[Name, list[Tree]],
) -> None:
    """Secrets of Cluster API included."""
    collisions = 0
    for item, other in itertools.combinations(NAMES, 2):
        secrets = set(object_names.secrets(item[0])) & set(object_names.secrets(other[0]))
        same = bool(named(made[item]) & named(made[other]) or secrets)
        common = set(object_names.series(item[0], [item[1]])) & set(object_names.series(other[0], [other[1]]))
        assert same == (bool(common) or item[0] == other[0]), (item, other)
        collisions += same
    assert 10 < collisions < len(NAMES) * (len(NAMES) - 1) / 2


def test_every_rendered_name_is_observed(made: Mapping[Name, list[Tree]]) -> None:
    for name, trees in made.items():
        for tree in trees:
            resource = resource_of(tree)
            assert tree["metadata"]["name"] in object_names.needed(name[0], [name[1]], resource, ())


@pytest.mark.demand(L58="names of objects of different clusters")
@pytest.mark.parametrize("victim_is_older", [True, False])
def test_existing_objects_keep_their_names(made: Mapping[Name, list[Tree]], victim_is_older: bool) -> None:
    ages = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    for item, other in itertools.permutations(NAMES, 2):
        if item[0] == other[0]:
            continue  # names of Clusters are unique: another rule
        common = named(made[item]) & named(made[other])
        victim, late = (
            cluster(item, "team-a", ages[not victim_is_older]),
            cluster(other, "team-b", ages[victim_is_older]),
        )
        seen = observer(victim, late, *datacenters(), *made[item])
        assert problem(scope(seen, item, "team-a")) is None, (item, other)
        result = problem(scope(seen, other, "team-b"))
        assert (result is not None) == bool(common), (item, other)
        if result is not None:
            assert result.reason == "ClusterNameTaken"
            assert f"team-a/{item[0]}" in result.message
            assert "choose" in result.message


@pytest.mark.soak
def test_earlier_cluster_gets_the_free_names(made: Mapping[Name, list[Tree]]) -> None:
    for item, other in itertools.combinations(NAMES, 2):
        if item[0] == other[0]:
            continue
        older, later = cluster(item, "team-b"), cluster(other, "team-a", "2026-01-02T00:00:00Z")
        seen = observer(older, later, *datacenters())
        assert problem(scope(seen, item, "team-b")) is None
        result = problem(scope(seen, other, "team-a"))
        assert (result is not None) == bool(named(made[item]) & named(made[other])), (item, other)
        assert result is None or result.reason == "ClusterNameTaken"


@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {"labels": {"cluster.x-k8s.io/cluster-name": "garden"}},
        {"labels": names.labels(Key("team-b", "other"))},
        {
            "labels": names.labels(Key("team-a", "garden")),
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "other", "uid": "u"}
            ],
        },
    ],
    ids=["nobody's", "labelled for Cluster API", "another's", "ours by label, of another Cluster of Cluster API"],
)
def test_foreign_object_stops_the_cluster_unwritten(foreign: Tree) -> None:
    garden = cluster(("garden", "md-0"), "team-a")
    for tree in rendered(scope(observer(garden, *datacenters()), ("garden", "md-0"), "team-a")):
        theirs = {**tree, "metadata": {"name": tree["metadata"]["name"], "namespace": "eksa-system", "uid": "x"}}
        theirs["metadata"] |= foreign
        observed = scope(observer(garden, *datacenters(), theirs), ("garden", "md-0"), "team-a")
        stopped = problem(observed)
        assert stopped is not None, theirs["kind"]
        assert stopped.reason == "ClusterNameTaken"
        assert f"{theirs['kind']}." in stopped.message
        assert theirs["metadata"]["name"] in stopped.message
        assert observed.capi_objects.of(resource_of(tree)) == {}


def test_objects_that_look_like_its_own_stop_a_cluster() -> None:
    garden = cluster(("garden", "md-0"), "team-a")
    for key in object_names.secrets("garden"):
        labels = {"cluster.x-k8s.io/cluster-name": "garden"}
        metadata: Tree = {**key._asdict(), "uid": "s", "labels": labels}
        secret: Tree = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        stopped = problem(scope(observer(garden, *datacenters(), secret), ("garden", "md-0"), "team-a"))
        assert stopped is not None
        assert (stopped.reason, key.name in stopped.message) == ("ClusterNameTaken", True)
        secret["metadata"]["labels"] |= names.labels(Key("team-a", "garden"))  # an administrator means it
        assert problem(scope(observer(garden, *datacenters(), secret), ("garden", "md-0"), "team-a")) is None


class Recorder:
    """A server that agrees to everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(200, request.body)

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError(request.path)

    async def close(self) -> None: ...


@pytest.mark.soak
def test_foreign_object_gets_no_write_and_is_named() -> None:
    """By whatever way a change comes to the writer."""
    garden, mine = cluster(("garden", "md-0"), "team-a"), ClusterOwnership(Key("team-a", "garden"), "")
    trees = rendered(scope(observer(garden, *datacenters()), ("garden", "md-0"), "team-a"))

    async def story() -> None:
        for tree in trees:
            resource = resource_of(tree)
            theirs = {**tree, "metadata": {**tree["metadata"], "uid": "theirs", "resourceVersion": "9"}}
            theirs["metadata"]["labels"] = names.labels(Key("team-b", "other"))
            server = Recorder()
            seen = observer(garden, theirs)
            writer = seen.writer(Client(server))
            with pytest.raises(NameTaken, match="made for Cluster team-b/other"):
                await writer.apply(resource, tree, mine)
            with pytest.raises(NameTaken, match="made for Cluster team-b/other"):
                await writer.delete(resource, as_object(tree), mine)
            unseen = observer(garden)
            gone = unseen.writer(Client(server))
            with pytest.raises(NameTaken, match="made for Cluster team-b/other"):
                await gone.delete(resource, as_object(theirs), mine)
            assert server.asked == []
            for there, expected in ((False, {"resourceVersion": NONEXISTENT_VERSION}), (True, {"uid": "ours"})):
                ours = {**tree, "metadata": {**tree["metadata"], "uid": "ours", "resourceVersion": "9"}}
                seen = observer(garden, *([ours] if there else []))
                await seen.writer(Client(server)).apply(resource, tree, mine)
                metadata = json.loads(server.asked.pop().body)["metadata"]
                assert {name: metadata.get(name) for name in expected} == expected

    asyncio.run(story())


def test_object_made_anew_by_somebody_else_is_conflict() -> None:
    """As API servers say it of an apply: the uid is immutable."""
    garden = cluster(("garden", "md-0"), "team-a")
    tree = rendered(scope(observer(garden, *datacenters()), ("garden", "md-0"), "team-a"))[0]
    resource = resource_of(tree)
    cause = {"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}
    status = {"kind": "Status", "reason": "Invalid", "code": 422, "details": {"causes": [cause]}}

    class Refusing(Recorder):
        async def request(self, request: Request) -> Response:
            return Response(422, json.dumps(status).encode())

    async def story() -> None:
        ours = {**tree, "metadata": {**tree["metadata"], "uid": "ours", "resourceVersion": "9"}}
        seen = observer(garden, ours)
        writer = seen.writer(Client(Refusing()))
        with pytest.raises(Conflict, match="recreated by somebody else"):
            await writer.apply(resource, tree, ClusterOwnership(Key("team-a", "garden"), ""))

    asyncio.run(story())
