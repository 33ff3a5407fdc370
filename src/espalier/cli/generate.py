"""`espalier generate objects`: what the manager would write for a manifest, without any cluster."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import App, Parameter

from espalier.api.eksa.cluster import Cluster
from espalier.cli import documents, flags, output


def register(app: App) -> None:
    """Add the command to the program."""
    group = App(name="generate", help="Show what would be written, without any cluster.")
    group.command(objects)
    app.command(group)


def objects(
    *,
    filename: Annotated[
        list[str],
        Parameter(
            name=["--filename", "-f"],
            help="Manifest of one or several clusters; `-` for standard input. Repeatable.",
            negative="",
            allow_leading_hyphen=True,
        ),
    ],
    releases: flags.Releases = None,
    namespace: Annotated[
        str, Parameter(name=["--namespace", "-n"], help="Namespace of objects that name none.")
    ] = "default",
    workload: Annotated[
        bool, Parameter(help="The objects that go to the workload cluster (the CNI) instead.", negative="")
    ] = False,
    output_format: Annotated[
        Literal["yaml", "json"], Parameter(name=["--output", "-o"], help="yaml or json.")
    ] = "yaml",
) -> None:
    """Print the objects of Cluster API that the manager would write for the clusters of a manifest, all at once.

    No cluster is asked: the management cluster is taken to be of the newest release. What admission would refuse is
    refused here.

    Example: `espalier generate objects -f examples/docker.yaml > objects.yaml`
    """
    from espalier.cli.offline import Workshop  # noqa: PLC0415  other commands need not load what judges and renders

    found = documents.read(filename, several=True)
    workshop = Workshop(found, releases, namespace)
    made = [
        tree
        for document in found
        if document.kind == Cluster.resource.kind
        for tree in workshop.objects(document, workload=workload)
    ]
    if output_format == "json":
        output.write_objects(made, "json", single=False)
    else:
        sys.stdout.write("---\n".join(output.to_yaml(tree) for tree in made))
