"""A Git server over smart HTTP: Git's own, with its hooks and settings."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{role}_NAME": "a" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "a@b" for role in ("AUTHOR", "COMMITTER")},
}
_LIMIT = 120.0


def git(*words: str | Path, stdin: bytes | None = None) -> str:
    """The output of a Git command. Raises if it fails."""
    ended = subprocess.run(
        ["git", *map(str, words)],
        env={**os.environ, **ENVIRONMENT},
        input=stdin,
        capture_output=True,
        check=True,
        timeout=_LIMIT,
    )
    return ended.stdout.decode().strip()


@dataclass
class GitServer:
    """A bare repository and its address."""

    folder: Path
    url: str
    before_push: Callable[[], None] = lambda: None
    """Called between a client's last look at the branches and its push."""

    away: Callable[[], AbstractContextManager[None]] = nullcontext
    """While it is entered, nobody listens at the address."""

    def without_history(self) -> str:
        """Replace the branch by one commit with the same files, as a push by force does; its id."""
        commit = git("-C", self.folder, "commit-tree", "main^{tree}", "-m", "all of it anew")
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def git(self, *words: str) -> str:
        return git("-C", self.folder, *words)

    def head(self, branch: str = "main") -> str:
        return self.git("rev-parse", f"refs/heads/{branch}")

    def text(self, path: str, branch: str = "main") -> str:
        return self.git("show", f"{branch}:{path}")

    def hook(self, name: str, script: str) -> None:
        path = self.folder / "hooks" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def commit(self, path: str, text: str, branch: str = "main") -> str:
        """Somebody else's commit, made on the server."""
        blob = git("-C", self.folder, "hash-object", "-w", "--stdin", stdin=text.encode())
        has = bool(self.git("for-each-ref", f"refs/heads/{branch}"))
        tree = self.folder / "index.tmp"
        words = ["-C", str(self.folder)]
        env = {**os.environ, **ENVIRONMENT, "GIT_INDEX_FILE": str(tree)}

        def run(*command: str) -> str:
            ended = subprocess.run(["git", *words, *command], env=env, capture_output=True, check=True, timeout=_LIMIT)
            return ended.stdout.decode().strip()

        tree.unlink(missing_ok=True)
        if has:
            run("read-tree", branch)
        run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        parents = ["-p", self.head(branch)] if has else []
        commit = run("commit-tree", run("write-tree"), "-m", "somebody else's", *parents)
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit


@contextmanager
def git_server(folder: Path, *, password: str = "", branch: str = "main") -> Iterator[GitServer]:
    """Serve an empty repository. With a password, user `flux` has to give it."""
    bare = folder / "fleet.git"
    git("init", "--bare", "-q", "-b", branch, bare)
    git("-C", bare, "config", "http.receivepack", "true")
    server = GitServer(bare, "")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _answer(self) -> None:
            token = base64.b64encode(f"flux:{password}".encode()).decode()
            if password and self.headers.get("Authorization") != f"Basic {token}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            body = self._body()
            if self.command == "POST" and path.endswith("/git-receive-pack"):
                server.before_push()
            environment = {
                **os.environ,
                **ENVIRONMENT,
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_USER": "flux",
                "REMOTE_ADDR": "127.0.0.1",
            }
            ended = subprocess.run(
                ["git", "http-backend"], env=environment, input=body, capture_output=True, check=False, timeout=_LIMIT
            )
            head, _, content = ended.stdout.partition(b"\r\n\r\n")
            headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
            status = next((value for name, value in headers if name == "Status"), "200 OK")
            self.send_response(int(status.split()[0]))
            for name, value in headers:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

    listening = _Listening(Handler)
    server.url = f"http://127.0.0.1:{listening.port}/fleet.git"
    server.away = listening.away
    listening.begin()
    try:
        yield server
    finally:
        listening.end()


class _Listening:
    """The socket and its thread; they come and go at the same port."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._handler = handler
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.port = self._server.server_port
        self._thread = threading.Thread()

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_LIMIT)

    @contextmanager
    def away(self) -> Iterator[None]:
        self.end()
        yield
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self.begin()


def ssh_in_place(folder: Path) -> Path:
    """A folder with a program in the place of ssh, which runs the command here: for PATH."""
    programs = folder / "programs"
    programs.mkdir()
    program = programs / "ssh"
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    return programs
