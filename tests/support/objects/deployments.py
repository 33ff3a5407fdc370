"""The Deployments of `espalier manifests`: each program, with every combination of the flags that set pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import click

from espalier.api.meta import Tree
from espalier.cli.install import deployment, garden_manifests, manifests

FLAGS = (
    ("--image-pull-secret=one", "--image-pull-secret=two"),
    ("--node-selector=node.example.com/pool=system", "--node-selector=disk=ssd"),
    ("--toleration=dedicated=espalier:NoExecute", "--toleration=example.com/any"),
    ("--topology-spread=DoNotSchedule",),
    ("--priority-class=system-cluster-critical",),
    ("--memory-limit=1536Mi",),
    ("--memory-limit=0",),
    ("--metrics",),
    ("--metrics", "--metrics-namespace=monitoring,team-a"),
)
"""Each flag of pods with a value that is not its default."""

IMAGE = "registry.example.com/espalier:v1"


@click.command()
@deployment.options
def _command(*, pods: deployment.Pods, pod_flags: Sequence[str]) -> deployment.Pods:
    return pods


def pods(*words: str) -> deployment.Pods:
    """The settings that these flags mean. Raises `Usage`."""
    made: deployment.Pods = _command.main(list(words), standalone_mode=False)
    return made


def deployed(settings: deployment.Pods) -> Iterator[list[Tree]]:
    """The objects of the manager, of a garden's controllers and of a gardenlet."""
    yield manifests.deployed(IMAGE, (), pods=settings)
    yield garden_manifests.garden_deployed(IMAGE, settings)
    yield garden_manifests.gardenlet_deployed(IMAGE, "west", settings)


def combinations(*, all_: bool) -> Iterator[tuple[str, ...]]:
    """Command lines with all subsets of the flags; or with none, each one alone, and all."""
    sizes = range(len(FLAGS) + 1) if all_ else (0, 1, len(FLAGS))
    for size in sizes:
        for chosen in itertools.combinations(FLAGS, size):
            yield tuple(word for words in chosen for word in words)
