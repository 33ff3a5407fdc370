"""Readers of YAML: ours (as kubectl), PyYAML, and the core schema of YAML 1.2."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from espalier.api.trees import yaml_trees


class _Core(yaml.CSafeLoader):
    """The core schema of YAML 1.2, as its section 10.3.2 has it."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  as the library declares it


for _name, _pattern in (
    ("null", r"|null|Null|NULL|~"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
):
    _Core.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})\\Z"), None)


def _number(_loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> int:
    return len(node.value)  # a number at any rate, and no text


_Core.add_constructor("tag:yaml.org,2002:int", _number)
_Core.add_constructor("tag:yaml.org,2002:float", _number)

READERS: Mapping[str, Callable[[str], Any]] = {
    "kubectl's rules": lambda text: yaml_trees.trees(text, "written")[0],
    "PyYAML": lambda text: yaml.load(text, Loader=yaml.CSafeLoader),
    "YAML 1.2": lambda text: yaml.load(text, Loader=_Core),
}
"""By name; each reads the one document of a text."""
