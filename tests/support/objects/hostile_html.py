"""Text of a tenant that would do something in a page, and what is found in HTML that shows it."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = "</td></tr></table><script>alert(1)</script><svg onload=alert(1)>\"'&\u202egnp\x1b[2J"
"""It would end a table, run scripts in two ways, and steer the direction of text and terminals."""


class Elements(HTMLParser):
    """The elements and attributes of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parsed |= {tag, *(f"{tag} {name}" for name, _ in attrs)}

    @property
    def active(self) -> set[str]:
        """Those that run something."""
        return {item for item in self.parsed if item.partition(" ")[0] == "script" or " on" in item}
