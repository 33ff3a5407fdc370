"""Makes src/espalier/apiserver/data/protobuf-v1.json: the numbers of fields in Kubernetes' protobuf messages.

They stand in the tags of Kubernetes' Go types, which `make real-assets` brings into the module cache:

    cd assets/kubernetes; folder=$(go list -modfile=v1.36.3.mod -m -f {{.Dir}} k8s.io/api)
    python -m tests.support.servers.protobuf_fields "$folder" …

takes the folders of k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver. One message a line; a field
is its JSON name and its type. `[]` is a list, `map ` a map with text keys, `=` says that the fields of the message
belong to this one, and a `?` at the end that JSON leaves the field out when it is zero.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from espalier.apiserver.builtin import builtin
from espalier.apiserver.wire import protobuf

TARGET = Path(builtin.__file__).parents[1] / "data" / "protobuf-v1.json"
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
ROOTS = (
    f"{META}.DeleteOptions",
    "k8s.io/api/authentication/v1.TokenRequest",
    "k8s.io/api/autoscaling/v1.Scale",
    "k8s.io/api/core/v1.Binding",
    "k8s.io/api/policy/v1.Eviction",
)
BASIC = {
    "string": "string",
    "bool": "bool",
    "int32": "int",
    "int64": "int",
    "int": "int",
    "uint8": "int",
    "float64": "double",
    "byte": "int",
}

_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\}|[^\n]*\n(.*?)^\})", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?!struct\b|interface\b)([^\n/]+)", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?(\*?[\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_IMPORT = re.compile(r'^\t(?:(\w+) )?"([^"]+)"', re.MULTILINE)


@dataclass
class Package:
    """The needed parts of a Go package: its structs and its names for other types, with the imports of their file."""

    path: str
    structs: dict[str, tuple[str, dict[str, str]]]
    named: dict[str, tuple[str, dict[str, str]]]


class Modules:
    """Go packages, read from their modules when first needed."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = {module_of(folder): folder for folder in folders}
        self._packages: dict[str, Package] = {}

    def package(self, path: str) -> Package:
        if path not in self._packages:
            self._packages[path] = self._read(path)
        return self._packages[path]

    def _read(self, path: str) -> Package:
        module = next(module for module in self._folders if path.startswith(f"{module}/"))
        package = Package(path, {}, {})
        for file in sorted((self._folders[module] / path.removeprefix(module).strip("/")).glob("*.go")):
            if file.name.endswith("_test.go"):
                continue
            text = file.read_text()
            imports = {alias or path.rsplit("/", 1)[-1]: path for alias, path in _IMPORT.findall(text)}
            package.structs |= {name: (body, imports) for name, body in _STRUCT.findall(text)}
            package.named |= {name: (target.strip("= "), imports) for name, target in _NAMED.findall(text)}
        return package


def module_of(folder: Path) -> str:
    return str(re.findall(r"^module (\S+)", (folder / "go.mod").read_text(), re.MULTILINE)[0])


def message_name(path: str, name: str) -> str:
    """The name under which OpenAPI documents know a Go type."""
    return f"{path.replace('k8s.io', 'io.k8s', 1).replace('/', '.')}.{name}"


class Extraction:
    """Follows types from message to message."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self.messages: dict[str, dict[str, str]] = {}

    def add(self, path: str, name: str) -> str:
        full = message_name(path, name)
        if full in self.messages or full in protobuf.SPECIAL:
            return full
        fields = self.messages[full] = {}
        body, imports = self._modules.package(path).structs[name]
        for number, field in self._fields(path, body, imports):
            fields[number] = field
        return full

    def _fields(self, path: str, body: str, imports: dict[str, str]) -> Iterator[tuple[str, str]]:
        for _, type_, tags in _FIELD.findall(body):
            tag = dict(re.findall(r'(\w+):"([^"]*)"', tags))
            if "protobuf" not in tag:
                continue  # the kind, which is not part of the message
            json_name, _, options = tag["json"].partition(",")
            described = self._type(path, type_.removeprefix("*"), imports)
            if not json_name and "inline" in options:
                described = f"={described}"
            left_out = "omit" in options and not type_.startswith("*")
            yield tag["protobuf"].split(",")[1], f"{json_name} {described}{'?' if left_out else ''}"

    def _type(self, path: str, text: str, imports: dict[str, str]) -> str:
        if text == "[]byte":
            return "bytes"
        if text.startswith("[]"):
            return f"[]{self._type(path, text[2:].removeprefix('*'), imports)}"
        if text.startswith("map["):
            return f"map {self._type(path, text.partition(']')[2], imports)}"
        if text in BASIC:
            return BASIC[text]
        if "." in text:
            alias, _, text = text.partition(".")
            path = imports[alias]
        full = message_name(path, text)
        if full in protobuf.SPECIAL:
            return full
        if path == "k8s.io/apimachinery/pkg/types":
            return "string"
        package = self._modules.package(path)
        if text in package.structs:
            return self.add(path, text)
        target, imports = package.named[text]
        return self._type(path, target, imports)


def main(folders: list[str]) -> None:
    extraction = Extraction(Modules([Path(folder) for folder in folders]))
    for kind in builtin.KINDS:
        path, _, name = kind.definition.replace("io.k8s", "k8s.io", 1).rpartition(".")
        # Only the host has dots in a path of Go.
        package = "k8s.io/" + path.removeprefix("k8s.io.").replace(".", "/")
        extraction.add(package, name)
    for root in ROOTS:
        package, _, name = root.rpartition(".")
        extraction.add(package, name)
    lines = [
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}"
        for name, fields in sorted(extraction.messages.items())
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
