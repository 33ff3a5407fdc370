"""Bodies in protobuf: what typed clients write becomes the JSON that they mean."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.apiserver.builtin import builtin
from espalier.apiserver.wire.protobuf import PREFIX, Malformed, json_of, tree_of

Wire = dict[int, Any]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def message(fields: Wire) -> bytes:
    """Encodes numbers, floats, texts, bytes, messages, and lists of them."""
    encoded = b""
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, float):
                encoded += varint(number << 3 | 1) + struct.pack("<d", value)
            elif isinstance(value, int):
                encoded += varint(number << 3) + varint(value)
            else:
                content = value.encode() if isinstance(value, str) else value
                content = message(content) if isinstance(content, dict) else content
                encoded += varint(number << 3 | 2) + varint(len(content)) + content
    return encoded


def body(api_version: str, kind: str, fields: Wire) -> bytes:
    return PREFIX + message({1: {1: api_version, 2: kind}, 2: fields, 3: "", 4: ""})


def content(api_version: str, kind: str, fields: Wire) -> dict[str, Any]:
    tree = tree_of(body(api_version, kind, fields))
    assert (tree.pop("apiVersion"), tree.pop("kind")) == (api_version, kind)
    return tree


def test_a_secret() -> None:
    # Zero values of plain fields come over the wire and are no values in JSON.
    metadata = {1: "s", 2: "", 5: "", 7: 0, 8: b"", 11: [{1: "a", 2: "b"}, {1: "c", 2: "d"}]}
    secret = content("v1", "Secret", {1: metadata, 2: {1: "password", 2: b"hunter2"}, 3: "Opaque", 5: 0})
    assert secret == {
        "metadata": {"name": "s", "labels": {"a": "b", "c": "d"}},
        "data": {"password": base64.b64encode(b"hunter2").decode()},
        "type": "Opaque",
        "immutable": False,  # behind a pointer, so false was said
    }


def test_deployment_with_quantities_ports_and_volumes() -> None:
    container = {
        1: "web",
        2: "web:1",
        6: {1: "http", 3: 8080, 4: "TCP"},
        8: {1: [{1: "cpu", 2: {1: "100m"}}], 2: [{1: "memory", 2: {1: "1Gi"}}]},
        10: {1: {2: {1: "/ready", 2: {1: 1, 2: 0, 3: "http"}}}, 2: 5},
    }
    volume = {1: "certificates", 2: {6: {1: "certificates"}}}
    template = {1: {}, 2: {1: volume, 2: container, 4: 0}}
    deployment = content("apps/v1", "Deployment", {1: {1: "d"}, 2: {1: 0, 2: {1: [{1: "app", 2: "web"}]}, 3: template}})
    assert deployment["spec"] == {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "spec": {
                "volumes": [{"name": "certificates", "secret": {"secretName": "certificates"}}],
                "containers": [
                    {
                        "name": "web",
                        "image": "web:1",
                        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "100m"}, "requests": {"memory": "1Gi"}},
                        "livenessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "initialDelaySeconds": 5},
                    }
                ],
                "terminationGracePeriodSeconds": 0,
            }
        },
    }


def test_a_lease_has_times_to_the_microsecond() -> None:
    seconds = int(datetime.fromisoformat("2026-11-21T10:00:00+00:00").timestamp())
    lease = content("coordination.k8s.io/v1", "Lease", {1: {1: "l"}, 2: {1: "me", 4: {1: seconds, 2: 123_456_789}}})
    assert lease["spec"] == {"holderIdentity": "me", "renewTime": "2026-11-21T10:00:00.123456Z"}


def test_a_schema_in_a_definition() -> None:
    items = {1: {5: "string", 20: [{1: b'"a"'}, {1: b'{"b":1}'}]}}
    size = {5: "number", 9: 2.5, 8: {1: b"1"}}
    schema = {5: "object", 29: [{1: "list", 2: {5: "array", 24: items}}, {1: "size", 2: size}], 30: {1: 0, 2: {5: "x"}}}
    version = {1: "v1", 2: 1, 3: 1, 4: {1: schema}}
    definition = content("apiextensions.k8s.io/v1", "CustomResourceDefinition", {2: {1: "example.org", 7: version}})
    (served,) = definition["spec"]["versions"]
    assert served["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string", "enum": ["a", {"b": 1}]}},
            "size": {"type": "number", "maximum": 2.5, "default": 1},
        },
        "additionalProperties": {"type": "x"},
    }


def test_options_of_deletion_are_known_in_every_group() -> None:
    for version in ("v1", "apps/v1"):
        assert content(version, "DeleteOptions", {1: 0, 4: "Foreground"}) == {
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground",
        }


def test_every_built_in_kind_can_be_read() -> None:
    for kind in builtin.KINDS:
        tree = tree_of(body(kind.resource.api_version, kind.resource.kind, {1: {1: "x"}}))
        assert tree["metadata"]["name"] == "x"


def test_fields_of_a_newer_kubernetes_are_passed_over() -> None:
    assert content("v1", "ConfigMap", {1: {1: "x"}, 1000: "new", 1001: 5, 1002: 1.5}) == {"metadata": {"name": "x"}}


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{}",
        PREFIX + b"\xff",
        PREFIX + b"\x0b",
        PREFIX + b"\x0a\xff\x01",
        body("v1", "Cluster", {}),
        body("v1", "ConfigMap", {1: 5}),
        body("v1", "ConfigMap", {1: {1: b"\xff"}}),
        body("v1", "Event", {6: {1: 1 << 62}}),
        body("apps/v1", "ControllerRevision", {2: {1: b"{"}}),
    ],
)
def test_an_invalid_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        tree_of(wrong)


def test_schema_that_contains_itself_is_refused() -> None:
    schema: Wire = {5: "string"}
    for _ in range(150):
        schema = {26: schema}
    with pytest.raises(Malformed, match="nested"):
        content("apiextensions.k8s.io/v1", "CustomResourceDefinition", {2: {7: {4: {1: schema}}}})


@given(st.binary(max_size=200))
def test_noise_is_read_or_refused_and_nothing_else(noise: bytes) -> None:
    for wire in (PREFIX + noise, PREFIX + message({1: {1: "v1", 2: "Pod"}, 2: noise})):
        with contextlib.suppress(Malformed):
            json.loads(json_of(wire))


@given(st.dictionaries(st.text(min_size=1), st.text()), st.integers(-(1 << 63), (1 << 63) - 1))
def test_texts_and_numbers_come_as_they_went(data: dict[str, str], number: int) -> None:
    fields = [{1: key, 2: value} for key, value in data.items()]
    assert content("v1", "ConfigMap", {2: fields}).get("data", {}) == data
    event = content("v1", "Event", {8: number})
    assert event.get("count", 0) == number
