"""Progress on standard error: one updated line on a terminal, one line per change elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from espalier.api.text.printable import in_one_line, quoted
from espalier.cli.kit.printing.layout import LONGEST, cell_len
from espalier.cli.kit.printing.output import console, within

BELOW = "\n  "
"""Before what continues a line."""


class Progress:
    """Prints what is being waited for. `say` keeps a line; `wait` shows one until the next comes."""

    def __init__(self, out: Console | None = None) -> None:
        self.out = out or console(stderr=True)
        self._status: Status | None = None
        self._last = ""
        self._printed: set[str] = set()
        """The texts that stay, since a line was printed that is no progress."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.settle()

    @property
    def is_live(self) -> bool:
        """True if a line is updated, rather than followed by the next."""
        return self.out.is_terminal

    def say(self, text: str, sign: str = "[green]✓[/]", *, aside: str = "") -> None:
        """Print a line that stays: something is done, or has changed. `aside` follows it, dimmed; below it, if the
        terminal has no room beside."""
        self.settle()
        text, beside = quoted(text, LONGEST), f"({in_one_line(aside)})" if aside else ""
        if self.is_live:  # a command is for copying, so it is not broken
            text = within(f"- {text}", self.out.width).removeprefix("- ")
        last = text.rpartition("\n")[2] if "\n" in text else f"- {text}"
        has_room = not self.is_live or cell_len(f"{last}   {beside}") <= self.out.width
        line = f"{sign} {escape(text)}"
        if beside:
            line += f"{'   ' if has_room else BELOW}[dim]{escape(beside)}[/]"
        self.out.print(line, soft_wrap=True)

    def show(self, *commands: str) -> None:
        """Print commands or names to copy, each in one line however narrow the terminal is."""
        self.settle()
        for command in commands:
            self.out.print(f"  {_safe(command)}" if command else "", soft_wrap=True)

    def wait(self, text: str) -> None:
        """Show what is waited for, until something else is printed. The same text is not repeated; without a terminal,
        not even after others, because conditions may alternate."""
        if text == self._last:
            return
        self._last = text
        is_new = text not in self._printed
        self._printed.add(text)
        text = _safe(text)
        if not self.out.is_terminal:
            if is_new:
                self.out.print(f"  {text}")
        elif self._status:
            self._status.update(text)
        else:
            self._status = self.out.status(text, spinner="dots")
            self._status.start()

    def settle(self) -> None:
        """Remove the updated line."""
        self._last = ""
        self._printed.clear()
        if self._status:
            self._status.stop()
            self._status = None


def _safe(text: str) -> str:
    """A sentence that may contain text of others: escaped for the terminal, and not read as markup."""
    return escape(in_one_line(text))
