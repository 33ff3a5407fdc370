"""`espalier etcd-guard`: what is refused before anything is begun."""

from __future__ import annotations

import sys

import pytest

from espalier.cli.backups.etcd_guard import etcd_guard
from espalier.cli.kit.failures import Usage


@pytest.mark.parametrize(
    ("etcd_socket", "control", "message"),
    [
        ("/run/e", "/run/./e", "--control: found /run/./e, which is --etcd-socket"),
        ("/run/e", "/run/plain", "--control: found /run/plain, which is --plain-socket"),
        ("/run/e", "/run/" + "g" * 110, "--control: found /run/g+, allowed are up to 107 bytes"),
    ],
)
def test_paths_unfit_for_sockets_are_refused(etcd_socket: str, control: str, message: str) -> None:
    arguments = ["--etcd-socket", etcd_socket, "--plain-socket", "/run/plain", "--control", control]
    arguments += ["--", sys.executable]
    with pytest.raises(Usage, match=message):
        etcd_guard.main(arguments, standalone_mode=False)
