"""Draws the diagrams of docs/how-it-works.md: `python docs/pictures/diagrams.py`.

Each is an SVG of its own, without external parts, in the colours that the reader's system prefers.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
_LINE = 17
_STYLE = """
svg { --ink: #1f2933; --faint: #5b6875; --line: #8a97a5; --paper: #ffffff; --box: #f4f6f8; --ours: #e3f1ea;
  --edge: #2f7d5b; --gap: #fbe3df; font: 14px system-ui, sans-serif; background: var(--paper); }
@media (prefers-color-scheme: dark) { svg { --ink: #e6ebf0; --faint: #a3b0bd; --line: #6f7d8b; --paper: #14191f;
  --box: #1d242c; --ours: #17352a; --edge: #67c49b; --gap: #4a2420; } }
text { fill: var(--ink); } .title { font-weight: 600; } .small { fill: var(--faint); font-size: 12.5px; }
rect { fill: var(--box); stroke: var(--line); } .ours { fill: var(--ours); stroke: var(--edge); }
.area { fill: none; stroke-dasharray: 4 4; } .gap { fill: var(--gap); stroke: none; }
path, line { stroke: var(--line); stroke-width: 1.6; fill: none; marker-end: url(#tip); }
.lane { marker-end: none; stroke-dasharray: 2 5; } marker path { fill: var(--line); stroke: none; marker-end: none; }
"""


def box(x: int, y: int, width: int, height: int, title: str, lines: Sequence[str] = (), kind: str = "") -> str:
    """A rectangle with a title and lines below it."""
    middle = x + width / 2
    top = y + (height - _LINE * len(lines)) / 2 + 5
    parts = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>']
    parts.append(_text(middle, top, title, "title"))
    parts += [_text(middle, top + _LINE * number, line, "small") for number, line in enumerate(lines, 1)]
    return "".join(parts)


def area(x: int, y: int, width: int, height: int, title: str) -> str:
    """A dashed rectangle around others, with its title at the top left."""
    frame = f'<rect class="area" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    return frame + f'<text class="small" x="{x + 12}" y="{y + 20}">{escape(title)}</text>'


def arrow(points: str, label: str = "", at: tuple[int, int] = (0, 0)) -> str:
    """An arrow along a path, and its label with its middle at a point."""
    return f'<path d="{points}"/>' + (_text(*at, label, "small") if label else "")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def picture(left: int, width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """An SVG from the coordinate `left` on; the title is what screen readers say."""
    tip = '<path d="M0 0 L8 4 L0 8 z"/>'
    marker = f'<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">{tip}</marker>'
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} 0 {width} {height}" role="img" aria-label="{title}">'
    )
    return f"{start}\n<style>{_STYLE}</style>\n<defs>{marker}</defs>\n" + "\n".join(parts) + "\n</svg>\n"


def architecture() -> str:
    """Who writes what: from a manifest to machines."""
    return picture(
        0,
        900,
        500,
        "From a manifest to machines: people and Git write objects; Espalier turns them into objects of Cluster API",
        [
            box(40, 20, 230, 52, "kubectl apply"),
            box(335, 20, 230, 52, "Flux, Argo CD"),
            box(630, 20, 230, 52, "espalier", ["create, plan, upgrade, move"]),
            area(20, 104, 860, 238, "management cluster"),
            box(
                280,
                132,
                340,
                66,
                "API server",
                ["Cluster, machine configs, EKSARelease, Bundles", "Cluster API's objects"],
            ),
            arrow("M155 72 L350 128"),
            arrow("M450 72 L450 128"),
            arrow("M745 72 L552 128"),
            box(
                60,
                246,
                300,
                76,
                "Espalier's manager",
                ["refuses what can't be made", "Cluster -> objects of Cluster API"],
                "ours",
            ),
            box(400, 246, 210, 76, "Cluster API", ["machines, rollouts,", "kubeadm"]),
            box(650, 246, 210, 76, "infrastructure provider", ["vSphere, Nutanix, Snow,", "Tinkerbell, CloudStack"]),
            arrow("M330 202 L240 242"),
            arrow("M260 242 L350 202", "watches, writes", (218, 219)),
            arrow("M470 202 L495 242"),
            arrow("M518 242 L493 202"),
            arrow("M580 202 L715 242"),
            arrow("M742 242 L607 202"),
            area(20, 370, 860, 112, "workload clusters"),
            box(60, 400, 300, 62, "API server, etcd", ["own releases, own certificates"]),
            box(400, 400, 460, 62, "machines", ["kubelet and containerd, upgraded in place or replaced"]),
            arrow("M210 322 L210 396", "CNI, accounts", (262, 362)),
            arrow("M755 322 L755 396", "creates, deletes", (812, 362)),
        ],
    )


def reconcile() -> str:
    """The four stages of each controller."""
    y, height, width = 96, 92, 178
    stages = [
        ("observe", ["reads caches,", "into a frozen scope"]),
        ("plan", ["pure: what should exist,", "what differs"]),
        ("act", ["named steps, each ends:", "go on, wait, done, fault"]),
        ("report", ["conditions and status,", "with reason and remedy"]),
    ]
    parts = [
        box(20 + number * 218, y, width, height, title, lines, "ours") for number, (title, lines) in enumerate(stages)
    ]
    parts += [arrow(f"M{198 + number * 218} {y + 46} L{234 + number * 218} {y + 46}") for number in range(3)]
    parts += [
        box(20, 20, 178, 44, "queue of keys"),
        arrow("M109 64 L109 92"),
        box(238, 236, 614, 52, "API server", ["one write for each object that differs; none for a settled cluster"]),
        arrow("M545 188 L545 232", "objects", (576, 214)),
        arrow("M763 188 L763 232", "status", (792, 214)),
        arrow("M238 262 L-14 262 L-14 42 L16 42", "events, into caches", (112, 254)),
    ]
    return picture(-30, 902, 308, "A reconcile: observe, plan, act, report", parts)


def move() -> str:
    """The move of a shoot's control plane, lane by lane."""
    lanes = ["garden", "source seed", "bucket", "destination seed", "nodes"]
    lefts = [96 + 196 * number for number in range(len(lanes))]
    parts = ['<rect class="gap" x="194" y="206" width="784" height="176" rx="6"/>']
    parts.append(_text(966, 226, "the API is down: seconds", "small", "end"))
    for left, lane in zip(lefts, lanes, strict=True):
        parts.append(box(left - 78, 16, 156, 34, lane))
        parts.append(f'<line class="lane" x1="{left}" y1="50" x2="{left}" y2="500"/>')
    garden, source, bucket, destination, nodes = lefts
    steps: list[tuple[int, int, int, str]] = [
        (88, source, garden, "state, all along"),
        (120, source, bucket, "snapshots, all along"),
        (170, garden, source, "spec.seedName: west"),
        (250, source, bucket, "final snapshot"),
        (286, source, garden, "status.seedName: west"),
        (322, bucket, destination, "copy, verified"),
        (358, destination, garden, "epoch starts, DNS"),
        (420, garden, destination, "state"),
        (420, nodes, destination, "kubelets reconnect"),
        (472, destination, nodes, "finds its machines"),
    ]
    for y, start, end, label in steps:
        inset = 6 if end > start else -6
        parts.append(arrow(f"M{start + inset} {y} L{end - inset} {y}"))
        middle = (start + end) / 2 if abs(end - start) < 300 else destination - 98
        parts.append(_text(middle, y - 7, label, "small"))
    return picture(0, 984, 516, "A control plane moves to another seed while its nodes keep running", parts)


def main() -> None:
    """Write the three pictures."""
    for name, text in (("architecture", architecture()), ("reconcile", reconcile()), ("move", move())):
        (HERE / f"{name}.svg").write_text(text)


if __name__ == "__main__":
    main()
