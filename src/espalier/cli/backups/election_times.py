"""The file of `--timing`: times of an election, one per field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from espalier.api.etcd.timing import Timing, TimingError
from espalier.api.text.violations import Violation, nearest_name, shown
from espalier.api.trees import yaml_trees
from espalier.cli.kit.failures import Usage

_LARGEST = 1 << 16
_FIELDS = dict(zip(Timing.__struct_encode_fields__, Timing.__struct_fields__, strict=True))


def read_times(file: Path | None) -> Timing:
    """The times in a file (YAML or JSON); the defaults without a file. Raises `Usage` with all problems."""
    if file is None:
        return Timing()
    try:
        tree = yaml_trees.document(file, _LARGEST)
    except OSError as error:
        raise Usage(f"--timing: cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise Usage(f"--timing: {file}: {error}") from None
    violations = tuple(_misfits(tree))
    try:
        if not violations:
            return Timing(**{_FIELDS[field]: value for field, value in tree.items()})
    except TimingError as error:
        violations = error.violations
    raise Usage("\n".join(f"--timing: {file}: {violation}" for violation in violations))


def _misfits(tree: Any) -> Iterator[Violation]:
    if not isinstance(tree, dict):
        yield Violation("", shown(tree), f"fields with seconds, such as validity: {Timing().validity:g}", "no times")
        return
    for field, value in tree.items():
        if field not in _FIELDS:
            near = nearest_name(str(field), tuple(_FIELDS))
            message = f"unknown field{f'; did you mean {near}?' if near else ''}"
            yield Violation(str(field), shown(value), ", ".join(_FIELDS), message)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            yield Violation(field, shown(value), "a number of seconds, such as 15", "it is not a number")
