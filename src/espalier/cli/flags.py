"""Flags that several commands share, named as kubectl names them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from espalier.cli.failures import Usage


@Parameter(name="*")
@dataclass(frozen=True)
class Connection:
    """Which API server to talk to."""

    kubeconfig: Annotated[
        Path | None, Parameter(help="Kubeconfig file; else $KUBECONFIG, the laptop world's, ~/.kube/config.")
    ] = None
    context: Annotated[str | None, Parameter(help="Context within the kubeconfig.")] = None
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"], help="Namespace; else the context's.")] = (
        None
    )


Releases = Annotated[
    Path | None,
    Parameter(
        name="--releases",
        help="Folder with a releases manifest (releases.yaml and what it names), instead of that of this build.",
    ),
]


Namespaces = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--namespace", "-n"],
        help="Only Clusters of these namespaces: names by comma, or the flag several times. Else those of all.",
        negative="",
    ),
]

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def namespaces(given: Iterable[str]) -> tuple[str, ...]:
    """The namespaces that `--namespace` names, once each. Raises `Usage` for what can't be one."""
    names = dict.fromkeys(name for text in given for name in text.split(","))
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            allowed = "names of namespaces (lower case, digits and dashes), by comma"
            raise Usage(f"--namespace: found {name!r}, allowed are {allowed}; leave the flag out to watch them all")
    return tuple(names)


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(text: str, flag: str = "--timeout") -> float:
    """A duration as kubectl writes it (`90s`, `5m`, `1h30m`), in seconds. Raises `Usage` for anything else."""
    if re.fullmatch(r"\d+", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Usage(f"{flag}: found {text!r}, allowed is a duration such as 90s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
