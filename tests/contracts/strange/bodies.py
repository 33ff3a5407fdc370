"""New objects whose bodies are strange."""

from __future__ import annotations

import json

from tests.contracts.strange.requests import DRY, GROUP, MAPS, ODDITIES, RequestInfo, configured, odd

_owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "here", "uid": "1"}
BODIES = (
    RequestInfo("no body", "POST", MAPS),
    RequestInfo("a body of null", "POST", MAPS, "null"),
    RequestInfo("a list for an object", "POST", MAPS, []),
    RequestInfo("text for an object", "POST", MAPS, '"text"'),
    RequestInfo("a number for an object", "POST", MAPS, "5"),
    RequestInfo("half an object", "POST", MAPS, "{"),
    RequestInfo("an empty object", "POST", MAPS, {}),
    RequestInfo("bytes that are no text", "POST", MAPS, b"\xff\xfe\x00"),
    RequestInfo("text after an object", "POST", MAPS + DRY, json.dumps(configured()) + " and more"),
    RequestInfo("another kind", "POST", MAPS, {**configured(), "kind": "Secret"}),
    RequestInfo("a kind that is not there", "POST", MAPS, {**configured(), "kind": "Nowhere"}),
    RequestInfo("another version", "POST", MAPS, {**configured(), "apiVersion": "apps/v1"}),
    RequestInfo("a version that is not there", "POST", MAPS, {**configured(), "apiVersion": "nowhere.example.com/v1"}),
    RequestInfo("a version of three parts", "POST", MAPS, {**configured(), "apiVersion": "a/b/c"}),
    RequestInfo("a kind that is a number", "POST", MAPS, {**configured(), "kind": 5}),
    RequestInfo("neither kind nor version", "POST", MAPS + DRY, {"metadata": {"name": "strange"}}),
    RequestInfo("another custom kind", "POST", ODDITIES, {**odd(), "kind": "Nowhere"}),
    RequestInfo("another custom version", "POST", ODDITIES, {**odd(), "apiVersion": f"{GROUP}/v7"}),
    RequestInfo("a built-in kind at a custom path", "POST", ODDITIES, configured()),
    RequestInfo("a custom object without kind", "POST", ODDITIES, {"metadata": {"name": "strange"}}),
    RequestInfo("half a custom object", "POST", ODDITIES, "{"),
    RequestInfo("a custom object that is a list", "POST", ODDITIES, []),
    RequestInfo("no metadata", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap"}),
    RequestInfo("metadata of null", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None}),
    RequestInfo("metadata that are a list", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}),
    RequestInfo("a name that is a number", "POST", MAPS, configured(name=5)),
    RequestInfo("an illegal name", "POST", MAPS, configured(name="Strange_one")),
    RequestInfo("a name that is too long", "POST", MAPS, configured(name="a" * 254)),
    RequestInfo("a name that goes up", "POST", MAPS, configured(name="..")),
    RequestInfo("a base of names that is illegal", "POST", MAPS, configured(name="", generateName="Strange_")),
    RequestInfo("another namespace", "POST", MAPS, configured(namespace="default")),
    RequestInfo(
        "a namespace that is not there, in body and path", "POST", "/api/v1/namespaces/absent/configmaps", configured()
    ),
    RequestInfo("an illegal label", "POST", MAPS, configured(labels={"a b": "c d"})),
    RequestInfo("a label that is a number", "POST", MAPS, configured(labels={"a": 5})),
    RequestInfo("a prefix of a label that is illegal", "POST", MAPS, configured(labels={"/a": "b", "B_/a": "b"})),
    RequestInfo(
        "a label that is too long", "POST", MAPS, configured(labels={"a" * 64: "b" * 64, "b" * 254 + "/a": ""})
    ),
    RequestInfo("an illegal annotation", "POST", MAPS, configured(annotations={"a b": "c d"})),
    RequestInfo("annotations that are too large", "POST", MAPS, configured(annotations={"a": "b" * 262144})),
    RequestInfo("an owner without uid", "POST", MAPS, configured(ownerReferences=[{**_owner, "uid": ""}])),
    RequestInfo("an owner without anything", "POST", MAPS, configured(ownerReferences=[{}])),
    RequestInfo(
        "two controllers",
        "POST",
        MAPS,
        configured(ownerReferences=[{**_owner, "uid": u, "controller": True} for u in "12"]),
    ),
    RequestInfo("a finalizer without a prefix", "POST", MAPS, configured(finalizers=["plain"])),
    RequestInfo("an illegal finalizer", "POST", MAPS, configured(finalizers=["a b"])),
    RequestInfo("a resource version", "POST", MAPS, configured(resourceVersion="1")),
    RequestInfo("a uid of one's own", "POST", MAPS + DRY, configured(uid="mine")),
    RequestInfo("data that are numbers", "POST", MAPS, configured({"a": 5})),
    RequestInfo("data that are a list", "POST", MAPS, configured([])),
    RequestInfo("an illegal key", "POST", MAPS, configured({"a/b": ""})),
    RequestInfo("a key that is a dot", "POST", MAPS, configured({".": "", "..": "", "..a": ""})),
    RequestInfo("an absolute path as key", "POST", MAPS, configured({"/etc/passwd": ""})),
    RequestInfo("a key that is too long", "POST", MAPS, configured({"a" * 254: ""})),
    RequestInfo("a key twice", "POST", MAPS, {**configured({"a": ""}), "binaryData": {"a": ""}}),
    RequestInfo("binary data that are no base64", "POST", MAPS, {**configured(), "binaryData": {"a": "%"}}),
    RequestInfo("a map that is too large", "POST", MAPS, configured({"a": "b" * 1048577})),
    RequestInfo("an unknown field, strictly", "POST", f"{MAPS}?fieldValidation=Strict", {**configured(), "date": {}}),
    RequestInfo(
        "a field twice, strictly", "POST", f"{MAPS}?fieldValidation=Strict", '{"metadata":{"name":"a","name":"b"}}'
    ),
    RequestInfo("a way to validate that is not there", "POST", f"{MAPS}?fieldValidation=Maybe", configured()),
    RequestInfo(
        "an unknown custom field, strictly",
        "POST",
        f"{ODDITIES}?fieldValidation=Strict",
        odd(spec={"size": "small", "a": 1}),
    ),
    RequestInfo("an object that is there", "POST", MAPS, configured(name="here")),
    RequestInfo("a custom object that is there", "POST", ODDITIES, odd("here")),
    RequestInfo("an object that is there and illegal", "POST", MAPS, configured({"/": ""}, name="here")),
)
