"""Places of a repository that FluxConfigs name."""

from __future__ import annotations

from espalier.api.meta import Tree

HUB: Tree = {"owner": "garden", "repository": "fleet"}
GIT: Tree = {"repositoryUrl": "ssh://git@git.example.com/fleet.git"}
