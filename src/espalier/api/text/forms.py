"""Names of which the characters are limited. Each form is declared once: the pattern that a rule enforces and the words
of its message are made from the declaration.
"""

from typing import NamedTuple

_NAMES = {"-": "dashes", "_": "underscores", ".": "dots", "/": "slashes"}

LETTER, LETTER_OR_DIGIT, LETTER_OR_UNDERSCORE = "a letter", "a letter or digit", "a letter or underscore"


class Form(NamedTuple):
    """Letters, digits and some signs."""

    signs: str = "-"
    """Allowed beside letters and digits."""
    longest: int | None = None
    """Characters; None if something else limits them."""
    shortest: int = 1
    """1 or 2."""
    is_lower: bool = False
    """True without upper-case letters."""
    first: str = LETTER_OR_DIGIT
    """Words for the first character; empty if it may be any of them."""
    last: str = LETTER_OR_DIGIT
    """Words for the last one."""

    @property
    def part(self) -> str:
        """A regular expression for such a name, within others."""
        letters = "a-z" if self.is_lower else "A-Za-z"
        # A dash between others would be a range.
        inside = f"[{letters}0-9{''.join(sorted(self.signs, key='./_-'.index))}]"
        ends = {LETTER: f"[{letters}]", LETTER_OR_DIGIT: f"[{letters}0-9]", LETTER_OR_UNDERSCORE: f"[{letters}_]"}
        if not (self.first or self.last):
            return inside + (f"{{{self.shortest},{self.longest}}}" if self.longest is not None else "+")
        between = f"{{0,{self.longest - 2}}}" if self.longest is not None else "*"
        first, last = ends.get(self.first, inside), ends.get(self.last, inside)
        rest = f"{inside}{between}{last}"
        return f"{first}{rest}" if self.shortest == 2 else f"{first}({rest})?"

    @property
    def pattern(self) -> str:
        """A regular expression for a whole name."""
        return f"^{self.part}$"

    @property
    def words(self) -> str:
        """The same for people."""
        *first, last = ("letters", "digits", *(_NAMES[sign] for sign in "-_./" if sign in self.signs))
        kind = f"{'lower-case ' if self.is_lower else ''}{', '.join(first)} and {last}"
        lengths = f"{self.shortest} to {self.longest}" if self.shortest > 1 else f"at most {self.longest}"
        text = f"{lengths} {kind}" if self.longest is not None else kind
        if self.first == self.last:
            return f"{text}, beginning and ending with {self.first}" if self.first else text
        ends = [f"{verb} with {end}" for verb, end in (("beginning", self.first), ("ending", self.last)) if end]
        return f"{text}, {' and '.join(ends)}"


CLUSTER_NAME = Form("-", longest=35, shortest=2, is_lower=True, first=LETTER)
DNS_LABELS = Form("-", longest=63, is_lower=True)
LABEL_VALUE = Form("-_.", longest=63)
"""A label's value, or the last part of its name."""
