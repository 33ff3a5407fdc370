"""Reading manifests of releases: from the package, or from a folder of the same shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.kinds import KubeObject
from espalier.api.manifests.manifests import Document, read_manifests
from espalier.api.manifests.schema import violations
from espalier.api.text.violations import ManifestError, Problem, Violation

K = TypeVar("K", bound=KubeObject)

SCHEME = "embed:///"
MIRRORED = "https://"
MANIFEST = "releases.yaml"
_OWN = Path(__file__).parent / "data"


class MalformedRelease(ManifestError):
    """Manifests of releases that can't be used; each of `problems` names file, line and field."""


class Files:
    """The folder that `embed:///` refers to; by default the data files of this package.

    It may also be a mirror: it then contains `https://HOST/PATH` as `HOST/PATH`. Nothing is downloaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._folder = path
        self._root = path if path is not None else _OWN

    def read(self, url: str, kind: type[K]) -> tuple[K, Document]:
        """The one object of a manifest, of the given kind. Raises `MalformedRelease`."""
        name = self._name(url)
        try:
            text = self._root.joinpath(name).read_bytes()
        except OSError as error:
            raise MalformedRelease([self._missing(name, error)]) from None
        try:
            documents = read_manifests(text, source=name, expected=f"one {kind.resource.kind}")
        except ManifestError as error:
            raise MalformedRelease(error.problems) from None
        # What the package has was checked when it was built (a test does), and to check it takes long.
        problems = [] if self._folder is None else [of(documents[0], problem) for problem in _problems(documents, kind)]
        if problems:
            raise MalformedRelease(problems)
        return msgspec.convert(documents[0].tree, kind), documents[0]

    def _missing(self, name: str, error: OSError) -> Problem:
        folder = self._folder
        if folder is not None and not folder.is_dir():
            message = f"no such folder; give one with {MANIFEST} and the files that it references"
            return Problem(str(folder), Violation("", "", "", message))
        where = f" in {folder}" if folder is not None else ""
        return Problem(name, Violation("", "", "", f"the file is missing{where}: {error.strerror or 'not readable'}"))

    def _name(self, url: str) -> str:
        scheme = next((known for known in (SCHEME, MIRRORED) if url.startswith(known)), None)
        name = url.removeprefix(scheme or "")
        if scheme is None or ".." in PurePosixPath(name).parts or name.startswith("/"):
            message = "manifests of releases are read from files only"
            allowed = f"{SCHEME}PATH, or {MIRRORED}HOST/PATH of which the folder has a copy as HOST/PATH"
            raise MalformedRelease([Problem(url, Violation("", url, allowed, message))])
        return name


def of(document: Document, problem: Problem) -> Problem:
    """A problem that also names the object."""
    return replace(problem, subject=f"{document.kind} {document.name}".strip())


def _problems(documents: list[Document], kind: type[KubeObject]) -> Iterator[Problem]:
    first, *others = documents
    resource = kind.resource
    if (first.api_version, first.kind) != (resource.api_version, resource.kind):
        actual = f"{first.api_version} {first.kind}"
        wanted = f"{resource.api_version} {resource.kind}"
        yield first.problem(Violation("kind", actual, wanted, "unexpected kind of manifest"))
        return
    for violation in violations(kind, first.tree):
        yield first.problem(violation)
    for document in others:
        yield document.problem(Violation("", f"{document.kind}", "one object", "the manifest has more than one object"))
