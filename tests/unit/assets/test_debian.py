"""Debian packages: the mirror that the machine already uses, and which files an image takes of a file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.assets import debian

OLD_FORM = "# deb http://commented.example/debian bookworm main\ndeb [signed-by=/k] http://one.example/debian {} main\n"
NEW_FORM = (
    "Types: deb\n# a comment\nURIs: http://two.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(debian.MIRROR, raising=False)
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_packages_come_from_where_machine_takes_them(apt: Path) -> None:
    (apt / "sources.list").write_text(OLD_FORM.format("bookworm"))
    assert debian.mirror(apt) == "http://one.example/debian"


def test_sources_in_the_new_form_are_read_as_well(apt: Path) -> None:
    (apt / "sources.list.d" / "debian.sources").write_text(NEW_FORM)
    assert debian.mirror(apt) == "http://two.example/debian"


def test_other_suite_leaves_it_to_debootstrap(apt: Path) -> None:
    (apt / "sources.list").write_text(OLD_FORM.format("noble"))
    assert debian.mirror(apt) is None


def test_a_named_mirror_wins(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (apt / "sources.list").write_text(OLD_FORM.format("bookworm"))
    monkeypatch.setenv(debian.MIRROR, "http://mine.example/debian")
    assert debian.mirror(apt) == "http://mine.example/debian"


def test_images_come_from_all_sources_of_debian(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (apt / "sources.list").write_text(OLD_FORM.format("trixie-security") + OLD_FORM.format("noble"))
    (apt / "sources.list.d" / "debian.sources").write_text(NEW_FORM)
    (apt / "sources.list.d" / "other.sources").write_text(
        "URIs: http://x.example/\nSuites: nodistro\nComponents: main\n"
    )
    assert debian.mirrors(apt) == ["http://one.example/debian", "http://two.example/debian"]
    monkeypatch.setenv(debian.MIRROR, "http://mine.example/debian/  http://mine.example/security")
    assert debian.mirrors(apt) == ["http://mine.example/debian", "http://mine.example/security"]
    assert debian.mirror(apt) == "http://mine.example/debian/"


def test_machine_without_debian_has_no_mirror_of_it(apt: Path) -> None:
    (apt / "sources.list").write_text(OLD_FORM.format("noble"))
    assert debian.mirrors(apt) == []


STATUS = """\
Package: proxy
Status: install ok installed
Depends: libproxy1 (>= 1.2), absent | awk

Package: libproxy1
Status: install ok installed
Pre-Depends: libc

Package: libc
Status: install ok installed
Description: the library
 that all need

Package: mawk
Status: install ok installed
Provides: awk

Package: editor
Status: install ok installed

Package: removed
Status: deinstall ok config-files
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small file system of packages, with merged /usr and one alternative."""
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info.parent / "status").write_text(STATUS)
    lists = {
        "proxy": "/.\n/usr\n/usr/sbin\n/usr/sbin/proxy-nft\n/usr/share/doc/proxy/copyright\n",
        "libproxy1:amd64": "/usr/lib/libproxy.so.1\n/usr/lib/libproxy.so.1.2\n",
        "libc": "/lib/libc.so.6\n",
        "mawk": "/usr/bin/mawk\n",
        "editor": "/usr/bin/editor\n",
    }
    for package, lines in lists.items():
        (info / f"{package}.list").write_text(lines)
    for folder in ("usr/sbin", "usr/bin", "usr/lib", "usr/share/doc/proxy", "etc/alternatives"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("usr/sbin/proxy-nft", "usr/share/doc/proxy/copyright", "usr/lib/libproxy.so.1.2", "usr/lib/libc.so.6"):
        (tmp_path / file).write_text(file)
    for file in ("usr/bin/mawk", "usr/bin/editor"):
        (tmp_path / file).write_text(file)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/libproxy.so.1").symlink_to("libproxy.so.1.2")
    (tmp_path / "usr/sbin/proxy").symlink_to("/etc/alternatives/proxy")
    (tmp_path / "etc/alternatives/proxy").symlink_to("/usr/sbin/proxy-nft")
    (tmp_path / "usr/bin/edit").symlink_to("/etc/alternatives/edit")
    (tmp_path / "etc/alternatives/edit").symlink_to("/usr/bin/editor")
    return tmp_path


def test_image_takes_a_package_with_its_dependencies(root: Path) -> None:
    assert debian.package_files(root, ["proxy"]) == {
        "lib": "usr/lib",
        "usr/lib/libc.so.6": root / "usr/lib/libc.so.6",
        "usr/lib/libproxy.so.1": "libproxy.so.1.2",
        "usr/lib/libproxy.so.1.2": root / "usr/lib/libproxy.so.1.2",
        "usr/bin/mawk": root / "usr/bin/mawk",
        "usr/sbin/proxy-nft": root / "usr/sbin/proxy-nft",
        "usr/sbin/proxy": "/etc/alternatives/proxy",
        "etc/alternatives/proxy": "/usr/sbin/proxy-nft",
    }


@pytest.mark.parametrize("package", ["removed", "unheard-of"])
def test_a_package_that_is_not_installed_is_named(root: Path, package: str) -> None:
    with pytest.raises(ValueError, match=f"the Debian package {package} is not installed"):
        debian.package_files(root, [package])
