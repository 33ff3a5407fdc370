"""Kubeconfig files: read and merged as kubectl does, made for new clusters, and merged into a user's file.

What this program does not know in a file (extensions, preferences) survives a merge. Every error says which file,
which entry and which field is wrong; none shows a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.api.text.violations import ManifestError
from espalier.api.trees import yaml_text
from espalier.api.trees.yaml_trees import trees
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig_entries import (
    ContextFields,
    Entry,
    Kind,
    KubeconfigError,
    access_of,
    encode_data,
)

_IMPERSONATION = frozenset({"as", "as-uid", "as-groups", "as-user-extra"})
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

if TYPE_CHECKING:
    from espalier.kube.connection.pki import KeyPair


class Kubeconfig:
    """The clusters, users and contexts of one or several files.

    Made by `load`, `parse` or `of_cluster`; `context` gives what a transport needs.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[Kind, str], Entry] = {}
        self._rest: dict[str, Any] = {}
        self.current_context = ""
        self.sources: list[str] = []

    @classmethod
    def load(cls, files: Sequence[Path]) -> Kubeconfig:
        """Read files; where several define the same entry or the current context, the first wins.

        One file must exist; of several, those that do not are skipped.
        """
        config = cls()
        for file in files:
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                if len(files) == 1:
                    raise KubeconfigError(f"there is no kubeconfig at {file}") from None
                continue
            except OSError as error:
                raise KubeconfigError(f"cannot read the kubeconfig {file}: {error.strerror}") from None
            config._add(content, str(file), file.absolute().parent)
        return config

    @classmethod
    def parse(cls, content: bytes, *, source: str = "kubeconfig") -> Kubeconfig:
        """Read content that came from elsewhere, over the API say; `source` names it in errors.

        Such content must not name files or programs of this machine: `context` refuses those.
        """
        config = cls()
        config._add(content, source, None)
        return config

    @classmethod
    def of_cluster(
        cls,
        name: str,
        *,
        server: str,
        certificate_authority: bytes,
        user: str,
        credentials: KeyPair | str | Mapping[str, Any],
        namespace: str = "",
    ) -> Kubeconfig:
        """A kubeconfig of one cluster, with a client certificate, a token, or the exec plugin that obtains either.

        The context is `<user>@<name>`.
        """
        secret: dict[str, Any]
        if isinstance(credentials, str):
            secret = {"token": credentials}
        elif isinstance(credentials, Mapping):
            secret = {"exec": dict(credentials)}
        else:
            secret = {
                "client-certificate-data": encode_data(credentials.certificate),
                "client-key-data": encode_data(credentials.key),
            }
        context = {"cluster": name, "user": user} | ({"namespace": namespace} if namespace else {})
        cluster = {"server": server, "certificate-authority-data": encode_data(certificate_authority)}
        config = cls()
        config.sources.append(name)
        config.current_context = f"{user}@{name}"
        entries: tuple[tuple[Kind, str, dict[str, str]], ...] = (
            ("cluster", name, cluster),
            ("user", user, secret),
            ("context", config.current_context, context),
        )
        for kind, entry, fields in entries:
            config._entries[kind, entry] = Entry(kind, entry, fields, name, None)
        return config

    def as_user(self, user: str, credentials: KeyPair) -> Kubeconfig:
        """A kubeconfig of the cluster of the current context alone, for another user. Raises `KubeconfigError`."""
        self.context()
        fields = self._entries["context", self.current_context].read(ContextFields)
        cluster = self._entries["cluster", fields.cluster]
        config = Kubeconfig.of_cluster(
            cluster.name, server="", certificate_authority=b"", user=user, credentials=credentials
        )
        config._entries["cluster", cluster.name] = cluster
        return config

    def impersonating(self, user: str, groups: Sequence[str]) -> Kubeconfig:
        """The current context alone, acting as another user with these groups. Raises `KubeconfigError`.

        Context and user have names of their own, so that merged into a file they replace no other access.
        """
        self.context()
        context = self._entries["context", self.current_context]
        fields = context.read(ContextFields)
        own = self._referred(context, "user", fields.user)
        config = Kubeconfig()
        name = f"{own.name}-as-{user}"
        config.sources, config.current_context = list(self.sources), f"{name}@{fields.cluster}"
        acting = {field: value for field, value in own.fields.items() if field not in _IMPERSONATION}
        acting |= {"as": user, "as-groups": list(groups)} if groups else {"as": user}
        entries = (
            self._entries["cluster", fields.cluster],
            Entry("user", name, acting, own.source, own.folder),
            Entry("context", config.current_context, {**context.fields, "user": name}, context.source, context.folder),
        )
        config._entries = {(entry.kind, entry.name): entry for entry in entries}
        return config

    def for_merge(self, file: Path) -> Kubeconfig:
        """The current context alone, under names that take nothing away in a file: its user is named as the context.

        Raises `KubeconfigError` if there is no current context, or if the file has a cluster or context of its name
        with another address, or another context with a user of that name.
        """
        context = self._context(self.current_context)
        fields = context.read(ContextFields)
        cluster = self._referred(context, "cluster", fields.cluster)
        server = cluster.fields.get("server")
        present = Kubeconfig.load([file]) if file.exists() else Kubeconfig()
        named = present._entries.get(("context", context.name))
        others: list[tuple[Kind, str]] = [("cluster", cluster.name)]
        if named is not None:
            others.append(("context", named.read(ContextFields).cluster))
        for kind, name in others:
            other = present._entries.get(("cluster", name))
            if other is not None and other.fields.get("server") != server:
                which = cluster.name if kind == "cluster" else context.name
                raise KubeconfigError(
                    f"{file}: found {kind} {which} with server {other.fields.get('server')}, allowed is {server}: "
                    f"remove it (`kubectl config delete-{kind} {which}`), or name another file in $KUBECONFIG"
                )
        for name in present.contexts:
            if name != context.name and present._entries["context", name].read(ContextFields).user == context.name:
                raise KubeconfigError(
                    f"{file}: found user {context.name} in context {name}, allowed is in {context.name} alone: "
                    "rename it, or name another file in $KUBECONFIG"
                )
        config = Kubeconfig()
        config.sources, config.current_context = list(self.sources), context.name
        config._entries["cluster", cluster.name] = cluster
        part = dict(context.fields)
        if fields.user:
            user = self._referred(context, "user", fields.user)
            config._entries["user", context.name] = Entry("user", context.name, user.fields, user.source, None)
            part["user"] = context.name
        config._entries["context", context.name] = Entry("context", context.name, part, context.source, None)
        return config

    def alone(self) -> Kubeconfig:
        """A kubeconfig of the current context alone, with the content of the files that it names: for who is not on
        this machine. Raises `KubeconfigError` if that would not be enough, as with an exec plugin or a token file.
        """
        access = self.context()
        context = self._entries["context", self.current_context]
        fields = context.read(ContextFields)
        contents = {
            "certificate-authority": access.certificate_authority,
            "client-certificate": access.client_certificate,
            "client-key": access.client_key,
        }
        config = Kubeconfig()
        config.sources, config.current_context = list(self.sources), self.current_context
        config._entries["context", context.name] = context
        kinds: tuple[tuple[Kind, str], ...] = (("cluster", fields.cluster), ("user", fields.user))
        for kind, name in kinds:
            if name:
                entry = self._entries[kind, name]
                given = {key: value for key, value in entry.fields.items() if key not in contents}
                held = {
                    f"{key}-data": encode_data(content)
                    for key, content in contents.items()
                    if content is not None and not entry.fields.keys().isdisjoint((key, f"{key}-data"))
                }
                config._entries[kind, name] = Entry(kind, name, given | held, entry.source, None)
        config.context()
        return config

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts, in the order of the files."""
        return [name for kind, name in self._entries if kind == "context"]

    def context(self, name: str | None = None) -> Access:
        """The access of a context (the current one by default). Files that it names are read now."""
        entry = self._context(name or self.current_context)
        fields = entry.read(ContextFields)
        cluster = self._referred(entry, "cluster", fields.cluster)
        user = self._referred(entry, "user", fields.user) if fields.user else None
        return access_of(entry, cluster, user)

    def _context(self, name: str) -> Entry:
        where = ", ".join(self.sources) or "the kubeconfig"
        if not name:
            if not self.contexts:
                raise KubeconfigError(f"{where}: there is no context in it; use the kubeconfig of a cluster")
            raise KubeconfigError(f"{where}: no current-context is set; name one of: {', '.join(self.contexts)}")
        entry = self._entries.get(("context", name))
        if entry is None:
            existing = ", ".join(self.contexts) or "none"
            raise KubeconfigError(f'{where}: there is no context "{name}"; existing: {existing}')
        return entry

    def to_bytes(self) -> bytes:
        """The file's content; a `Secret` with a kubeconfig holds this."""
        return yaml_text.dump(self._tree()).encode()

    def merge_into(self, file: Path, *, switch: bool = True, alone: bool = False) -> None:
        """Add these entries to a file, replacing those of the same names, and make the context current if `switch`.
        With `alone`, whatever was in the file before is replaced, also what can't be read.

        Other readers see the old file or the new one. The file is only the user's to read (mode 0600). Holds the lock
        file that kubectl uses as well; raises `KubeconfigError` when somebody else holds it.
        """
        file = file.resolve()  # a link stays a link
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.with_name(f"{file.name}.lock")
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
        except FileExistsError:
            raise KubeconfigError(f"{file} is being changed by another program; if none runs, remove {lock}") from None
        try:
            present = Kubeconfig.load([file]) if file.exists() and not alone else Kubeconfig()
            present._entries |= self._entries
            if switch or not present.current_context:
                present.current_context = self.current_context
            _write_atomically(file, present.to_bytes())
        finally:
            lock.unlink()

    def _add(self, content: bytes, source: str, folder: Path | None) -> None:
        try:
            documents = trees(content, source, lenient=True)
        except ManifestError as error:
            raise KubeconfigError(f"{source} cannot be read: {_problem(error)}") from None
        tree = documents[0] if documents and documents[0] is not None else {}
        if not isinstance(tree, dict):
            raise KubeconfigError(f"{source} is not a kubeconfig: its top must be a mapping")
        self.sources.append(source)
        kinds: tuple[Kind, ...] = ("cluster", "user", "context")
        for kind in kinds:
            for name, fields in _named(tree.pop(f"{kind}s", None), kind, source):
                self._entries.setdefault((kind, name), Entry(kind, name, fields, source, folder))
        self.current_context = self.current_context or str(tree.pop("current-context", None) or "")
        self._rest = {**tree, **self._rest}

    def _referred(self, context: Entry, kind: Kind, name: str) -> Entry:
        entry = self._entries.get((kind, name))
        if entry is None:
            raise KubeconfigError(f'{context}: there is no {kind} "{name}"')
        return entry

    def _tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
        for (kind, name), entry in self._entries.items():
            tree[f"{kind}s"].append({"name": name, kind: dict(entry.fields)})
        tree["current-context"] = self.current_context
        return tree | {key: value for key, value in self._rest.items() if key not in tree}


def kubeconfig_files(explicit: Path | None, environment: Mapping[str, str]) -> Sequence[Path]:
    """The files that kubectl would read: the requested one, those in KUBECONFIG, or `~/.kube/config`."""
    if explicit is not None:
        return [explicit]
    named = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    return named or [Path.home() / ".kube" / "config"]


def find_access(
    *, kubeconfig: Path | None = None, context: str | None = None, environment: Mapping[str, str]
) -> Access:
    """The API server for a command or a manager. As kubectl finds it: the requested kubeconfig, KUBECONFIG,
    `~/.kube/config`, else the pod's service account."""
    files = kubeconfig_files(kubeconfig, environment)
    if kubeconfig is None and not any(file.exists() for file in files):
        in_cluster = in_cluster_access(environment)
        if in_cluster is not None:
            return in_cluster
    return Kubeconfig.load(files).context(context)


def in_cluster_access(environment: Mapping[str, str], folder: Path = _SERVICE_ACCOUNT) -> Access | None:
    """The API server of the cluster this program runs in, as the pod's service account; None outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not host or not port or not token.exists():
        return None
    namespace = folder / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        certificate_authority=(folder / "ca.crt").read_bytes(),
        token_file=token,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _named(entries: object, kind: Kind, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The named entries of one list of a file."""
    if entries is None:
        return
    if not isinstance(entries, list):
        raise KubeconfigError(f"{source}: {kind}s must be a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise KubeconfigError(f"{source}: {kind}s[{index}] has no name")
        fields = entry.get(kind)
        if fields is not None and not isinstance(fields, dict):
            raise KubeconfigError(f"{source}: {kind}s[{index}].{kind} must be a mapping")
        yield entry["name"], fields or {}


def _problem(error: ManifestError) -> str:
    """The first problem and its line, without the content around it: that may be a secret."""
    first = error.problems[0]
    return f"line {first.line}: {first.violation.message}"


def _write_atomically(file: Path, content: bytes) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
