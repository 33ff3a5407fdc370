"""CEL rules of definitions: the embedded API server judges objects and rules as kube-apiserver does."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, Invalid, NotFound
from espalier.kube.objects import encode_json
from espalier.kube.transports.server_warnings import warnings_of
from espalier.kube.transports.wire import Request
from tests.support.waiting import eventually

pytestmark = pytest.mark.often("in_memory", "real")  # what is judged before it is stored is the same for all stores

Fields = dict[str, Any]

GROUP = "rules.example.com"
RULES = "x-kubernetes-validations"
NAME: Fields = {"type": "string", "maxLength": 20}
COUNT: Fields = {"type": "integer"}
ROOT = "spec.validation.openAPIV3Schema"


def rule(text: str, message: str = "", **more: Any) -> list[Fields]:
    return [{"rule": text, **({"message": message} if message else {}), **more}]


def keyed(**properties: Fields) -> Fields:
    items = {"type": "object", "required": ["name"], "properties": {"name": NAME, **properties}}
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "maxItems": 5,
        "items": items,
    }


SPEC: Fields = {
    "free": COUNT,
    "short": NAME,
    "forbidden": {**COUNT, RULES: rule("self < 5", "too much", reason="FieldValueForbidden")},
    "required": {**COUNT, RULES: rule("self < 5", " give less ", reason="FieldValueRequired")},
    "duplicate": {**COUNT, RULES: rule("self < 5", "not shown", reason="FieldValueDuplicate")},
    "unnamed": {**COUNT, RULES: rule("self < 5")},
    "map": {
        "type": "object",
        "maxProperties": 4,
        "additionalProperties": {**COUNT, RULES: rule("self < 5", messageExpression="'found %d'.format([self])")},
    },
    "list": {"type": "array", "maxItems": 5, "items": {**NAME, RULES: rule("self.startsWith('a')", "begin with a")}},
    "keyed": keyed(size={**COUNT, RULES: rule("self >= oldSelf", "it only grows")}),
    "fixed": {**COUNT, RULES: rule("self == oldSelf", "it stays")},
    "first": {**COUNT, RULES: rule("oldSelf.hasValue() || self == 1", "it begins with 1", optionalOldSelf=True)},
    "step": {**COUNT, RULES: rule("self <= oldSelf.orValue(0) + 1", "one at a time", optionalOldSelf=True)},
    "set": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "maxItems": 4,
        "items": NAME,
        RULES: rule("self == oldSelf", "the same ones"),
    },
    "object": {
        "type": "object",
        "properties": {"x": COUNT, "y": COUNT},
        RULES: [
            {"rule": "self.x > 1", "message": "x is more than 1"},
            {"rule": "!has(self.y) || self.y > 1", "message": "y is more than 1", "fieldPath": ".y"},
        ],
    },
    "fallback": {**COUNT, RULES: rule("self < 5", "as it stands", messageExpression="'%d'.format([1 / (self - 9)])")},
    "silent": {**COUNT, RULES: rule("self < 5", messageExpression="' '")},
    "moment": {
        "type": "string",
        "format": "date-time",
        RULES: rule("self > timestamp('2020-01-01T00:00:00Z')", "it is of this decade"),
    },
    "delay": {"type": "string", "format": "duration", RULES: rule("self > duration('1m')", "more than a minute")},
    "number": {"type": "number", RULES: rule("self > 1.5", "more than 1.5")},
    "ratio": {"type": "number", RULES: rule("self > 1 && 9 >= self", "between 1 and 9")},
    "most": {**COUNT, RULES: rule("self <= oldSelf && self < 2.5", "less than 2.5")},
    "ratios": {"type": "array", "maxItems": 5, "items": {"type": "number"}, RULES: rule("self.all(x, x > 1)", "all")},
    "either": {"x-kubernetes-int-or-string": True, RULES: rule("type(self) == string || self > 1", "text or 2")},
    "names": {
        "type": "object",
        "properties": {"a-b": COUNT, "namespace": COUNT, "x.y": COUNT, "u__v": COUNT},
        RULES: [
            {"rule": f"!has(self.{name}) || self.{name} == 1", "message": f"{name} is 1"}
            for name in ("a__dash__b", "__namespace__", "x__dot__y", "u__underscores__v")
        ],
    },
    "absent": {**COUNT, "nullable": True, RULES: rule("self == 1", "it is 1")},
    "every": {
        "type": "array",
        "maxItems": 5,
        "items": NAME,
        RULES: rule("self.all(x, self.exists_one(y, x == y))", "each once"),
    },
    "ranges": {"type": "array", "maxItems": 5, "items": NAME, RULES: rule("self.all(x, isCIDR(x))", "CIDRs")},
}


def definition(spec: Fields, plural: str, **schema: Any) -> Fields:
    properties = {"spec": {"type": "object", "properties": spec, **schema}, "status": {"type": "object"}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [version],
        },
    }


def resource(plural: str) -> Resource:
    return Resource(GROUP, "v1", plural, plural.capitalize())


def body(namespace: str, plural: str, spec: Fields) -> Fields:
    return {"metadata": {"name": "one", "namespace": namespace}, "spec": spec}


async def defined(client: Client, spec: Fields, plural: str, **schema: Any) -> Resource:
    """Served, with these rules: a real server tells of neither, so an object is tried until it knows them."""
    version = f"{zlib.crc32(str(spec).encode()):x}"
    tree = definition(spec, plural, **schema)
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {
        **spec,
        "probe": {**COUNT, RULES: rule("self == 0", version)},
    }
    await client.apply(CUSTOM_RESOURCE_DEFINITION, tree, force=True)
    await eventually(lambda: _knows(client, resource(plural), version))
    return resource(plural)


async def _knows(client: Client, wanted: Resource, version: str) -> bool:
    try:
        await client.create(wanted, body("default", wanted.plural, {"probe": 1}), dry_run=True)
    except NotFound:
        return False
    except Invalid as error:
        return version in str(error)
    return False


def causes(error: ApiError) -> list[tuple[str, str, str]]:
    assert error.status.details is not None
    return [(cause.reason, cause.field, cause.message) for cause in error.status.details.causes]


INVALID = "FieldValueInvalid"
REFUSED: list[tuple[Fields, list[tuple[str, str, str]]]] = [
    ({"forbidden": 7}, [("FieldValueForbidden", "spec.forbidden", "Forbidden: too much")]),
    ({"required": 7}, [("FieldValueRequired", "spec.required", "Required value: give less")]),
    ({"duplicate": 7}, [("FieldValueDuplicate", "spec.duplicate", "Duplicate value: 7")]),
    ({"unnamed": 7}, [(INVALID, "spec.unnamed", "Invalid value: 7: failed rule: self < 5")]),
    ({"map": {"a": 7, "b": 1}}, [(INVALID, "spec.map[a]", "Invalid value: 7: found 7")]),
    ({"list": ["a", "b"]}, [(INVALID, "spec.list[1]", 'Invalid value: "b": begin with a')]),
    ({"first": 2}, [(INVALID, "spec.first", "Invalid value: 2: it begins with 1")]),
    ({"step": 2}, [(INVALID, "spec.step", "Invalid value: 2: one at a time")]),
    (
        {"object": {"x": 0, "y": 0}},
        [
            (INVALID, "spec.object", "Invalid value: x is more than 1"),
            (INVALID, "spec.object.y", "Invalid value: y is more than 1"),
        ],
    ),
    (
        {"object": {"y": 5}},
        [(INVALID, "spec.object", 'Invalid value: "object": no such key: x evaluating rule: x is more than 1')],
    ),
    ({"fallback": 9}, [(INVALID, "spec.fallback", "Invalid value: 9: as it stands")]),
    ({"silent": 7}, [(INVALID, "spec.silent", "Invalid value: 7: failed rule: self < 5")]),
    (
        {"moment": "2019-01-01T00:00:00Z"},
        [(INVALID, "spec.moment", 'Invalid value: "2019-01-01T00:00:00Z": it is of this decade')],
    ),
    ({"delay": "1m"}, [(INVALID, "spec.delay", 'Invalid value: "1m": more than a minute')]),
    ({"number": 1}, [(INVALID, "spec.number", "Invalid value: 1: more than 1.5")]),
    ({"ratio": 0.5}, [(INVALID, "spec.ratio", "Invalid value: 0.5: between 1 and 9")]),
    ({"ratios": [1.5, 0.5]}, [(INVALID, "spec.ratios", "Invalid value: all")]),
    ({"either": 1}, [(INVALID, "spec.either", "Invalid value: 1: text or 2")]),
    ({"names": {"a-b": 2}}, [(INVALID, "spec.names", "Invalid value: a__dash__b is 1")]),
    ({"names": {"namespace": 2}}, [(INVALID, "spec.names", "Invalid value: __namespace__ is 1")]),
    ({"names": {"x.y": 2}}, [(INVALID, "spec.names", "Invalid value: x__dot__y is 1")]),
    ({"names": {"u__v": 2}}, [(INVALID, "spec.names", "Invalid value: u__underscores__v is 1")]),
    ({"every": ["a", "a"]}, [(INVALID, "spec.every", "Invalid value: each once")]),
    ({"ranges": ["10.0.0.0/\u0668"]}, [(INVALID, "spec.ranges", "Invalid value: CIDRs")]),  # an 8 of Arabic
    ({"ranges": ["10.0.0.0/08"]}, [(INVALID, "spec.ranges", "Invalid value: CIDRs")]),
]


async def test_objects_that_break_rules_are_refused(client: Client, namespace: str) -> None:
    rules = await defined(client, SPEC, "judged")
    for spec, expected in REFUSED:
        with pytest.raises(Invalid) as refused:
            await client.create(rules, body(namespace, "judged", spec))
        assert causes(refused.value) == expected


async def test_objects_that_keep_them_are_created(client: Client, namespace: str) -> None:
    rules = await defined(client, SPEC, "judged")
    unchanged: Fields = {
        "forbidden": 4,
        "map": {"a": 1},
        "list": ["a"],
        "keyed": [{"name": "a", "size": 1}],
        "fixed": 9,
        "first": 1,
        "step": 1,
        "set": ["a"],
        "object": {"x": 2},
        "moment": "2021-01-01T00:00:00Z",
        "delay": "1m1s",
        "number": 2,
        "ratio": 1.5,
        "ratios": [1.5, 2],
        "either": "1",
        "names": {"a-b": 1, "namespace": 1, "x.y": 1, "u__v": 1},
        "absent": None,
        "every": ["a"],
        "ranges": ["10.0.0.0/8", "10.0.0.1/0", "::1/128"],
    }
    await client.create(rules, body(namespace, "judged", unchanged))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"fixed": 1}, {"fixed": 2}, [(INVALID, "spec.fixed", "Invalid value: 2: it stays")]),
        ({"free": 1}, {"fixed": 2}, []),
        ({"first": 1}, {"first": 2}, []),
        ({"step": 1}, {"step": 2}, []),
        ({"step": 1}, {"step": 3}, [(INVALID, "spec.step", "Invalid value: 3: one at a time")]),
        (
            {"keyed": [{"name": "a", "size": 2}, {"name": "b", "size": 2}]},
            {"keyed": [{"name": "b", "size": 1}, {"name": "a", "size": 2}, {"name": "c", "size": 0}]},
            [(INVALID, "spec.keyed[0].size", "Invalid value: 1: it only grows")],
        ),
        ({"most": 2}, {"most": 1}, []),
        ({"most": 4}, {"most": 3}, [(INVALID, "spec.most", "Invalid value: 3: less than 2.5")]),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, []),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, [(INVALID, "spec.set", "Invalid value: the same ones")]),
    ],
)
async def test_transition_rules_compare_with_the_old_value(
    client: Client, namespace: str, before: Fields, after: Fields, expected: list[tuple[str, str, str]]
) -> None:
    rules = await defined(client, SPEC, "judged")
    await client.create(rules, body(namespace, "judged", before))
    results = []
    try:
        patch = [{"op": "replace", "path": "/spec", "value": after}]
        await client.patch(rules, "one", namespace, patch=patch, type=PatchType.JSON)
    except Invalid as refused:
        results = causes(refused)
    assert results == expected


async def test_rules_wait_until_object_has_right_form(client: Client, namespace: str) -> None:
    rules = await defined(client, SPEC, "judged")
    with pytest.raises(Invalid) as refused:
        await client.create(rules, body(namespace, "judged", {"unnamed": 7, "short": "x" * 21}))
    assert causes(refused.value) == [
        ("FieldValueTooLong", "spec.short", "Too long: may not be more than 20 bytes"),
        (
            INVALID,
            "<nil>",
            "Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation",
        ),
    ]


LOOSE: Fields = {"free": COUNT, "less": COUNT, "short": {"type": "string"}, "list": {"type": "array", "items": NAME}}
STRICT: Fields = {
    "free": COUNT,
    "short": NAME,
    "less": {**COUNT, RULES: rule("self < 5", "less than 5")},
    "list": {"type": "array", "maxItems": 5, "items": {**NAME, RULES: rule("self.startsWith('a')", "begin with a")}},
}


async def test_an_accepted_value_stays_until_it_is_changed(
    client: Client, namespace: str, request: pytest.FixtureRequest
) -> None:
    plural = f"loosened{namespace.removeprefix('contract-')}"
    rules = await defined(client, LOOSE, plural)
    await client.create(rules, body(namespace, plural, {"less": 7, "short": "x" * 30, "list": ["b", "a"]}))
    await defined(client, STRICT, plural)

    async def patched(spec: Fields) -> list[tuple[str, str, str]]:
        try:
            await client.patch(rules, "one", namespace, patch={"spec": spec}, type=PatchType.MERGE, dry_run=True)
        except Invalid as refused:
            return causes(refused)
        return []

    assert await patched({"free": 1}) == []
    assert await patched({"list": ["b", "a"], "free": 2}) == []
    assert [field for _, field, _ in await patched({"short": "x" * 31})] == ["spec.short", "<nil>"]
    await client.patch(rules, "one", namespace, patch={"spec": {"short": "x"}}, type=PatchType.MERGE)
    assert await patched({"less": 8}) == [(INVALID, "spec.less", "Invalid value: 8: less than 5")]
    assert await patched({"list": ["b", "ab"]}) == [(INVALID, "spec.list[0]", 'Invalid value: "b": begin with a')]


async def test_unchanged_invalid_value_warns_at_every_write(client: Client, namespace: str) -> None:
    plural = f"warned{namespace.removeprefix('contract-')}"
    rules = await defined(client, LOOSE, plural)
    await client.create(rules, body(namespace, plural, {"less": 7, "list": ["b"]}))
    await defined(client, STRICT, plural)
    headers = {"content-type": "application/merge-patch+json"}
    for number in range(3):
        patch = encode_json({"spec": {"free": number}})
        response = await client.raw(Request("PATCH", rules.path(namespace, "one"), {}, headers, patch))
        # kube-apiserver goes through a Go map here, so its order changes from request to request.
        warnings = {text[text.index("spec.") :] for text in warnings_of(response.headers)}
        assert warnings == {
            "spec.less: Invalid value: 7: less than 5",
            'spec.list[0]: Invalid value: "b": begin with a',
        }


AT = f"{ROOT}.properties[spec].{RULES}[0]"
ITEMS = f"{ROOT}.properties[spec].properties[l].items.{RULES}[0]"
LOST = (
    f"oldSelf cannot be used on the uncorrelatable portion of the schema within {ROOT}.properties[spec].properties[l]"
)


def error(text: str, column: int, message: str) -> str:
    return f"ERROR: <input>:1:{column + 1}: {message}\n | {text}\n | {'.' * column}^"


def unfit(text: str, detail: str, message_expression: str = "") -> str:
    shown = text.replace("&", "\\u0026")
    return (
        f'Invalid value: {{"Rule":"{shown}","Message":"","MessageExpression":"{message_expression}","Reason":null,'
        f'"FieldPath":"","OptionalOldSelf":null}}: {detail}'
    )


def undeclared(text: str, column: int, name: str) -> str:
    return unfit(
        text, "compilation failed: " + error(text, column, f"undeclared reference to '{name}' (in container '')")
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (rule("self.a == other"), (INVALID, f"{AT}.rule", undeclared("self.a == other", 10, "other"))),
        (rule("foo(self.a)"), (INVALID, f"{AT}.rule", undeclared("foo(self.a)", 3, "foo"))),
        (
            rule("self.b == 1"),
            (
                INVALID,
                f"{AT}.rule",
                unfit("self.b == 1", "compilation failed: " + error("self.b == 1", 4, "undefined field 'b'")),
            ),
        ),
        (
            rule("self.l.all(x, x.b == 1)"),
            (
                INVALID,
                f"{AT}.rule",
                unfit(
                    "self.l.all(x, x.b == 1)",
                    "compilation failed: " + error("self.l.all(x, x.b == 1)", 15, "undefined field 'b'"),
                ),
            ),
        ),
        *(
            (rule(text), (INVALID, f"{AT}.rule", unfit(text, "compilation failed: " + error(text, column, message))))
            for text, column, message in (
                ("self.a.matches('(')", 15, "invalid matches argument"),
                ("duration(self.a) != duration('1d')", 29, "invalid duration argument"),
                ("self.a == '' || timestamp(self.a) != timestamp('2026-01-02')", 47, "invalid timestamp argument"),
                ("self.l.all(x, x.name.matches('a{2,1}'))", 29, "invalid matches argument"),
                ("self.a in ['http', 80]", 19, "expected type 'string' but found 'int'"),
                ("self.a in {'a': 1, 'b': 1.0}", 24, "expected type 'int' but found 'double'"),
                ("self.a in {'a': 1, true: 1}", 19, "expected type 'string' but found 'bool'"),
            )
        ),
        (
            rule("size(self.a) == 'x'"),
            (
                INVALID,
                f"{AT}.rule",
                unfit(
                    "size(self.a) == 'x'",
                    "compilation failed: "
                    + error(
                        "size(self.a) == 'x'", 13, "found no matching overload for '_==_' applied to '(int, string)'"
                    ),
                ),
            ),
        ),
        (
            rule("self.a + 'x'"),
            (INVALID, f"{AT}.rule", unfit("self.a + 'x'", "cel expression must evaluate to a bool")),
        ),
        (rule(" "), ("FieldValueRequired", f"{AT}.rule", "Required value: rule is not specified")),
        (
            rule("self.a == 'x' ||\n self.a == 'y'"),
            (
                "FieldValueRequired",
                f"{AT}.message",
                "Required value: message must be specified if rule contains line breaks",
            ),
        ),
        (
            rule("self.a == 'x'", "a\nb"),
            (INVALID, f"{AT}.message", 'Invalid value: "a\\nb": must not contain line breaks'),
        ),
        (
            rule("self.a == 'x'", messageExpression="1"),
            (
                INVALID,
                f"{AT}.messageExpression",
                unfit("self.a == 'x'", "messageExpression must evaluate to a string", "1"),
            ),
        ),
        (
            rule("self.a == 'x'", fieldPath=".nowhere"),
            (INVALID, f"{AT}.fieldPath", 'Invalid value: ".nowhere": must be a valid path'),
        ),
        (
            rule("self.a == 'x'", optionalOldSelf=True),
            (INVALID, f"{AT}.optionalOldSelf", "Invalid value: true: may not be set if oldSelf is not used in rule"),
        ),
    ],
)
async def test_definitions_with_broken_rules_are_refused(
    client: Client, rules: list[Fields], expected: tuple[str, str, str]
) -> None:
    spec: Fields = {"a": NAME, "l": keyed()}
    with pytest.raises(Invalid) as refused:
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition(spec, "refused", **{RULES: rules}), dry_run=True)
    assert causes(refused.value) == [expected]


@pytest.mark.parametrize("kind", ["atomic", "set"])
async def test_transition_rules_need_a_place_with_old_values(client: Client, kind: str) -> None:
    items = {**COUNT, RULES: rule("self == oldSelf")}
    spec = {"l": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": kind, "items": items}}
    with pytest.raises(Invalid) as refused:
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition(spec, "refused"), dry_run=True)
    assert causes(refused.value) == [(INVALID, f"{ITEMS}.rule", f'Invalid value: "self == oldSelf": {LOST}')]


async def test_rule_blames_name_if_its_schema_declares_it(client: Client) -> None:
    tree = definition({"a": NAME}, "refused")
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema[RULES] = rule("self.metadata.name == 'x'", fieldPath=".metadata.name")
    with pytest.raises(Invalid, match="must be a valid path"):
        await client.create(CUSTOM_RESOURCE_DEFINITION, tree, dry_run=True)
    schema["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}
    await client.create(CUSTOM_RESOURCE_DEFINITION, tree, dry_run=True)


async def test_rules_see_only_the_name_of_metadata(client: Client) -> None:
    tree = definition({"a": NAME}, "refused")
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema[RULES] = rule("self.metadata.name == 'x'")
    await client.create(CUSTOM_RESOURCE_DEFINITION, tree, dry_run=True)
    schema[RULES] = rule("size(self.metadata.labels) == 0")
    with pytest.raises(Invalid, match="undefined field 'labels'"):
        await client.create(CUSTOM_RESOURCE_DEFINITION, tree, dry_run=True)
