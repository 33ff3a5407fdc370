"""kubectl, as people and scripts use it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments.control_plane import find_assets, why_no_assets

QUICK = {"GOGC": "400"}
"""A command ends before collecting its garbage pays off."""


def find_kubectl() -> Path:
    """kubectl of the assets, else of PATH; the test is skipped when there is none."""
    assets = find_assets()
    result = assets / "kubectl" if assets is not None else shutil.which("kubectl")
    if result is None:
        pytest.skip(f"there is no kubectl: {why_no_assets()}, or put one on PATH")
    return Path(result)


class Kubectl:
    """kubectl with a kubeconfig; its cache lies in `home`. A command may take `patience` seconds."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path, *, patience: float = 90.0) -> None:
        self._program = program
        self.kubeconfig = kubeconfig
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)} | QUICK
        self.home = home
        self.patience = patience
        self.namespace = ""
        """Where commands act that name no namespace; empty for what the kubeconfig says."""

    def with_kubeconfig(self, kubeconfig: Path) -> Kubectl:
        """The same for another cluster."""
        return Kubectl(self._program, kubeconfig, self.home, patience=self.patience)

    async def finish(self, *arguments: str, stdin: str = "", **environment: str) -> tuple[int, str, str]:
        """Run to the end: exit code, what was printed, and what was complained."""
        async with self.running(*arguments, **environment) as process:
            output, complaint = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return process.returncode, output.decode(), complaint.decode()

    async def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """The output of a command that succeeds."""
        code, output, complaint = await self.finish(*arguments, stdin=stdin, **environment)
        assert code == 0, f"kubectl {shlex.join(arguments)}: {complaint}"
        return output

    async def refused(self, *arguments: str, stdin: str = "") -> str:
        """The complaint of a command that fails."""
        code, output, complaint = await self.finish(*arguments, stdin=stdin)
        assert code != 0, f"kubectl {shlex.join(arguments)} succeeded: {output}"
        return complaint

    async def tree(self, *arguments: str) -> dict[str, Any]:
        """An object as it is now."""
        return json.loads(await self("get", *arguments, "-o", "json"))  # type: ignore[no-any-return]

    async def edit(self, *object_: str, old: str, new: str) -> str:
        """`kubectl edit` by somebody whose editor replaces `old` by `new`, once; both are taken literally."""
        script = "import pathlib, sys; file = pathlib.Path(sys.argv[3]); text = file.read_text()\n"
        script += "assert sys.argv[1] in text, text; file.write_text(text.replace(sys.argv[1], sys.argv[2], 1))\n"
        editor = self.home / "editor.py"
        editor.write_text(script)
        return await self("edit", *object_, EDITOR=shlex.join([sys.executable, str(editor), old, new]))

    @asynccontextmanager
    async def running(self, *arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A command while it runs; stopped at the end."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *(["--namespace", self.namespace] if self.namespace else []),
            *arguments,
            env={**self._environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self.patience):
                yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()  # what is not read yet would hold up `wait`


def columns(text: str) -> list[list[str]]:
    """The cells of a table, whose columns are two spaces or more apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
