"""Folding: layers that all supported releases have are merged into the base, so that the table stays small.

A layer stays in the table for the skew window and one minor version: in the managers of the minor version that
introduced it and of the two after. In the third, all clusters have it, whatever their patch version, and it is due.

`python -m espalier.clusters.design.layers.folding` prints the due layers, and the table afterwards. The change is made
by hand in `table.py`: the functions and defaults of these layers move to the base, in order, and their `Layer`s go.
Later their code may be merged into the rendering code itself; the stories show that neither changes anything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import semver
from msgspec.structs import replace

from espalier.clusters.design.layers.layer import BASE, Layer, release
from espalier.clusters.design.layers.table import LAYERS

WINDOW = 2
"""The number of minor versions that clusters may be behind their manager."""


def due(table: Sequence[Layer], newest: semver.Version) -> tuple[Layer, ...]:
    """The layers to fold in a manager of release `newest`: all that are older than the minor versions it supports."""
    oldest = semver.Version(newest.major, max(newest.minor - WINDOW, 0))
    return tuple(layer for layer in table if BASE < layer.since < oldest)


def folded(table: Sequence[Layer], newest: semver.Version) -> tuple[Layer, ...]:
    """The table with the due layers in its base. Clusters of supported releases are rendered the same."""
    base, *others = table
    due_layers = due(table, newest)
    functions = [function for layer in (base, *due_layers) for function in layer.functions]
    defaults = [default for layer in (base, *due_layers) for default in layer.defaults]
    grown = replace(base, functions=tuple(functions), defaults=tuple(defaults))
    return (grown, *(layer for layer in others if layer not in due_layers))


def report(table: Sequence[Layer], newest: semver.Version) -> str:
    """Instructions for the maintainer."""
    due_layers = due(table, newest)
    if not due_layers:
        return f"v{newest}: no layer is due"
    names = ", ".join(f"{layer.name} (v{layer.since})" for layer in due_layers)
    base, *others = folded(table, newest)
    parts = [f"{part.__module__.rpartition('.')[2]}.{part.__name__}" for part in (*base.functions, *base.defaults)]
    left = ", ".join(layer.name for layer in others) or "none"
    return f"v{newest}: layers to fold: {names}\nparts of the base then: {', '.join(parts)}\nremaining layers: {left}"


def main(arguments: Sequence[str]) -> int:
    """Print what is due for a manager's release, like v0.27.0; by default for the newest in the table."""
    newest = release(arguments[0]) if arguments else max(layer.since for layer in LAYERS)
    if newest is None:
        sys.stderr.write(f"found {arguments[0]}, expected a release like v0.27.0\n")
        return 2
    sys.stdout.write(report(LAYERS, newest) + "\n")
    return 1 if due(LAYERS, newest) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
