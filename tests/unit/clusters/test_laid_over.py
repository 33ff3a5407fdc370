"""An object as it is after the desired one was applied."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.clusters.design import names
from espalier.clusters.design.drift import ownership
from espalier.kube.objects import Object


def live(spec: Tree, fields: Tree) -> Object:
    """An object of whose spec we applied these fields."""
    entry = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": fields}}
    metadata = {"name": "one", "managedFields": [entry]}
    return Object(msgspec.json.encode({"kind": "Thing", "metadata": metadata, "spec": spec}))


def after(object_: Object, spec: Tree) -> Any:
    return ownership.after_apply(object_, {"metadata": {"name": "one"}, "spec": spec})["spec"]


def test_fields_of_others_stay_and_unrendered_ours_go() -> None:
    result = live({"ours": 1, "left": 2, "theirs": {"deep": 3}}, {"f:ours": {}, "f:left": {}})
    assert after(result, {"ours": 4}) == {"ours": 4, "theirs": {"deep": 3}}


def test_value_of_another_form_replaces_list_with_keys() -> None:
    result = live({"items": [{"name": "a"}]}, {"f:items": {'k:{"name":"a"}': {}}})
    assert after(result, {"items": "none"}) == {"items": "none"}


def test_list_items_of_others_stay_by_all_their_keys() -> None:
    tcp, udp = {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}
    theirs = {"port": 80, "protocol": "TCP"}
    keys = ['k:{"port":53,"protocol":"TCP"}', 'k:{"port":53,"protocol":"UDP"}']
    result = live({"ports": [tcp | {"by": "others"}, udp, theirs]}, {"f:ports": {key: {} for key in keys}})
    assert after(result, {"ports": [tcp | {"name": "dns"}]}) == {
        "ports": [tcp | {"by": "others", "name": "dns"}, theirs]
    }


def test_an_object_that_is_as_desired_stays_as_it_is() -> None:
    spec = {"list": [{"name": "b"}, {"name": "a"}], "map": {"z": 1, "a": 2}}
    assert list(after(live(spec, {}), spec)["map"]) == ["z", "a"]
