"""Writing of trees as YAML. Each text in them is read back as the same text, whoever reads it.

PyYAML leaves text unquoted that is a number or a boolean to Go (`1e3`, `0o17`, `08`, `y`; `scalars.py`) or by YAML 1.2.
All YAML that this program makes of trees is written here.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_LONG = 10**6


def dump(
    *trees: Any,
    sort_keys: bool = False,
    allow_unicode: bool = False,
    width: int = _LONG,
    blocks: bool = False,
    quote_digits: bool = False,
    explicit_start: bool = False,
) -> str:
    """Documents in block style, without anchors: a tool that edits one of two places must not change the other.

    `width` is the column after which a text with spaces is folded. `blocks` writes text of several lines as literal
    blocks where YAML allows it, `quote_digits` quotes all text that begins with a digit.
    """
    text: str = yaml.dump_all(
        trees,
        Dumper=_DUMPERS[blocks, quote_digits],
        sort_keys=sort_keys,
        allow_unicode=allow_unicode,
        width=width,
        explicit_start=explicit_start,
    )
    return text


_TEXT = "tag:yaml.org,2002:str"
_ESCAPED = re.compile("[\x85\u2028\u2029\ufeff]")
"""Line breaks of YAML 1.1 that are none of YAML 1.2, and the mark of byte order."""

_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?=[_.]*[0-9])[0-9_]*\.?[0-9_]*(?:[eE][-+]?[0-9_]+)?)\Z"
)


class _Dumper(yaml.CSafeDumper):
    blocks = quote_digits = False

    def ignore_aliases(self, _data: object) -> bool:
        return True

    def text(self, text: str) -> yaml.Node:
        style = None
        if not text.isascii() and _ESCAPED.search(text):
            style = '"'
        elif self.blocks and "\n" in text:
            style = "|"
        elif self.quote_digits and text[:1].isdigit():
            style = '"'
        return self.represent_scalar(_TEXT, text, style=style)


# PyYAML quotes text that resolves to another type. It tries its own resolvers before these.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
_Dumper.add_representer(str, _Dumper.text)


class _Blocks(_Dumper):
    blocks = True


class _Quoted(_Dumper):
    quote_digits = True


class _QuotedBlocks(_Blocks, _Quoted):
    pass


_DUMPERS = {(each.blocks, each.quote_digits): each for each in (_Dumper, _Blocks, _Quoted, _QuotedBlocks)}
