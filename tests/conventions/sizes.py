"""Prints files, functions and parameter lists that stick out: a mirror for their authors, not a gate."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES_OF_A_FILE, LINES_OF_A_FUNCTION, PARAMETERS = 400, 60, 8


def report() -> list[str]:
    rows: list[tuple[int, str]] = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text, name = path.read_text(), path.relative_to(ROOT)
        if (lines := text.count("\n")) > LINES_OF_A_FILE:
            rows.append((lines, f"{lines:5} lines       {name}"))
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            parameters = len(node.args.args) + len(node.args.kwonlyargs)
            if length > LINES_OF_A_FUNCTION:
                rows.append((length, f"{length:5} lines       {name}:{node.lineno} {node.name}"))
            if parameters > PARAMETERS:
                rows.append((parameters, f"{parameters:5} parameters  {name}:{node.lineno} {node.name}"))
    return [text for _, text in sorted(rows, reverse=True)]


if __name__ == "__main__":
    print("\n".join(report()) or "nothing sticks out")
