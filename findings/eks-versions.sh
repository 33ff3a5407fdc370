#!/usr/bin/env bash
# Libraries:     semver 3.1.1 (Python), and k8s.io/apimachinery 0.36.1, pkg/util/version (which kubeadm and kubectl use),
#                with versions as EKS Distro writes them, v1.36.3-eks-1-36-10.
# Guess:         release 10 of a version is newer than its release 9, and both are at least 1.36.3.
# What happens:  what follows the first hyphen is a pre-release, so both are older than 1.36.3; and eks-1-36-10 is one
#                identifier, compared as text, because only dots divide identifiers. Output seen, from both:
#                  v1.36.3-eks-1-36-10 < v1.36.3-eks-1-36-9: true
#                  v1.36.3-eks-1-36-9 < v1.36.3: true
# For users:     "take the newest" offers release 9 for ever, "at least 1.36.3" is false for each build of 1.36.3, and a
#                check against downgrades refuses the step from 9 to 10. Compare the numbers before the hyphen.
# Espalier:      compares only the numbers: src/espalier/clusterapi/kubernetes_versions.py (`is_older`,
#                `step_obstacle`).
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check semver==3.1.1
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

func main() {
	versions := []string{"v1.36.3-eks-1-36-10", "v1.36.3-eks-1-36-9", "v1.36.3"}
	for index, text := range versions[:2] {
		other := versions[index+1]
		isOlder := version.MustParseSemantic(text).LessThan(version.MustParseSemantic(other))
		fmt.Printf("%s < %s: %t\n", text, other, isOlder)
	}
}
E
cat > order.py <<'E'
from itertools import pairwise

from semver import Version

for text, other in pairwise(("v1.36.3-eks-1-36-10", "v1.36.3-eks-1-36-9", "v1.36.3")):
    is_older = Version.parse(text.removeprefix("v")) < Version.parse(other.removeprefix("v"))
    print(f"{text} < {other}: {str(is_older).lower()}")
E
go mod init finding 2>/dev/null
go get k8s.io/apimachinery@v0.36.1 2>/dev/null
python=$(venv/bin/python order.py)
kubernetes=$(go run .)
printf '%s\n' "semver:" "$python" "apimachinery:" "$kubernetes"
expected="v1.36.3-eks-1-36-10 < v1.36.3-eks-1-36-9: true
v1.36.3-eks-1-36-9 < v1.36.3: true"
if [ "$python" != "$expected" ] || [ "$kubernetes" != "$expected" ]; then
    echo "versions of EKS Distro are ordered otherwise now"
    exit 1
fi
