"""Every parser that reads what strangers wrote: what it is fed with, and what it may answer.

A target takes one input and either returns or raises one of its own errors. Anything else is a finding: another
exception, a second of CPU, half a gigabyte, the end of the process.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

from espalier.api.core import CONFIG_MAP, POD
from espalier.api.manifests import manifests
from espalier.api.text import durations, paths, versions
from espalier.api.text.violations import ManifestError
from espalier.api.trees import json_path, json_trees, scalars, yaml_trees
from espalier.apiserver.builtin import builtin
from espalier.apiserver.core import reading
from espalier.apiserver.documents import definitions
from espalier.apiserver.fields import patches
from espalier.apiserver.fields.json_patch import json_patch as apply_json_patch
from espalier.apiserver.requests import selectors
from espalier.apiserver.schema import rules, validation
from espalier.apiserver.schema.expressions import cel, cel_values
from espalier.apiserver.schema.pruning import Pruner
from espalier.apiserver.schema.registry import Registry
from espalier.apiserver.wire import content, protobuf
from espalier.clusters.observe.rules.control_planes import api_server
from espalier.etcdbackup.snapshots import names, verification
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.kube import fields
from espalier.kube.connection import pki
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError
from espalier.kube.errors import ApiError, error_of
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply import managed_fields
from espalier.kube.server_side_apply.structure import node_of
from espalier.providers.kinds import CATALOG, hardware_manifest
from espalier.providers.snow.checks import signed
from espalier.providers.snow.references import keys_of
from espalier.releases.distro import Image
from espalier.runtime.caches import selectors as labels
from espalier.runtime.clock import SystemClock
from espalier.runtime.servers import admission
from espalier.simulator import addons, bootstrap_data
from espalier.upgrades import expected
from tests.hostile import requests


@dataclass(frozen=True)
class Target:
    """A parser. `bombs` are inputs that once did, or would, end it; they come before what is made up."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], object]
    refusals: tuple[type[Exception], ...] = ()
    bombs: tuple[Any, ...] = ()


MANY = 40_000
scalar = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
name = st.sampled_from(
    ["a", "metadata", "name", "spec", "kind", "apiVersion", "rules", "items", "data", "$patch", "containers", "", "a/b"]
)
tree = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(name | st.text(max_size=8), inner, max_size=4)
)
an_object = st.dictionaries(name, tree, max_size=5)

CSV_HEADS = ("", "hostname,mac,ip_address,netmask,gateway,nameservers,labels,disk,bmc_ip,bmc_password,vlan_id\n")
CSV_BITS = ["a", "a=b", "192.0.2.1", "255.255.255.0", "3c:ec:ef:45:67:89", "/dev/sda", *'",|=\n\r\t \x00']

YAML_BITS = st.lists(
    st.sampled_from(
        [*"[]{}:,-?&*!|>'\"%@`#~ \n\t", "a", "0x1", "<<", "---", "\n  ", ": ", "- ", "? ", "&a ", "*a", "\x00"]
    ),
    max_size=200,
).map("".join)
NESTED = ("[" * MANY, "- " * MANY, "? " * MANY, "{a: " * MANY, "[" * 200 + "]" * 200, '{"a":' * MANY, "!" * MANY)
ALIASES = "\n".join(["- &a0 {x: 1}", *(f"- &a{i} {{<<: *a{i - 1}}}" for i in range(1, 2000))])
LAUGHS = "a0: &a0 [x,x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1},*a{i - 1},*a{i - 1}]" for i in range(1, 40))
NUMBERS = tuple(f"a: {sign}{digits}" for sign in ("", "-", "0x", "1e") for digits in ("9" * 400, "9" * 5000))
yaml_text = YAML_BITS | st.text(max_size=200) | tree.map(lambda value: json.dumps(value, indent=1))
YAML_TRAPS = (*NESTED, *NUMBERS)
YAML_BOMBS = (*YAML_TRAPS, ALIASES, LAUGHS, "a: 1\n" * 200_000, "k: " + "x y " * 200_000)
"""For the two that read YAML itself; all others read it through them, as `test_nobody_else_reads_yaml` says."""

EC2_TAGS = [
    "imagesSet",
    "item",
    "imageId",
    "instanceTypeSet",
    "vCpuInfo",
    "defaultVCpus",
    "Errors",
    "Error",
    "Code",
    "a",
]
EC2_BITS = st.lists(
    st.sampled_from([*(f"<{tag}>" for tag in EC2_TAGS), *(f"</{tag}>" for tag in EC2_TAGS), "<a/>", "1", "&lt;", "]]>"])
    | st.text(max_size=3),
    max_size=60,
).map(lambda bits: "".join(bits).encode("utf-8", "surrogatepass")) | st.binary(max_size=60)
EC2_BOMBS = (
    b"<a>" * MANY + b"</a>" * MANY,
    b"<a><imagesSet>" + b"<item>" * MANY + b"</item>" * MANY + b"</imagesSet></a>",
    b"<a><Errors><Error>" + b"<Code>" * MANY + b"</Code>" * MANY + b"</Error></Errors></a>",
    b"<a><imagesSet>" + b"<item/>" * MANY + b"</imagesSet></a>",
    b'<!DOCTYPE a [<!ENTITY b "' + b"b" * MANY + b'">]><a>' + b"&b;" * MANY + b"</a>",
    b"<a " + b"b=''" * MANY + b"/>",
    b"<a><instanceTypeSet><item><vCpuInfo><defaultVCpus>" + b"9" * 5000 + b"</defaultVCpus></vCpuInfo></item>"
    b"</instanceTypeSet></a>",
)

json_text = st.one_of(
    st.binary(max_size=200),
    tree.map(encode_json),
    st.lists(st.sampled_from([*'[]{}:,"\\ue0', "true", '"a"', "\\ud800", "1e9"]), max_size=100).map(
        lambda bits: "".join(bits).encode()
    ),
)
JSON_BOMBS = (
    *(text.encode() for text in NESTED),
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 500 + b"1" + b"}" * 500,
    b'"' + b"\\\\" * MANY + b'"',
    b'{"kind":"X","metadata":{"name":' + b"[" * MANY + b"]" * MANY + b"}}",
    b"9" * 5000,
    b"1e999",
    b'"\\ud800"',
)


def _yaml(text: str) -> None:
    for value in yaml_trees.trees(text, "fuzz"):
        json_trees.decode(encode_json(value))


def _manifests(text: str) -> None:
    manifests.check(manifests.read_manifests(text, source="fuzz"), CATALOG)


def _kubeconfig(text: str) -> None:
    config = Kubeconfig.parse(text.encode("utf-8", "surrogatepass"))
    config.to_bytes()
    config.context()


def _json(text: bytes) -> None:
    json_trees.decode(encode_json(json_trees.decode(text)))


POD_NODE = builtin.node("io.k8s.api.core.v1.Pod")
A_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]},
}
pointer = st.lists(
    st.sampled_from(["metadata", "name", "spec", "containers", "0", "-", "x", "~1", "~", "-1", "99", ""]), max_size=5
).map(lambda steps: "".join(f"/{step}" for step in steps))
operation = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": pointer},
    optional={"from": pointer, "value": tree},
)
json_patch = st.lists(operation | tree, max_size=12) | tree
DOUBLING = [{"op": "add", "path": "/x", "value": ["a" * 100]}, *([{"op": "copy", "from": "/x", "path": "/x/-"}] * 60)]
DEEPENING = [{"op": "add", "path": "/x" * depth, "value": {}} for depth in range(1, 600)]
pod_patch = st.dictionaries(
    st.sampled_from(["metadata", "spec", "kind", "$patch", "$retainKeys", "status"]),
    st.recursive(
        tree,
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["containers", "name", "env", "$patch", "$setElementOrder/containers", "$deleteFromPrimitiveList/x"]
            ),
            inner | st.lists(inner, max_size=3),
            max_size=4,
        ),
    ),
    max_size=4,
)


def _strategic(patch: Any) -> None:
    encode_json(patches.strategic(A_POD, patch, POD_NODE))


def _apply(config: dict[str, Any]) -> None:
    """As a write goes: pruned and defaulted by the schema, then laid over what is there."""
    applied = json_trees.decode(encode_json({**config, "metadata": {"name": "a"}}))
    pruner = Pruner(POD_NODE, typed=False)
    pruner.object(json_trees.decode(encode_json(applied)), POD_NODE)
    if pruner.unknown or pruner.causes:
        return
    me = managed_fields.Manager("me", "Apply", "v1", "")
    new, owners = managed_fields.apply(A_POD, applied, {}, me, POD_NODE, "2026-01-01T00:00:00Z", force=True)
    managed_fields.encode(owners)
    encode_json(new)


EXPRESSIONS = [
    "self",
    "oldSelf",
    ".",
    "a",
    "x",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "1",
    "'s'",
    "+",
    "==",
    "&&",
    "size(",
    "!",
    "?",
    ".all(x,",
    ".map(x,",
    ".matches('",
    "has(self.a)",
    "has(self.",
    "in",
    "-",
    ":",
    ",",
    "duration('1h')",
]
expression = st.lists(st.sampled_from(EXPRESSIONS), max_size=25).map(" ".join)
CEL_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "string"}}, "x": {"type": "integer"}},
}


def _cel(text: str) -> None:
    compiled = cel.compiled(text, CEL_SCHEMA)
    compiled.value(cel.Variables({"a": ["s"] * 50, "x": 1}))


def _rules(values: list[Any]) -> None:
    """Twenty rules at each item of a list, as an author of a kind may have them."""
    list(rules.broken(_LISTED, {"l": values}, None, _LISTED_NODE))


LISTED = {
    "type": "object",
    "properties": {
        "l": {
            "type": "array",
            "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, y == x))"}],
            "items": {
                "type": "integer",
                "x-kubernetes-validations": [{"rule": f"self != {number}"} for number in range(1, 20)],
            },
        }
    },
}
_LISTED, _LISTED_NODE = rules.rule_node_of(LISTED), node_of(LISTED)

schema = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "string", "integer", "array", "number", "boolean", "x"])}
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array", "string"])},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "metadata"]), inner | scalar, max_size=3) | scalar,
            "items": inner | tree,
            "additionalProperties": inner | tree,
            "required": st.lists(st.sampled_from(["a", "b"])) | scalar,
            "pattern": st.text(max_size=10) | scalar,
            "default": tree,
            "enum": st.lists(scalar, max_size=3) | scalar,
            "format": st.sampled_from(["date-time", "duration", "byte", "int64"]) | scalar,
            "maxLength": st.integers() | scalar,
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]) | scalar,
            "x-kubernetes-list-map-keys": st.lists(st.sampled_from(["a", "b"])) | tree,
            "x-kubernetes-preserve-unknown-fields": st.booleans() | scalar,
            "x-kubernetes-validations": st.lists(
                st.fixed_dictionaries(
                    {"rule": expression}, optional={"messageExpression": expression, "fieldPath": st.text()}
                ),
                max_size=2,
            )
            | tree,
        },
    ),
    max_leaves=8,
)


def _definition(given: tuple[dict[str, Any], Any, Any]) -> None:
    """A definition is judged as it is when somebody creates it; an object is held to it if it stands."""
    root, printed, value = given
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": printed}],
    }
    spec = {
        "group": "example.com",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [version],
    }
    made = {"metadata": {"name": "things.example.com"}, "spec": spec}
    pruner = Pruner(
        builtin.node("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"), typed=True
    )
    pruner.object(made, pruner.root)
    if pruner.mistyped:
        return
    definitions.complete(made)
    if list(definitions.problems(made, None)):
        return
    node = node_of(root)
    Pruner(node, typed=False).object(value, node)
    list(validation.validator_of(root).causes(value))
    list(rules.broken(rules.rules_of(root), value, None, node))


@cache
def _registry() -> Registry:
    return Registry(builtin.KINDS)


def _fields(text: str) -> None:
    for resource in (POD, CONFIG_MAP):
        kind = _registry().lookup(resource.group, resource.version, resource.plural)
        assert kind is not None
        selectors.selector_of(kind, {"fieldSelector": text})


selector_text = st.text(max_size=60) | st.lists(
    st.sampled_from([*"!=<>(),. \\", "a", "in", " in ", "notin", "metadata.name", "spec.nodeName", "5", "=="]),
    max_size=40,
).map("".join)
SELECTOR_BOMBS = ("a in (" + " " * MANY + "(", "a" + " " * MANY + "(", "!" * MANY, "a," * MANY, "a=" * MANY)

review = st.fixed_dictionaries(
    {
        "request": st.fixed_dictionaries(
            {"uid": st.text(), "operation": st.just("CREATE")}, optional={"object": an_object}
        )
    }
)


def _review(body: bytes) -> None:
    admission.review(
        body, lambda request: admission.AdmissionResponse(changed=request.object.tree if request.object else None)
    )


def _certificate(content: bytes) -> None:
    pair = pki.KeyPair(content, content)
    _ = pair.x509


def _protobuf(body: bytes) -> None:
    json_trees.decode(protobuf.json_of(body))


def _length_prefixed(parts: list[bytes]) -> bytes:
    body = b""
    for part in parts:
        body = b"\x0a" + bytes([len(part) % 128]) + part + body
    return body


wire = st.lists(st.binary(max_size=20), max_size=8).map(_length_prefixed)
protobuf_body = (wire | st.binary(max_size=100)).map(
    lambda raw: b"k8s\x00\n\x09\n\x02v1\x12\x03Pod\x12" + bytes([len(raw) % 128]) + raw
)
DEEP_MESSAGE = _length_prefixed([b"x"] * 30)

duration = st.text(max_size=20) | st.lists(
    st.sampled_from([*"0123456789.+-", "h", "m", "s", "ms", "٣"]), max_size=12
).map("".join)
LONG_NUMBERS = ("9" * 300 + "h", "9" * 5000 + "h", "1." * MANY, "0" * MANY + "s", "-" * MANY)
version = st.text(max_size=20) | st.lists(st.sampled_from([*"v0123456789.-+", "rc"]), max_size=12).map("".join)


def _answer(body: bytes) -> None:
    str(error_of(400, body))


def _cloud_config(text: bytes) -> None:
    bootstrap_data.read(text)
    config = {"write_files": [{"path": "/run/kubeadm/kubeadm.yaml", "content": text.decode("utf-8", "replace")}]}
    bootstrap_data.read(json.dumps(config).encode())


def _audit(text: str) -> None:
    list(api_server._audit("spec", text))


SNAPSHOTS = tuple(
    f"{kind}-{start:08d}-00000007-1700000000{suffix}"
    for kind, start in (("Full", 0), ("Incr", 5))
    for suffix in ("", ".gz", ".zlib", ".Z")
)
SNAPSHOT_BITS = st.binary(max_size=40) | st.sampled_from(
    [b"[", b"]", b",", b'{"etcdEvent":', b'{"kv":{"mod_revision":7}}', b',"time":""}', b'"', b"\\", bytes(512)]
)
SNAPSHOT_BOMBS = (
    *(bytes(10 * MANY), b"[" * MANY, b'[{"etcdEvent":' * MANY, b'"etcdEvent"' * MANY, b'"' * MANY),
    *(b"\x1f\x8b\x08" + b"\x00" * MANY, b"\x78\x9c" * MANY, b"\xff" * MANY),
)


def _snapshot(name: str, packed: bool, content: bytes) -> None:
    """As `espalier etcd-agent verify` reads an object: with its right hash, if it is `packed`."""
    snapshot = names.parse(name)
    assert snapshot is not None
    if packed:
        content += hashlib.sha256(content).digest()
        deflated = zlib.compressobj(6, zlib.DEFLATED, 31 if name.endswith(".gz") else 15)
        content = (
            content if snapshot.compression is names.Compression.NONE else deflated.compress(content) + deflated.flush()
        )

    async def verified() -> None:
        store = MemoryStore(SystemClock())
        await store.put(snapshot.key, content)
        await verification.check(store, StoredSnapshot(snapshot, snapshot.key, len(content)))

    asyncio.run(verified())


TARGETS: dict[str, Target] = {
    "request": Target(requests.request(), requests.ask),
    "yaml": Target(yaml_text, _yaml, (ManifestError,), YAML_BOMBS),
    "scalar": Target(
        st.text(max_size=40), scalars.resolve, (ValueError,), ("9" * 5000, "0x" + "f" * 5000, "1e" + "9" * 50)
    ),
    "manifest": Target(yaml_text, _manifests, (ManifestError,), YAML_BOMBS),
    "inventory": Target(
        st.tuples(st.sampled_from(CSV_HEADS), st.lists(st.sampled_from(CSV_BITS) | st.text(max_size=4)).map("".join)),
        lambda text: hardware_manifest("".join(text).encode("utf-8", "surrogatepass"), "hardware.csv"),
        (ManifestError,),
        (("", '"' * MANY), ("", " " * MANY + '"x'), ("", ",\n" * MANY), ("", '"' + '""' * MANY)),
    ),
    "answer of EC2": Target(
        st.tuples(st.sampled_from(signed.ACTIONS), st.sampled_from([200, 400, 500]), EC2_BITS),
        lambda answer: signed.read(*answer),
        (signed.NotReadable,),
        tuple((action, status, bomb) for action in signed.ACTIONS for status in (200, 500) for bomb in EC2_BOMBS),
    ),
    "profiles of AWS": Target(
        st.lists(
            st.sampled_from(["[192.0.2.1]", "[", "]", "=", "\n", "\n ", "%(a)s", "aws_access_key_id", "DEFAULT"])
        ).map("".join)
        | st.text(max_size=50),
        lambda text: keys_of({"credentials": text.encode("utf-8", "surrogatepass")}, "192.0.2.1"),
        (),
        ("[" * MANY, "[a]\n" * MANY, "[192.0.2.1]\n" + "a=1\n" * MANY, "[192.0.2.1]\na=1\n" + " b\n" * MANY),
    ),
    "snapshot": Target(
        st.tuples(st.sampled_from(SNAPSHOTS), st.sampled_from([False, True]), st.lists(SNAPSHOT_BITS).map(b"".join)),
        lambda given: _snapshot(*given),
        (),
        tuple((name, packed, bomb) for name in SNAPSHOTS for packed in (False, True) for bomb in SNAPSHOT_BOMBS),
    ),
    "audit policy": Target(yaml_text, _audit, (), YAML_TRAPS),
    "kubeconfig": Target(yaml_text, _kubeconfig, (KubeconfigError,), YAML_TRAPS),
    "kubeadm-config": Target(
        yaml_text,
        lambda text: addons.cluster_configuration({"data": {"ClusterConfiguration": text}}),
        (ValueError,),
        YAML_TRAPS,
    ),
    "bootstrap data": Target(json_text, _cloud_config, (ValueError,), JSON_BOMBS),
    "json": Target(json_text, _json, (msgspec.MsgspecError,), JSON_BOMBS),
    "body": Target(
        st.tuples(
            json_text, st.sampled_from(sorted([*content.YAML_TYPES, *content.JSON_TYPES, "", "x", protobuf.MEDIA_TYPE]))
        ),
        lambda given: content.json_of(*given),
        (ApiError,),
        tuple((bomb, "application/yaml") for bomb in JSON_BOMBS),
    ),
    "protobuf": Target(
        protobuf_body, _protobuf, (protobuf.Malformed, msgspec.MsgspecError), (b"k8s\x00" + DEEP_MESSAGE,)
    ),
    "label selector": Target(selector_text, selectors.parse_labels, (ApiError,), SELECTOR_BOMBS),
    "field selector": Target(selector_text, _fields, (ApiError,), SELECTOR_BOMBS),
    "watch filter": Target(selector_text, labels.parse, (ValueError,), SELECTOR_BOMBS),
    "json patch": Target(
        json_patch, lambda patch: apply_json_patch(A_POD, encode_json(patch)), (ApiError,), (DOUBLING, DEEPENING)
    ),
    "merge patch": Target(tree, lambda patch: patches.merge(A_POD, patch)),
    "strategic patch": Target(pod_patch, _strategic, (ApiError,)),
    "apply patch": Target(pod_patch, _apply, (ApiError,)),
    "managed fields": Target(json_text, fields.parse, (ValueError,), JSON_BOMBS),
    "cel": Target(
        expression,
        _cel,
        (cel.Malformed, cel.Unsupported, cel.EvaluationError),
        ("(" * MANY, "self" + ".a" * MANY, "[" * MANY, "!" * MANY),
    ),
    "rules": Target(st.lists(st.integers(), max_size=60), _rules, (), ([0] * 150_000, list(range(20_000)))),
    "definition": Target(st.tuples(schema, st.text(max_size=20) | selector_text, an_object), _definition, (ApiError,)),
    "json path": Target(
        selector_text | st.text(max_size=30),
        lambda text: json_path.compiled(text)(A_POD),
        (ValueError,),
        ("[?(" + " " * MANY, "[?(@.a" + " " * MANY + "x)]", ".a" * MANY, "." * MANY, "[?(" * 9000, "..a" * 30),
    ),
    "continue token": Target(
        st.text(max_size=40) | json_text.map(lambda raw: base64.urlsafe_b64encode(raw).decode()),
        reading._decode_token,
        (ApiError,),
        tuple(base64.urlsafe_b64encode(bomb).decode() for bomb in JSON_BOMBS),
    ),
    "resource version": Target(st.text(max_size=10), reading.revision_of, (ApiError,), ("9" * 5000, "²", "٣")),
    "review": Target(json_text | review.map(encode_json), _review, (admission.NoReview,), JSON_BOMBS),
    "failure": Target(json_text, _answer, (), JSON_BOMBS),
    "upgrade's spec": Target(
        st.text(max_size=40) | json_text.map(lambda raw: base64.b64encode(raw).decode()),
        expected.decoded,
        (ValueError,),
        tuple(base64.b64encode(bomb).decode() for bomb in JSON_BOMBS),
    ),
    "certificate": Target(
        st.binary(max_size=200)
        | st.binary(max_size=200).map(
            lambda der: b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
        ),
        _certificate,
        (ValueError,),
        (
            b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(b"\x30\x80" * MANY) + b"-----END CERTIFICATE-----\n",
            b"-----BEGIN " * MANY,
        ),
    ),
    "duration": Target(duration, durations.seconds, (ValueError,), LONG_NUMBERS),
    "duration in rules": Target(duration, cel_values.duration, (ValueError,), LONG_NUMBERS),
    "version": Target(version, versions.parsed, (), ("v1." + "9" * 5000 + ".0", "v1.0.0-" + "a." * MANY)),
    "image": Target(st.text(max_size=40), Image.parse, (ValueError,), ("/" * MANY, ":" * MANY)),
    "field path": Target(st.text(max_size=40), paths.parse, (ValueError,), ("a." * MANY, "[" * MANY, "a[0]" * MANY)),
}
