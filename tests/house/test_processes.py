"""Which packages a process loads: the manager of production carries nothing of the laptop world."""

from __future__ import annotations

import subprocess
import sys


def loaded(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sorted(name for name in sys.modules if name.startswith('espalier')))"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_the_manager_loads_neither_the_laptop_world_nor_the_embedded_api_server() -> None:
    packages = {".".join(name.split(".")[:2]) for name in loaded("espalier.cli.manager")}
    assert "espalier.clusters" in packages
    assert not packages & {"espalier.local", "espalier.apiserver"}


def test_no_command_loads_the_laptop_world_before_it_is_asked_for_one() -> None:
    assert not {
        name for name in loaded("espalier.cli.main") if name.startswith(("espalier.local", "espalier.apiserver"))
    }
