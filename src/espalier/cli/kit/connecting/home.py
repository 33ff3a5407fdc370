"""State of the local environment: all of it is below `$ESPALIER_HOME`."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import msgspec

from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.cli.kit.failures import Broken, Failure
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError, ServerFailure

_FULL = 507
"""HTTP status of a write for which an API server has no space."""

BOOTSTRAP_WANTED, BOOTSTRAP_REMOVED = "wanted", "removed"

_ADVICE = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room in your quota",
    errno.EROFS: "mount it read-write",
    errno.EACCES: "get write permission there",
    errno.EPERM: "get write permission there",
}


def private(path: str, flags: int) -> int:
    """An opener (`open(..., opener=private)`) for files that only their owner may read, also if they already exist."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file name to an `OSError` of a write: the system does so only when files are opened."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


class Home(msgspec.Struct, frozen=True):
    """Paths of one local environment. Constructing it creates nothing."""

    root: Path

    @classmethod
    def locate(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """`$ESPALIER_HOME`, or `espalier` in the XDG data folder."""
        if named := environ.get("ESPALIER_HOME"):
            return cls(Path(named).expanduser().absolute())
        data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return cls(Path(data) / "espalier")

    def of_management_cluster(self, name: str) -> Home:
        """The environment of a management cluster that a command creates: its bootstrap, and its simulated machines."""
        return Home(self.root / "management-clusters" / name)

    @property
    def bootstrap(self) -> Path:
        """The file that says whether a bootstrap is wanted here; only in the environment of a management cluster."""
        return self.root / "bootstrap"

    def has_bootstrap(self) -> bool:
        """True if a bootstrap is wanted."""
        try:
            return self.bootstrap.read_text().strip() == BOOTSTRAP_WANTED
        except FileNotFoundError:
            return False

    def want_bootstrap(self, *, wanted: bool) -> None:
        """Have the running environment start its bootstrap, or stop and delete it."""
        staged = self.bootstrap.with_name(f".{self.bootstrap.name}.{os.getpid()}")
        with naming(staged), open(staged, "w", opener=private) as file:
            file.write(f"{BOOTSTRAP_WANTED if wanted else BOOTSTRAP_REMOVED}\n")
        staged.replace(self.bootstrap)

    def is_running(self) -> bool:
        """True if a process runs this environment: it holds the lock."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the local environment's administrator."""
        return self.root / "kubeconfig"

    @property
    def lock(self) -> Path:
        """The lock file of the process that runs the local environment, with its process ID and address."""
        return self.root / "world.lock"

    @property
    def authority(self) -> Path:
        """Folder of the local environment's own certificate authority and the certificates it issued."""
        return self.root / "pki"

    @property
    def database(self) -> Path:
        """The management API server's store."""
        return self.root / "management.db"

    @property
    def clusters(self) -> Path:
        """Folder of the workload API servers' stores."""
        return self.root / "clusters"

    @property
    def management(self) -> Path:
        """Folder of a real management cluster: data, keys and logs of its programs."""
        return self.root / "management"

    @property
    def nodes(self) -> Path:
        """Folder with the records of real nodes and everything that belongs to them."""
        return self.root / "nodes"

    @property
    def images(self) -> Path:
        """Folder of the images that are made for real nodes."""
        return self.root / "images"

    @property
    def components(self) -> Path:
        """The file with what runs in a management cluster on real nodes, while a local environment has such nodes."""
        return self.root / "components.json"

    @property
    def managers(self) -> Path:
        """Folder of the kubeconfigs of management clusters on real nodes, whose nodes the local environment manages. It
        is there from the beginning of a creation on.
        """
        return self.root / "managers"

    @property
    def images_made(self) -> Path:
        """The file that says that the images of management clusters are made, or why not; it is empty, or a text."""
        return self.managers / "images"

    def kubeconfig_of_manager(self, namespace: str, name: str) -> Path:
        """The kubeconfig of one of them, by its Cluster."""
        return self.managers / f"{quote(f'{namespace}.{name}', safe='')}.kubeconfig"

    @staticmethod
    def manager_of(file: Path) -> Key:
        """The Cluster of such a kubeconfig."""
        namespace, _, name = unquote(file.name.removesuffix(".kubeconfig")).partition(".")
        return Key(namespace, name)

    @property
    def simulated(self) -> Path:
        """Folder of the disks of simulated nodes, and of the pods that run there as processes."""
        return self.root / "simulated"

    @property
    def log(self) -> Path:
        """Log of a detached local environment."""
        return self.root / "world.log"

    def create(self) -> None:
        """Make the folder, or have the one that is there, for its owner only: keys and Secrets lie in it.

        Raises `Failure` for a folder of another user, and for one that others may read in which other things lie.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.root.stat()
        if status.st_uid != os.geteuid():
            raise Failure(
                f"{self.root} belongs to another user (UID {status.st_uid}), who could read and replace "
                "what is kept there: set ESPALIER_HOME to a folder of your own, or to one that does not exist yet"
            )
        if not stat.S_IMODE(status.st_mode) & 0o077:
            return
        names = [entry.name for entry in self.root.iterdir()]
        own = (self.lock, self.database, self.management, self.bootstrap)
        if names and not any(path.name in names for path in own):
            raise Failure(
                f"{self.root} can be read by others, and has files that are not Espalier's "
                f"({first(sorted(names), 3)}): set ESPALIER_HOME to a folder of its own"
            )
        self.root.chmod(0o700)
        for file in (self.database, *self.root.glob(f"{self.database.name}-*"), *self.root.glob("*.log")):
            if file.is_file():
                file.chmod(0o600)

    def port_before(self) -> int:
        """The port at which the local environment last served; 0 before the first start."""
        if not self.kubeconfig.exists():
            return 0
        try:
            return urlsplit(Kubeconfig.load([self.kubeconfig]).context().server).port or 0
        except (KubeError, ValueError) as error:
            raise Broken(
                f"{self.kubeconfig} can't be read, so the earlier port is unknown: {error}\nMove the file away, and "
                "`espalier up` writes a new one; --port sets the port"
            ) from error

    def require_database(self) -> None:
        """Raise `Broken` if a local environment existed, and its database is missing or empty."""
        exists = self.database.exists()
        if exists and self.database.stat().st_size:
            return
        left = [*self.authority.glob("ca.*"), *self.clusters.glob("*/objects.db")]
        if left:
            state = "is empty" if exists else "is not there"
            raise self.broken_database(f"{self.database} {state}, but {left[0]} shows that there was one")
        self.database.unlink(missing_ok=True)  # a first start that was interrupted

    def no_space(self, problem: str) -> Broken:
        """The error for a file that can't be written, because the disk is full."""
        return Broken(f"{problem}: {_ADVICE[errno.ENOSPC]}, or set ESPALIER_HOME to another folder")

    def broken_database(self, problem: str) -> Broken:
        """The error for an unusable database."""
        return Broken(
            f"{problem}. Nothing was changed. Make it usable, or restore the file from a backup; "
            "`espalier down --delete-data` deletes the local environment with all its clusters"
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raises `Broken` for an `OSError` about something in this folder, or above it, and for a full database."""
        try:
            yield
        except ServerFailure as error:
            if error.status.code != _FULL:
                raise
            raise self.no_space(f"{self.database}: {error}") from error
        except OSError as error:
            named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
            if named is None or not (named.is_relative_to(self.root) or self.root.is_relative_to(named)):
                raise
            advice = _ADVICE.get(error.errno or 0, "make it usable")
            raise Broken(f"{named}: {error.strerror}: {advice}, or set ESPALIER_HOME to another folder") from error
