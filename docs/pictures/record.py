"""Draws `docs/pictures/demo.svg` from what `espalier demo` prints on a terminal: `python docs/pictures/record.py`."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "espalier.cli", "demo", "-f", "examples/docker.yaml"]
_MOVING = re.compile(r"\r?\x1b\[\d*[A-K]|\x1b\[\?25[lh]|\r")


def main() -> None:
    """Run the demonstration on a terminal and draw what stays on it."""
    seen = bytearray()

    def keep(descriptor: int) -> bytes:
        data = os.read(descriptor, 4096)
        seen.extend(data)
        return data

    os.environ.update(COLUMNS="100", LINES="60", TERM="xterm-256color")
    pty.spawn(COMMAND, keep)
    lines: list[str] = []
    for line in seen.decode().split("\n"):
        # A spinner's line is drawn over and over; what stays is what follows the last time it was wiped.
        text = re.split(r"\x1b\[2K", line)[-1]
        text = _MOVING.sub("", text)
        if not re.match(r"\s*(\x1b\[[\d;]*m)*[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", text):
            lines.append(text.rstrip())
    end = next((place for place, line in enumerate(lines) if line.startswith("By hand")), len(lines))
    console = Console(record=True, width=100, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    story = "\n".join(["$ make demo", *lines[:end]]).strip()
    console.print(Text.from_ansi(story.replace("✓", "✓ ").replace("✓  ", "✓ ")))
    drawn = console.export_svg(title="espalier demo")
    # Fonts are the viewer's own: a picture must not fetch anything.
    (HERE / "demo.svg").write_text(re.sub(r"@font-face\s*\{.*?\}", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main()
