"""New objects whose bodies are strange."""

from __future__ import annotations

import json

from tests.contracts.edge_cases.requests import DRY, GROUP, MAPS, ODDITIES, Ask, configured, odd

_owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "here", "uid": "1"}
BODIES = (
    Ask("no body", "POST", MAPS),
    Ask("a body of null", "POST", MAPS, "null"),
    Ask("a list for an object", "POST", MAPS, []),
    Ask("text for an object", "POST", MAPS, '"text"'),
    Ask("a number for an object", "POST", MAPS, "5"),
    Ask("half an object", "POST", MAPS, "{"),
    Ask("an empty object", "POST", MAPS, {}),
    Ask("bytes that are no text", "POST", MAPS, b"\xff\xfe\x00"),
    Ask("text after an object", "POST", MAPS + DRY, json.dumps(configured()) + " and more"),
    Ask("another kind", "POST", MAPS, {**configured(), "kind": "Secret"}),
    Ask("a kind that is not there", "POST", MAPS, {**configured(), "kind": "Nowhere"}),
    Ask("another version", "POST", MAPS, {**configured(), "apiVersion": "apps/v1"}),
    Ask("a version that is not there", "POST", MAPS, {**configured(), "apiVersion": "nowhere.example.com/v1"}),
    Ask("a version of three parts", "POST", MAPS, {**configured(), "apiVersion": "a/b/c"}),
    Ask("a kind that is a number", "POST", MAPS, {**configured(), "kind": 5}),
    Ask("a version of null", "POST", MAPS + DRY, {**configured(), "apiVersion": None}),
    Ask("neither kind nor version", "POST", MAPS + DRY, {"metadata": {"name": "strange"}}),
    Ask("another custom kind", "POST", ODDITIES, {**odd(), "kind": "Nowhere"}),
    Ask("another custom version", "POST", ODDITIES, {**odd(), "apiVersion": f"{GROUP}/v7"}),
    Ask("a built-in kind at a custom path", "POST", ODDITIES, configured()),
    Ask("a custom object without kind", "POST", ODDITIES, {"metadata": {"name": "strange"}}),
    Ask("half a custom object", "POST", ODDITIES, "{"),
    Ask(
        "a number beyond any other", "POST", ODDITIES, json.dumps({**odd(), "spec": {"n": "@"}}).replace('"@"', "1e400")
    ),
    Ask("an integer beyond 64 bits", "POST", ODDITIES, odd(spec={"size": "small", "replicas": 2**63})),
    Ask("a custom object that is a list", "POST", ODDITIES, []),
    Ask("no metadata", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap"}),
    Ask("metadata of null", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None}),
    Ask("metadata that are a list", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}),
    Ask("a name that is a number", "POST", MAPS, configured(name=5)),
    Ask("an illegal name", "POST", MAPS, configured(name="Strange_one")),
    Ask("a name that is too long", "POST", MAPS, configured(name="a" * 254)),
    Ask("a name that goes up", "POST", MAPS, configured(name="..")),
    Ask("a base of names that is illegal", "POST", MAPS, configured(name="", generateName="Strange_")),
    Ask("another namespace", "POST", MAPS, configured(namespace="default")),
    Ask(
        "a namespace that is not there, in body and path", "POST", "/api/v1/namespaces/absent/configmaps", configured()
    ),
    Ask("an illegal label", "POST", MAPS, configured(labels={"a b": "c d"})),
    Ask("a label that is a number", "POST", MAPS, configured(labels={"a": 5})),
    Ask("a prefix of a label that is illegal", "POST", MAPS, configured(labels={"/a": "b", "B_/a": "b"})),
    Ask("a label that is too long", "POST", MAPS, configured(labels={"a" * 64: "b" * 64, "b" * 254 + "/a": ""})),
    Ask("an illegal annotation", "POST", MAPS, configured(annotations={"a b": "c d"})),
    Ask("annotations that are too large", "POST", MAPS, configured(annotations={"a": "b" * 262144})),
    Ask("an owner without uid", "POST", MAPS, configured(ownerReferences=[{**_owner, "uid": ""}])),
    Ask("an owner without anything", "POST", MAPS, configured(ownerReferences=[{}])),
    Ask(
        "two controllers",
        "POST",
        MAPS,
        configured(ownerReferences=[{**_owner, "uid": u, "controller": True} for u in "12"]),
    ),
    Ask("a finalizer without a prefix", "POST", MAPS, configured(finalizers=["plain"])),
    Ask("an illegal finalizer", "POST", MAPS, configured(finalizers=["a b"])),
    Ask("a resource version", "POST", MAPS, configured(resourceVersion="1")),
    Ask("a uid of one's own", "POST", MAPS + DRY, configured(uid="mine")),
    Ask("data that are numbers", "POST", MAPS, configured({"a": 5})),
    Ask("data that are a list", "POST", MAPS, configured([])),
    Ask("an illegal key", "POST", MAPS, configured({"a/b": ""})),
    Ask("a key that is a dot", "POST", MAPS, configured({".": "", "..": "", "..a": ""})),
    Ask("an absolute path as key", "POST", MAPS, configured({"/etc/passwd": ""})),
    Ask("a key that is too long", "POST", MAPS, configured({"a" * 254: ""})),
    Ask("a key twice", "POST", MAPS, {**configured({"a": ""}), "binaryData": {"a": ""}}),
    Ask("binary data that are no base64", "POST", MAPS, {**configured(), "binaryData": {"a": "%"}}),
    Ask("a map that is too large", "POST", MAPS, configured({"a": "b" * 1048577})),
    Ask("an unknown field, strictly", "POST", f"{MAPS}?fieldValidation=Strict", {**configured(), "date": {}}),
    Ask("a field twice, strictly", "POST", f"{MAPS}?fieldValidation=Strict", '{"metadata":{"name":"a","name":"b"}}'),
    Ask("a way to validate that is not there", "POST", f"{MAPS}?fieldValidation=Maybe", configured()),
    Ask(
        "an unknown custom field, strictly",
        "POST",
        f"{ODDITIES}?fieldValidation=Strict",
        odd(spec={"size": "small", "a": 1}),
    ),
    Ask("an object that is there", "POST", MAPS, configured(name="here")),
    Ask("a custom object that is there", "POST", ODDITIES, odd("here")),
    Ask("an object that is there and illegal", "POST", MAPS, configured({"/": ""}, name="here")),
)
