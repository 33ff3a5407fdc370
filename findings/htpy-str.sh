#!/usr/bin/env bash
# Library:       htpy 26.5.1 (HTML as Python), with markupsafe 3.0.4.
# Guess:         str(element) is plain text: put into another element, it is escaped as any text.
# What happens:  it is a markupsafe.Markup, which is put in as HTML; and so is what is made of it: text that is added
#                is escaped. Joining the element's chunks gives plain text. Output seen:
#                  str            Markup   <div><p>&lt;b&gt;</p></div>
#                  f-string       Markup   <div><p>&lt;b&gt;</p></div>
#                  str + text     Markup   <div><p>&lt;b&gt;</p>&lt;i&gt;</div>
#                  joined chunks  str      <div>&lt;p&gt;&amp;lt;b&amp;gt;&lt;/p&gt;</div>
# For users:     a function that returns `str` by its annotation returns HTML that is trusted wherever it goes, also
#                after parts of it were cut or stored; and a test that compares `str(a) + str(b)` escapes what it compares.
# Espalier:      src/espalier/dashboard/html/parts.py joins chunks, and one function says where text is HTML.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check htpy==26.5.1 markupsafe==3.0.4
"$work/venv/bin/python" - <<'E'
import sys

from htpy import div, p

element = p["<b>"]
PLAIN = "<div>&lt;p&gt;&amp;lt;b&amp;gt;&lt;/p&gt;</div>"
HTML = "<div><p>&lt;b&gt;</p></div>"
CASES = {
    "str": (str(element), "Markup", HTML),
    "f-string": (f"{element}", "Markup", HTML),
    "str + text": (str(element) + "<i>", "Markup", "<div><p>&lt;b&gt;</p>&lt;i&gt;</div>"),
    "joined chunks": ("".join(element.iter_chunks()), "str", PLAIN),
}
for name, (text, kind, expected) in CASES.items():
    within = "".join(div[text].iter_chunks())
    print(f"{name:14} {type(text).__name__:8} {within}")
    if (type(text).__name__, within) != (kind, expected):
        sys.exit(f"{name} is another thing now")
E
