"""Debian's packages of images: downloaded, verified and unpacked without dpkg."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from espalier.assets.processes import BuildFailed
from espalier.cli.local.images.bases import base_packages
from espalier.cli.local.images.bases.base_packages import Lock, Package, download, unpack

CONTROL = "Package: thing\nVersion: 1-2\nArchitecture: amd64\nDepends: libc6\nDescription: a thing\n more of it\n"


def entry(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.linkname = kind, mode, link
    return made


def tar(entries: Mapping[str, bytes], *others: tarfile.TarInfo) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:xz") as archive:
        for name, content in entries.items():
            made = entry(name, mode=0o755 if "/bin/" in name else 0o640)
            made.size = len(content)
            archive.addfile(made, io.BytesIO(content))
        for other in others:
            archive.addfile(other)
    return target.getvalue()


def package(data: bytes, control: str = CONTROL) -> bytes:
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": tar({"./control": control.encode()}),
        "data.tar.xz": data,
    }
    made = b"!<arch>\n"
    for name, content in members.items():
        made += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        made += b"\n" * (len(content) % 2)
    return made


def in_lock(content: bytes) -> Package:
    return Package("amd64", "thing", "1-2", hashlib.sha256(content).hexdigest(), len(content), "pool/thing.deb")


LOCK = Lock("trixie", "2026-11-28", ())
CONTENT = package(tar({"./usr/bin/thing": b"program"}))


class Mirror:
    """A mirror on this machine: path -> content, or the status of an answer without one."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | int | list[bytes | int]] = {}
        self.asked: list[str] = []
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                answer = mirror.files.get(self.path, 404)
                if isinstance(answer, list):
                    answer = answer.pop(0)
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mirror]:
    made = Mirror()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ESPALIER_DEBIAN_MIRROR", f"{made.address}/old {made.address}/debian/")
    monkeypatch.setattr(base_packages, "PAUSES", (0.0, 0.0))
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


def fetch(content: bytes = CONTENT) -> list[Path]:
    return download(LOCK, [in_lock(content)], show=lambda _: None)


def test_package_comes_from_the_mirror_that_has_it(mirror: Mirror) -> None:
    mirror.files["/debian/pool/thing.deb"] = CONTENT
    (place,) = fetch()
    assert place.read_bytes() == CONTENT
    assert mirror.asked == ["/old/pool/thing.deb", "/debian/pool/thing.deb"]
    assert fetch() == [place]
    assert len(mirror.asked) == 2


@pytest.mark.parametrize("address", ["deb.debian.org/debian", "http://[::1/debian", "http://127.0.0.1:x/debian"])
def test_mirror_without_a_valid_address_is_named(mirror: Mirror, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("ESPALIER_DEBIAN_MIRROR", address)
    with pytest.raises(BuildFailed, match="could not be downloaded") as failure:
        fetch()
    assert f"({address}: " in str(failure.value)


def test_damaged_package_in_cache_is_fetched_again(mirror: Mirror) -> None:
    mirror.files["/debian/pool/thing.deb"] = CONTENT
    (place,) = fetch()
    place.write_bytes(CONTENT[:-1])
    (again,) = fetch()
    assert again.read_bytes() == CONTENT


def test_mirror_that_fails_for_a_moment_is_asked_again(mirror: Mirror) -> None:
    mirror.files["/debian/pool/thing.deb"] = [503, CONTENT]
    (place,) = fetch()
    assert place.read_bytes() == CONTENT


@pytest.mark.parametrize("sent", [b"<html>", CONTENT[:-1], CONTENT + b"more", 404, 403, 500])
def test_another_package_is_refused(mirror: Mirror, sent: bytes | int, tmp_path: Path) -> None:
    mirror.files["/debian/pool/thing.deb"] = sent
    with pytest.raises(BuildFailed) as failure:
        fetch()
    message = str(failure.value)
    assert "thing 1-2 could not be downloaded" in message
    assert f"{mirror.address}/debian: " in message
    assert "make base-packages" in message
    assert "2026-11-28" in message
    assert list((tmp_path / "cache/packages").iterdir()) == []


def test_unnamed_mirror_is_asked_for(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ESPALIER_DEBIAN_MIRROR")
    monkeypatch.setattr(base_packages, "mirrors", list)
    with pytest.raises(BuildFailed, match="set ESPALIER_DEBIAN_MIRROR"):
        fetch()


def test_package_is_unpacked_with_links_and_modes(tmp_path: Path) -> None:
    place = tmp_path / "thing.deb"
    link = entry("./usr/lib/libthing.so.1", tarfile.SYMTYPE, link="libthing.so.1.2")
    place.write_bytes(package(tar({"./usr/bin/thing": b"program", "./usr/lib/libthing.so.1.2": b"library"}, link)))
    facts = unpack(place, tmp_path / "root")
    assert facts == "Package: thing\nArchitecture: amd64\nVersion: 1-2\nDescription: a thing more of it\n"
    assert (tmp_path / "root/usr/lib/libthing.so.1").read_bytes() == b"library"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "root/usr").rglob("*") if path.is_file()}
    assert modes == {"thing": 0o755, "libthing.so.1": 0o644, "libthing.so.1.2": 0o644}


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        CONTENT[:-30],
        package(b"no tar"),
        package(tar({}, entry("./dev/null", tarfile.CHRTYPE))),
        package(tar({"../outside": b""})),
    ],
    ids=["no archive", "cut off", "no tar", "a device", "outside"],
)
def test_what_is_no_package_of_files_is_refused(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "thing.deb"
    place.write_bytes(content)
    with pytest.raises(BuildFailed, match=r"thing\.deb is not a package that can be unpacked"):
        unpack(place, tmp_path / "root")
    assert not (tmp_path / "outside").exists()


def test_lock_is_read_as_it_is_written(tmp_path: Path) -> None:
    lock = Lock.read()
    lock.write(tmp_path / "lock")
    assert (tmp_path / "lock").read_bytes() == base_packages.LOCK.read_bytes()
    names = {of: {package.name for package in lock.of(of)} for of in ("amd64", "arm64")}
    assert names["amd64"] == names["arm64"]
    assert {"libc6", "python3.13-minimal", "ca-certificates"} <= names["amd64"]
