"""Where the laptop world keeps its state: everything lies under `$ESPALIER_HOME`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from espalier.kube.kubeconfig import Kubeconfig


class Home(msgspec.Struct, frozen=True):
    """Paths of one laptop world. Nothing is created by naming it."""

    root: Path

    @classmethod
    def locate(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """`$ESPALIER_HOME`, or `espalier` in the XDG data folder."""
        if named := environ.get("ESPALIER_HOME"):
            return cls(Path(named).expanduser().absolute())
        data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return cls(Path(data) / "espalier")

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the world's administrator."""
        return self.root / "kubeconfig"

    @property
    def lock(self) -> Path:
        """Held by the process that runs the world; holds its process id and address."""
        return self.root / "world.lock"

    @property
    def authority(self) -> Path:
        """Folder of the world's own certificate authority and the certificates it issued."""
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
        """Folder in which everything is written down that real nodes are made of."""
        return self.root / "nodes"

    @property
    def images(self) -> Path:
        """Folder of the images that are made for real nodes."""
        return self.root / "images"

    @property
    def simulated(self) -> Path:
        """Folder of the disks of simulated nodes, and of the pods that run there as processes."""
        return self.root / "simulated"

    @property
    def log(self) -> Path:
        """Log of a detached world."""
        return self.root / "world.log"

    def create(self) -> None:
        """Make the folder, readable by its owner only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def port_before(self) -> int:
        """The port that the world served at when it last ran, 0 before the first time."""
        if not self.kubeconfig.exists():
            return 0
        return urlsplit(Kubeconfig.load([self.kubeconfig]).context().server).port or 0
