#!/usr/bin/env bash
# Libraries:     github.com/fluxcd/pkg/sourceignore 0.18.0 (.sourceignore files and `spec.ignore` of Flux's sources),
#                Git 2.39, and dulwich 1.2.21 (Git in Python).
# Guess:         a .sourceignore means what it means as a .gitignore, whose format it has, so Git can show what it
#                excludes; and what lies in an excluded folder can't be included again.
# What happens:  in Flux the last pattern that fits a file decides, whatever became of its folder; and [!d] is ! or d
#                instead of anything else. Output seen, of the files that are left of apps.yaml, drafts/a.yaml and
#                notes/b.md; dulwich leaves the same as Git:
#                  patterns                    Flux                                Git
#                  /drafts/   !*.yaml          apps.yaml drafts/a.yaml notes/b.md  apps.yaml notes/b.md
#                  *          !*.yaml          apps.yaml drafts/a.yaml             apps.yaml
#                  /drafts/*  !/drafts/a.yaml  apps.yaml drafts/a.yaml notes/b.md  apps.yaml drafts/a.yaml notes/b.md
#                  /[!d]*                      apps.yaml notes/b.md                drafts/a.yaml
# For users:     a manifest in a folder that is excluded is in the artifact after all, and is applied, because a later
#                pattern includes all YAML; `git ls-files --exclude-from` says that it isn't. Put exclusions of folders
#                last, and write [^d].
# Espalier:      writes no .sourceignore, and puts its clusters where none is needed: a folder for each. docs/gitops.md
#                says so.
#
# Needs Go and Git.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check dulwich==1.2.21
mkdir "$work/repository"
cd "$work"
cat > main.go <<'E'
// Prints the files of a folder that its .sourceignore leaves, as source-controller puts them into an artifact.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
)

func main() {
	patterns, err := sourceignore.LoadIgnorePatterns(os.Args[1], nil)
	if err != nil {
		panic(err)
	}
	matcher := sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), patterns...))
	left := []string{}
	err = filepath.WalkDir(os.Args[1], func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(os.Args[1], path)
		if err != nil || entry.IsDir() || strings.HasPrefix(name, ".") {
			return err
		}
		if !matcher.Match(strings.Split(name, "/"), false) {
			left = append(left, name)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Print(strings.Join(left, " "))
}
E
cat > compare.py <<'E'
import subprocess
from pathlib import Path

from dulwich.ignore import IgnoreFilterManager
from dulwich.repo import Repo

FILES = ("apps.yaml", "drafts/a.yaml", "notes/b.md")
repository = Path("repository")
subprocess.run(["git", "init", "--quiet", repository], check=True)
for file in FILES:
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).touch()
print(f"{'patterns':27} {'Flux':35} Git")
for first, second in (("/drafts/", "!*.yaml"), ("*", "!*.yaml"), ("/drafts/*", "!/drafts/a.yaml"), ("/[!d]*", "")):
    for name in (".gitignore", ".sourceignore"):
        (repository / name).write_text(f"{first}\n{second}\n")
    in_git = subprocess.run(
        ["git", "-C", repository, "ls-files", "--others", "--exclude-per-directory=.gitignore", "--", *FILES],
        capture_output=True, text=True, check=True,
    ).stdout.split()
    flux = subprocess.run(["./flux", repository], capture_output=True, text=True, check=True).stdout
    manager = IgnoreFilterManager.from_repo(Repo(repository))
    if in_git != [file for file in FILES if not manager.is_ignored(file)]:
        raise SystemExit(f"Git and dulwich differ in {first} {second}")
    print(f"{first:10} {second:16} {flux:35} {' '.join(in_git)}")
E
go mod init finding 2>/dev/null
go get github.com/fluxcd/pkg/sourceignore@v0.18.0 2>/dev/null
go build -o flux .
output=$(venv/bin/python compare.py)
echo "$output"
expected="patterns                    Flux                                Git
/drafts/   !*.yaml          apps.yaml drafts/a.yaml notes/b.md  apps.yaml notes/b.md
*          !*.yaml          apps.yaml drafts/a.yaml             apps.yaml
/drafts/*  !/drafts/a.yaml  apps.yaml drafts/a.yaml notes/b.md  apps.yaml drafts/a.yaml notes/b.md
/[!d]*                      apps.yaml notes/b.md                drafts/a.yaml"
if [ "$output" != "$expected" ]; then
    echo "patterns of .sourceignore have another meaning now"
    exit 1
fi
