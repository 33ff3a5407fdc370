"""The Common Expression Language: expressions are compiled once, with the errors of Kubernetes' own compiler.

Uses CEL's own library (decision 0003), which is loaded when the first expression is compiled: most processes need none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from espalier.api.meta import Tree
from espalier.apiserver.schema.expressions import cel_fields
from espalier.kube.objects import encode_json

OLD = "oldSelf"
UNSUPPORTED_FUNCTIONS = frozenset(
    {
        *("find", "findAll", "isSorted", "sum", "min", "max", "isURL", "url", "getScheme", "getHost", "getHostname"),
        *("getPort", "getEscapedPath", "getQuery", "ip", "isCanonical", "family", "isUnspecified"),
        *("isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "cidr"),
        *("containsIP", "containsCIDR", "masked", "prefixLength", "isQuantity", "quantity", "isInteger", "asInteger"),
        *("asApproximateFloat", "sign", "add", "sub", "isLessThan", "isGreaterThan", "compareTo", "isSemver", "semver"),
        *("major", "minor", "patch", "sets", "intersects", "equivalent", "validate", "transformList", "transformMap"),
        *("transformMapEntry", "sortBy", "jsonpatch", "escapeKey"),
    }
)
"""Unsupported functions of Kubernetes: a rule that calls one is stored, but not evaluated."""

_CONVERSIONS: Mapping[str, str] = {
    "duration": "duration(self)",
    "matches": "''.matches(self)",
    "timestamp": "timestamp(self)",
}
"""Functions whose constants Kubernetes checks when it compiles a rule, as expressions that fail for bad ones."""

_MILLISECONDS = "duration_to_milliseconds"
"""The overload that has another result: those of the last second in the library, all of them in Kubernetes."""

_UNDECLARED = re.compile(r"undeclared reference to '(\w+)[\w.]*'")
_ORDER_OF_NUMBERS = re.compile(
    r"no matching overload for '_[<>]=?_' applied to '\((?!(\w+), \1\))(?:int|uint|double), (?:int|uint|double)\)'"
)
_LOOPS = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\(")
_NO_KEY = re.compile(r'NOT_FOUND: Key not found in map : "?(.*?)"?$')


class Malformed(ValueError):
    """An expression can't be compiled. The text is the compiler's."""


class Unsupported(ValueError):
    """An expression needs unsupported features of Kubernetes: `names`, mostly of functions."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


class EvaluationError(Exception):
    """The evaluation of an expression failed; the text is Kubernetes'."""


class Variables:
    """The variables of expressions about one value. The library converts it once, and only the parts that are read."""

    def __init__(self, self_: Any, old: Any = None, *, has_old: bool = False) -> None:
        self._values = {"self": self_, OLD: old, "_hasOld": has_old}
        self._activations: dict[Any, Any] = {}

    def activation(self, environment: Any, *, with_old: bool) -> Any:
        """The value, converted for expressions."""
        known = self._activations.get(environment)
        if known is None:
            data = self._values if with_old else {"self": self._values["self"]}
            known = self._activations[environment] = environment.Activation(data)
        return known


class Expression(NamedTuple):
    """A compiled expression; `type` is the name of its result type ("bool", "string", "dyn", …)."""

    program: Any
    environment: Any
    type: str
    uses_old: bool
    loops: int = 0
    """The number of iterating macros: an upper bound of their nesting depth."""

    def value(self, variables: Variables) -> Any:
        """Evaluate the expression. Raises `EvaluationError`."""
        try:
            result = self.program.eval(variables.activation(self.environment, with_old=self.uses_old))
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            raise EvaluationError(str(error)) from None
        if result.type().name() == "ERROR":
            raise EvaluationError(_reason(str(result.value())))
        return result.value()


def compiled(text: str, schema: Tree, *, optional_old: bool = False) -> Expression:
    """Compile an expression over `self` of this schema, and over `oldSelf` when it uses that; cached.

    With `optional_old`, `oldSelf` is an optional value. Raises `Malformed` and `Unsupported`.
    """
    outcome = _outcome(text, encode_json(schema), optional_old)
    if isinstance(outcome, Expression):
        return outcome
    raise outcome.with_traceback(None)


@lru_cache(maxsize=4096)
def _outcome(text: str, encoded: bytes, optional_old: bool) -> Expression | Malformed | Unsupported:
    """Cached, because rules are compiled when a definition is validated, established and served."""
    schema: Tree = msgspec.json.decode(encoded)
    try:
        return _expression(text, schema, optional_old=optional_old)
    except (Malformed, Unsupported) as error:
        return error


def _expression(text: str, schema: Tree, *, optional_old: bool) -> Expression:
    self_ = _type(schema)
    try:
        program, environment, old = _declared(text, self_, optional_old=optional_old)
    except Malformed as error:
        if not _ORDER_OF_NUMBERS.search(str(error)):
            raise
        # Kubernetes compares numbers of different types. The library's compiler doesn't, but its evaluation does.
        program, environment, old = _declared(text, "dyn", optional_old=optional_old)
    references = cel_fields.check_fields(program.serialize(), text, schema, _accepts)
    if references.errors:
        raise Malformed("\n".join(references.errors))
    if references.time_formats:
        raise Unsupported([f"{format_} inside of objects" for format_ in sorted(references.time_formats)])
    if _MILLISECONDS in references.overloads:
        raise Unsupported(["getMilliseconds of durations"])
    type_ = program.return_type().name().lower()
    if old and optional_old:
        wrapped = f"cel.bind({OLD}, _hasOld ? optional.of({OLD}) : optional.none(), {text}\n)"
        environment = _environment("dyn", "dyn")
        program = environment.compile(wrapped)
    return Expression(program, environment, type_, bool(old), len(_LOOPS.findall(text)))


def _accepts(function: str, text: str) -> bool:
    """True unless Kubernetes refuses an expression that passes this constant to a function."""
    if function not in _CONVERSIONS:
        return True
    environment = _environment("string", "")
    conversion = Expression(_conversion(function), environment, "dyn", uses_old=False)
    try:
        conversion.value(Variables(text))
    except EvaluationError:
        return False
    return True


@cache
def _conversion(function: str) -> Any:
    return _compile(_CONVERSIONS[function], _environment("string", ""))


def _declared(text: str, self_: str, *, optional_old: bool) -> tuple[Any, Any, str]:
    """The program, its environment, and the type of `oldSelf`; empty if the expression doesn't use it."""
    environment, old = _environment(self_, ""), ""
    try:
        return _compile(text, environment), environment, old
    except Malformed as error:
        if OLD not in _UNDECLARED.findall(str(error)):
            raise
    old = "dyn" if optional_old else self_
    environment = _environment(self_, old)
    return _compile(text, environment), environment, old


def _compile(text: str, environment: Any) -> Any:
    try:
        return environment.compile(text)
    except RuntimeError as error:
        message = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        undeclared = _UNDECLARED.findall(message)
        if undeclared and message.count("ERROR:") == len(undeclared) and UNSUPPORTED_FUNCTIONS.issuperset(undeclared):
            raise Unsupported(sorted(set(undeclared))) from None
        raise Malformed(message) from None


@cache
def _environment(self_: str, old: str) -> Any:
    from cel_expr_python import cel  # noqa: PLC0415  heavy, and seldom needed
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    variables = {"self": cel.Type(self_)}
    if old:
        variables |= {OLD: cel.Type(old), "_hasOld": cel.Type.BOOL}
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_bindings.ExtBindings()]
    functions = [
        cel.FunctionDecl(
            name, [cel.Overload(f"{name}_string", cel.Type.BOOL, [cel.Type.STRING], False, implementation)]
        )
        for name, implementation in (("isIP", _is_ip), ("isCIDR", _is_cidr))
    ]
    return cel.NewEnv(variables=variables, extensions=extensions, functions=functions)


def _is_ip(text: str) -> bool:
    """Kubernetes' `isIP`: an address without a zone, and no IPv4 address written as IPv6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text and getattr(address, "ipv4_mapped", None) is None


def _is_cidr(text: str) -> bool:
    """Kubernetes' `isCIDR`: an address and a prefix length; bits of hosts may be set."""
    address, slash, length = text.partition("/")
    if not slash or not re.fullmatch("[0-9]+", length) or not _is_ip(address):
        return False
    return int(length) <= ipaddress.ip_address(address).max_prefixlen and (length == "0" or length[0] != "0")


_SCALARS: Mapping[str, str] = {"string": "string", "integer": "int", "number": "double", "boolean": "bool"}
_FORMATS: Mapping[str, str] = {
    "byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"
}  # fmt: skip


def _type(schema: Tree) -> str:
    """The type for the compiler, which has no objects with declared fields: `cel_fields` checks these."""
    type_ = schema.get("type", "")
    if type_ == "array":
        return f"list<{_type(schema.get('items') or {})}>"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map<string, {_type(schema['additionalProperties'])}>"
    if type_ == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return "dyn" if schema.get("x-kubernetes-int-or-string") else _SCALARS.get(type_, "dyn")


def _reason(text: str) -> str:
    if match := _NO_KEY.match(text):
        return f"no such key: {match[1]}"
    _, _, reason = text.partition(": ")
    if reason.startswith("No matching overloads found"):
        return "call arguments did not match a supported operator, function or macro signature for rule"
    if reason.startswith("Index error: index="):
        return f"index out of bounds: {reason.removeprefix('Index error: index=').partition(' ')[0]}"
    return reason or text
