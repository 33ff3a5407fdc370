import os
from pathlib import Path

import pytest

from espalier.realnodes.nspawn import inside
from espalier.realnodes.nspawn.node_files import POD_RANGE
from espalier.realnodes.nspawn.system.state import NodeFolder


def written(folder: Path, path: str, content: str) -> NodeFolder:
    node = NodeFolder(folder / "esp-0")
    file = node.root / path.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text(content)
    return node


@pytest.mark.parametrize(
    ("content", "value"), [("192.168.1.0/24\n", "192.168.1.0/24"), ("", None), ("fd00::/64\n", None), ("soon", None)]
)
def test_a_node_says_which_addresses_its_pods_have(tmp_path: Path, content: str, value: str | None) -> None:
    assert inside.pod_range(written(tmp_path, POD_RANGE, content)) == value


def test_a_node_without_a_range_has_none(tmp_path: Path) -> None:
    assert inside.pod_range(NodeFolder(tmp_path / "esp-0")) is None


def test_the_last_lines_are_those_of_the_commands(tmp_path: Path) -> None:
    lines = [
        "Cloud-init v. 22.4.2 running 'modules:final' at Sat, 21 Nov 2026 15:44:50 +0000.",
        "ci-info: no authorized SSH keys fingerprints found for user debian.",
        "",
        *(f"line {number}" for number in range(20)),
        "2026-11-21 16:34:40,795 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user",
    ]
    node = written(tmp_path, inside.LOG, "\n".join(lines))
    assert inside.last_lines(node).splitlines() == [f"line {number}" for number in range(8, 20)]


@pytest.mark.parametrize("path", [POD_RANGE, f"/{inside.LOG}"])
@pytest.mark.parametrize("kind", ["absolute", "relative", "above", "fifo", "device", "endless", "chain"])
def test_links_and_fifos_in_a_node_are_not_followed(tmp_path: Path, path: str, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("10.9.8.0/24\n")
    node = NodeFolder(tmp_path / "esp-0")
    file = node.root / path.lstrip("/")
    file.parent.mkdir(parents=True)
    up = "../" * 30
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "endless":
        with file.open("wb") as opened:
            opened.truncate(2**40)
    elif kind == "above":
        file.parent.rmdir()
        file.parent.symlink_to(tmp_path)
        (tmp_path / file.name).write_text("10.9.8.0/24\n")
    else:
        links = {"absolute": str(secret), "relative": f"{up}{secret}", "device": "/dev/zero", "chain": file.name}
        file.symlink_to(links[kind])

    assert inside.pod_range(node) is None
    assert "10.9.8" not in inside.last_lines(node)
