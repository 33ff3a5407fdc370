"""Builds the pages as a site: `make docs`.

Pages are written for a reader of the repository. On the site, folders of generated pages get an index and a place in
the navigation, and a link to a file that is no page becomes its text. What the site is made from is staged in a
temporary folder, then the program checks every link and writes `dist/docs`.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FOLDERS = {
    "reference/fields": "Fields",
    "reference/gardener/garden": "Fields of a garden",
    "reference/gardener/seed": "Fields of a seed",
    "decisions": "Decisions",
}
"""Folders whose pages are in the navigation by name, under a title."""
STYLE = "site.css"
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def main() -> int:
    """Returns the exit code of the program, which names each link that leads nowhere."""
    with tempfile.TemporaryDirectory(prefix="espalier-docs-") as name:
        folder = Path(name)
        stage(folder / "docs")
        config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
        config["nav"] = [*config["nav"], *({title: pages_of(path)} for path, title in FOLDERS.items())]
        config |= {"docs_dir": "docs", "site_dir": "site", "extra_css": [STYLE]}
        (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))
        program = Path(sys.executable).with_name("zensical")
        code = subprocess.run([program, "build", "--strict", "--clean", "-f", folder / "mkdocs.yml"], check=False)
        if code.returncode == 0:
            shutil.rmtree(ROOT / "dist" / "docs", ignore_errors=True)
            shutil.copytree(folder / "site", ROOT / "dist" / "docs")
            print("dist/docs/index.html")
        return code.returncode


def stage(target: Path) -> None:
    """Copy the pages and pictures to a new folder, with an index in each of `FOLDERS`."""
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(Path(__file__).with_name(STYLE), target)
    for folder, title in FOLDERS.items():
        if not (target / folder / "README.md").exists():
            lines = [f"- [{page.stem}]({page.name})" for page in sorted((target / folder).glob("*.md"))]
            (target / folder / "README.md").write_text("\n".join([f"# {title}", "", *lines, ""]))
    for page in target.rglob("*.md"):
        page.write_text(linked(page.read_text(), page.relative_to(target).parent.as_posix(), target))


def linked(text: str, here: str, docs: Path) -> str:
    """A page of folder `here` whose links lead to pages; those that lead out of the site become their text."""

    def link(match: re.Match[str]) -> str:
        title, address = match[1], match[2]
        path, hash_, anchor = address.partition("#")
        if "://" in address or not path:
            return match[0]
        target = posixpath.normpath(posixpath.join(here, path))
        for page in (target, f"{target}/README.md"):
            if not page.startswith("..") and (docs / page).is_file():
                return f"[{title}]({posixpath.relpath(page, here)}{hash_}{anchor})"
        return title

    return _LINK.sub(link, text)


def pages_of(folder: str) -> list[str]:
    """The pages of one of `FOLDERS`, its index first."""
    pages = sorted((DOCS / folder).glob("*.md"))
    return [f"{folder}/README.md", *(f"{folder}/{page.name}" for page in pages if page.name != "README.md")]


if __name__ == "__main__":
    sys.exit(main())
