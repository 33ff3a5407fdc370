"""Questions of a command to the user at its terminal."""

from __future__ import annotations

import sys

import click

from espalier.cli.kit import interrupts


def are_possible() -> bool:
    """True if there is a terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(question: str) -> bool:
    """True for yes. Raises `KeyboardInterrupt` for a signal that ends commands, and at the end of the input.

    It blocks the loop of a command: a thread that reads the answer could not be ended, and the process with it.
    """
    try:
        with interrupts.raised_at_once():
            return click.confirm(question, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
