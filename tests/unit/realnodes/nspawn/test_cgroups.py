"""Control groups of nodes on folders that look as the kernel's do: of v1, of v2 alone, and of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from espalier.realnodes.nspawn.system import cgroups

Use = Callable[..., None]

V1 = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
"""
BOTH = f"{V1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
V2 = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Have these folders be the hierarchies of the machine."""
    return lambda *folders: monkeypatch.setattr(cgroups, "hierarchies", lambda: list(folders))


def v2(root: Path, *, enabled: str = "") -> Path:
    """A hierarchy of v2; the kernel makes the files of a group with its folder, so those of a node's are here too."""
    for folder in (root, root / "espalier", root / "espalier" / "esp-1"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma\n")
        (folder / "cgroup.subtree_control").write_text(f"{enabled}\n")
        (folder / "cgroup.procs").write_text("")
    return root


def cpuset(root: Path) -> Path:
    """The hierarchy of CPUs of v1, in which new groups have none."""
    for folder, cpus, memories in ((root, "0-3", "0"), (root / "espalier", "", ""), (root / "espalier/esp-1", "", "")):
        folder.mkdir(exist_ok=True)
        (folder / "cpuset.cpus").write_text(f"{cpus}\n")
        (folder / "cpuset.mems").write_text(f"{memories}\n")
        (folder / "cgroup.clone_children").write_text("0\n")
    return root


@pytest.mark.parametrize(
    ("mounts", "value"),
    [
        (V1, ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd"]),
        (BOTH, ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"]),
        (V2, ["/sys/fs/cgroup"]),
    ],
)
def test_hierarchies_are_known_by_their_mounts(tmp_path: Path, mounts: str, value: list[str]) -> None:
    (tmp_path / "mounts").write_text(mounts)
    assert cgroups.hierarchies(tmp_path / "mounts") == [Path(folder) for folder in value]


def test_groups_of_node_have_what_kubelet_needs_on_v2(tmp_path: Path, use: Use) -> None:
    use(v2(tmp_path))
    assert cgroups.make("esp-1") == [tmp_path / "espalier" / "esp-1"]
    for folder in (tmp_path, tmp_path / "espalier"):
        assert (folder / "cgroup.subtree_control").read_text() == "+cpu +cpuset +io +memory +pids"
    assert (tmp_path / "espalier/esp-1/cgroup.subtree_control").read_text() == "\n"  # the node's own business


def test_on_v2_only_what_is_missing_is_switched_on(tmp_path: Path, use: Use) -> None:
    use(v2(tmp_path, enabled="cpu memory pids"))
    cgroups.make("esp-1")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset +io"
    use(v2(tmp_path, enabled="cpu cpuset io memory pids"))
    cgroups.make("esp-1")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "cpu cpuset io memory pids\n"


def test_undividable_group_is_named_with_advice(tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    use(v2(tmp_path))

    def busy(_file: Path, _content: str) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "write_text", busy)
    with pytest.raises(OSError, match="can't have the controllers cpu, cpuset, io, memory, pids") as refused:
        cgroups.make("esp-1")
    assert str(tmp_path) in str(refused.value)
    assert "(Device or resource busy): run real nodes outside of containers" in str(refused.value)


def test_on_v1_node_gets_cpus_and_memory_of_machine(tmp_path: Path, use: Use) -> None:
    use(cpuset(tmp_path))
    cgroups.make("esp-1")
    assert (tmp_path / "espalier/esp-1/cpuset.cpus").read_text() == "0-3\n"
    assert (tmp_path / "espalier/esp-1/cpuset.mems").read_text() == "0\n"


def test_node_is_all_processes_of_its_groups(tmp_path: Path, use: Use) -> None:
    result, other = tmp_path / "one", tmp_path / "other"
    for folder, processes in ((result / "espalier/esp-1", "7\n"), (result / "espalier/esp-1/kubelet/pod", "12\n9\n")):
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(processes)
    (other / "espalier/esp-1").mkdir(parents=True)
    (other / "espalier/esp-1/cgroup.procs").write_text("7\n9\n")
    use(result, other)
    assert list(cgroups.members("esp-1")) == [7, 9, 12]
    assert list(cgroups.members("esp-2")) == []


def test_groups_of_node_go_and_those_of_others_stay(tmp_path: Path, use: Use) -> None:
    use(tmp_path)
    for folder in ("espalier/esp-1/kubelet/pod", "espalier/esp-2", "system"):
        (tmp_path / folder).mkdir(parents=True)
    cgroups.remove("esp-1")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["esp-2", "espalier", "system"]
    cgroups.remove("esp-2")
    assert [path.name for path in tmp_path.iterdir()] == ["system"]
