"""A vCenter for tests: govmomi's simulator in a process of its own (`make real-assets`), and its administrator."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from espalier.assets.cache import assets_folder
from espalier.assets.recipes import VCENTER
from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.vsphere.checks import vcenter as session
from espalier.providers.vsphere.checks.vcenter import split
from espalier.providers.vsphere.server import Server

connect: Any = importlib.import_module("pyVim.connect")  # its types are incomplete
vim: Any = importlib.import_module("pyVmomi").vim
vmodl: Any = importlib.import_module("pyVmomi").vmodl

Gone: type[Exception] = vmodl.fault.ManagedObjectNotFound

PROGRAM = VCENTER.home(assets_folder()) / "vcenter"
MISSING = "" if PROGRAM.exists() else "there is no simulator of a vCenter; run make real-assets"

NAME = "vcenter.example.com"
"""The name in specs; `resolve` knows where it is."""
ACCOUNT = Credentials("espalier@vsphere.local", "cherry-canary")


@dataclass(frozen=True)
class VCenter:
    """A running simulator, with datacenter DC0."""

    address: tuple[str, int]
    thumbprint: str

    @property
    def server(self) -> Server:
        """As a spec names it."""
        return Server(f"{NAME}:{self.address[1]}", thumbprint=self.thumbprint)

    def resolve(self, _host: str, _port: int) -> list[tuple[str, int]]:
        """The address, whatever is asked."""
        return [self.address]

    @contextmanager
    def administrator(self) -> Iterator[Any]:
        """The content of its API, for changes."""
        host, port = self.address
        instance = connect.SmartConnect(
            host=host, port=port, user=ACCOUNT.username, pwd=ACCOUNT.password, disableSslCertValidation=True
        )
        try:
            yield instance.RetrieveContent()
        finally:
            connect.Disconnect(instance)
            instance._stub.DropConnections()


def properties(content: Any, objects: Sequence[Any], *paths: str) -> list[dict[str, Any]]:
    """Properties of virtual machines, by their paths: the simulator leaves some that are near them invalid."""
    if not objects:
        return []
    collector: Any = vmodl.query.PropertyCollector
    asked = collector.FilterSpec(
        objectSet=[collector.ObjectSpec(obj=object_) for object_ in objects],
        propSet=[collector.PropertySpec(type=vim.VirtualMachine, pathSet=list(paths))],
    )
    result = content.propertyCollector.RetrieveContents([asked])
    return [{"self": item.obj} | {each.name: each.val for each in item.propSet} for item in result]


@contextmanager
def vcenter(*arguments: str) -> Iterator[VCenter]:
    """Run a simulator."""
    account = ("-user", ACCOUNT.username, "-password", ACCOUNT.password)
    with subprocess.Popen(
        [str(PROGRAM), *account, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url, thumbprint = process.stdout.readline().strip(), process.stdout.readline().strip()
        try:
            yield VCenter(split(url.removeprefix("https://")), thumbprint)
        finally:
            process.communicate("")


def tag(center: VCenter, path: str, *names: str, category: str = "") -> list[str]:
    """Attach new tags to an inventory object, each of a new category: of its own name, unless another one is given.

    Returns their IDs.
    """
    with center.administrator() as content:
        result = content.searchIndex.FindByInventoryPath(path)
        of = {"object_id": {"id": result._moId, "type": type(result).__name__.rpartition(".")[2]}}
    connection = session._Session(center.server, center.resolve)._connection()
    rest = session._Tags(connection, ACCOUNT)
    ids = []
    for name in names:
        spec = {"name": category or name, "description": "", "cardinality": "MULTIPLE", "associable_types": []}
        made = rest._call("POST", "tagging/category", {"create_spec": spec})
        made = rest._call(
            "POST", "tagging/tag", {"create_spec": {"name": name, "description": "", "category_id": made}}
        )
        rest._call("POST", f"tagging/tag-association/id:{made}?~action=attach", of)
        ids.append(made)
    connection.close()
    return ids


def certificate(folder: Path, *, expired: bool = False) -> tuple[Path, Path]:
    """A certificate for `NAME` that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    end = now - timedelta(days=1) if expired else now + timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "vcenter.crt", folder / "vcenter.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    no_password = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password))
    return files
