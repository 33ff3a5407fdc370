"""Things for kubectl to work on, and an embedded server for it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList, shortNames: [th], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: Thing is something to try things out with.
        properties:
          spec:
            type: object
            properties:
              size: {type: string, enum: [small, large], description: How large it is.}
              replicas: {type: integer, default: 1}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Message, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
"""


NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {generateName: kubectl-}
"""


THING = """
apiVersion: example.org/v1
kind: Thing
metadata: {name: one, labels: {colour: blue}}
spec: {size: small}
"""


CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {colour: red}}
data: {a: "1", b: "2"}
"""


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: server
        image: server:1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
      - {name: proxy, image: proxy:1}
"""


READY = '{"status":{"conditions":[{"type":"Ready","status":"True","message":"all is well"}]}}'


@asynccontextmanager
async def embedded_server(folder: Path) -> AsyncIterator[Path]:
    """An embedded server behind HTTPS, given as an administrator's kubeconfig."""
    now = datetime.now(UTC)
    authority = Authority.create("embedded", now=now)
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(7))
    serving = authority.issue_server("kube-apiserver", names=["127.0.0.1"], now=now)
    shell = HttpShell(server, serving=serving, client_ca=authority.certificate)
    await server.start()
    await shell.start()
    kubeconfig = Kubeconfig.of_cluster(
        "embedded",
        server=shell.url,
        certificate_authority=authority.certificate,
        user="admin",
        credentials=authority.issue_client("admin", groups=["system:masters"], now=now),
    )
    file = folder / "kubeconfig"
    file.write_bytes(kubeconfig.to_bytes())
    yield file
    await shell.stop()
    await server.close()


def columns(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]
