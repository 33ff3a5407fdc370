"""To whom the objects of a technical ID in the seed belong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import NAMESPACE
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.project import Project
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.technical_ids import technical_ids
from tests.support.gardens.gardenlet_scopes import TECHNICAL_ID, an_object, shoot


def other(name: str, uid: str, technical_id: str = "", namespace: str = "garden-dev") -> Object:
    """Another Shoot."""
    status: Tree = {"uid": uid, **({"technicalID": technical_id} if technical_id else {})}
    return an_object(
        Shoot.resource, name, namespace, spec={"provider": {"type": "local"}, "seedName": "a"}, status=status
    )


def conflict(annotated: str | None, *others: Object, of: Object | None = None) -> str:
    """The problem of a shoot whose namespace in the seed is annotated with this UID."""
    shoots = [of or shoot(), *others]
    marks = {"annotations": {SHOOT_UID: annotated}} if annotated else {}
    namespace = an_object(NAMESPACE, TECHNICAL_ID, metadata=marks)
    observer = ShootObserver.__new__(ShootObserver)
    observer.seed_name = "a"
    by_index = lambda _index, value: [shoot for shoot in shoots if value in technical_ids(shoot)]  # noqa: E731
    garden = {Shoot.resource: SimpleNamespace(list=lambda: shoots, by_index=by_index)}
    observer.garden = cast(Any, {**garden, Project.resource: SimpleNamespace(list=list)})
    nothing = SimpleNamespace(get=lambda _key: None)
    observer.seed = cast(Any, {NAMESPACE: SimpleNamespace(get=lambda _key: namespace), Cluster.resource: nothing})
    return observer.technical_id_conflict(shoots[0])


@pytest.mark.parametrize(
    ("annotated", "others"),
    [
        ("2", [other("pear", "2")]),  # whatever its name is
        ("2", [other("pear", "3", TECHNICAL_ID)]),
    ],
    ids=["UID", "technical ID"],
)
def test_what_is_another_shoots_is_named_so(annotated: str, others: list[Object]) -> None:
    """Advice to change the UID would give one shoot what is another's."""
    assert "belongs to another shoot" in conflict(annotated, *others)


@pytest.mark.parametrize("others", [[], [other("pear", "3")]])
def test_a_uid_of_no_shoot_is_named_with_its_remedy(others: list[Object]) -> None:
    message = conflict("2", *others)
    assert message.startswith("status.uid: found 1, but Namespace shoot--dev--apple of seed a is annotated")


@pytest.mark.parametrize("annotated", [None, "1"])
def test_own_objects_are_no_conflict(annotated: str | None) -> None:
    assert conflict(annotated, other("pear", "2")) == ""


@pytest.mark.parametrize("annotated", [None, "1"])
def test_a_technical_id_stays_that_of_the_first_shoot(annotated: str | None) -> None:
    """Names of two shoots and their projects may give the same one; the other one's status claims it as well."""
    first, second = shoot(), other("apple", "2", TECHNICAL_ID, "garden-dev2")
    assert conflict(annotated, second, of=first) == ""


def test_a_new_shoot_gets_no_technical_id_of_another() -> None:
    new = an_object(
        Shoot.resource,
        "apple",
        "garden-dev",
        spec={"provider": {"type": "local"}, "seedName": "a"},
        status={"uid": "1"},
    )
    assert "belongs to another shoot" in conflict(None, other("apple", "2", TECHNICAL_ID, "garden-dev2"), of=new)
    assert conflict(None, other("pear", "2", "shoot--dev--pear"), of=new) == ""
