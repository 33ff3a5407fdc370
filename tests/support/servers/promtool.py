"""The real promtool, where it is installed: it evaluates rules over series that a test gives."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from espalier.api.meta import Tree

PROGRAM = shutil.which("promtool")
NEEDED = pytest.mark.skipif(PROGRAM is None, reason="promtool is not there: Debian has it in package prometheus")
PATIENCE = 120.0


@dataclass(frozen=True)
class Promtool:
    """promtool with rules in a folder."""

    folder: Path
    groups: Sequence[Tree]

    def check(self) -> str:
        """The complaint about the rules; empty if there is none."""
        return self._run("check", "rules", "--lint=all", "--lint-fatal", str(self._rules()))

    def firing(self, series: Mapping[str, str], *times: tuple[str, int]) -> str:
        """Empty if no alert fires at these times, each an alert and a minute; else what does, as promtool prints it.

        `series` are values for each minute, in promtool's notation.
        """
        test = {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [
                {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []} for alert, minute in times
            ],
        }
        file = self.folder / "tests.json"
        file.write_text(json.dumps({"rule_files": [str(self._rules())], "evaluation_interval": "1m", "tests": [test]}))
        return self._run("test", "rules", str(file))

    def _rules(self) -> Path:
        file = self.folder / "rules.json"  # JSON is YAML
        file.write_text(json.dumps({"groups": list(self.groups)}))
        return file

    def _run(self, *arguments: str) -> str:
        assert PROGRAM is not None
        ended = subprocess.run(
            [PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=self.folder
        )
        return "" if ended.returncode == 0 else ended.stdout + ended.stderr
