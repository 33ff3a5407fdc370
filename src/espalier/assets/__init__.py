"""Real programs, images and node file systems, built on this machine from pinned sources into a cache.

`espalier assets build|list|prune`, and `make real-assets`, which runs this package before anything is installed:
it is written with the standard library only. `recipes.py` names what there is; the sources lie in the folders beside
it (`main.go`, `go.mod`, `go.sum`, and the files of a node); nothing built is ever kept there.

Results lie in `${ESPALIER_CACHE:-${XDG_CACHE_HOME:-~/.cache}/espalier}/assets/<name>-<version>-<recipe hash>/`, each
with a `SHA256SUMS`. A folder with another name there is being built, or was when the build got killed. What a real
node starts from is found by `find_base`; `base.py` describes its layout.
"""

from espalier.assets.base import Base, MissingAssets, find_base

__all__ = ["Base", "MissingAssets", "find_base"]
