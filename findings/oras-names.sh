#!/usr/bin/env bash
# Libraries:     oras 0.2.43 (the ORAS client for Python), and github.com/distribution/reference 0.6.0, with which
#                containerd, Docker and kubelet read names of images.
# Guess:         the name of an image is the same repository of the same registry to both.
# What happens:  to oras, localhost is a registry only with a port, else a namespace of Docker Hub; and it leaves out
#                `library`, where Docker Hub has images of one name. Output seen:
#                  name                        oras                           containerd
#                  localhost:5000/pause:3.10   localhost:5000/pause:3.10      localhost:5000/pause:3.10
#                  localhost/pause:3.10        docker.io/localhost/pause:3.10 localhost/pause:3.10
#                  registry.k8s.io/pause:3.10  registry.k8s.io/pause:3.10     registry.k8s.io/pause:3.10
#                  busybox:1.37                docker.io/busybox:1.37         docker.io/library/busybox:1.37
# For users:     a program that mirrors images with it asks Docker Hub for what is in a registry of this machine, and
#                for busybox instead of library/busybox. Give localhost a port, and write repositories in full.
# Espalier:      doesn't use it, and reads names as containerd does: src/espalier/upgrades/images.py,
#                src/espalier/cli/local/images/push/reference.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check oras==0.2.43
cd "$work"
names=(localhost:5000/pause:3.10 localhost/pause:3.10 registry.k8s.io/pause:3.10 busybox:1.37)
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"

	"github.com/distribution/reference"
)

func main() {
	for _, name := range os.Args[1:] {
		named, err := reference.ParseNormalizedNamed(name)
		if err != nil {
			panic(err)
		}
		fmt.Println(named)
	}
}
E
go mod init finding 2>/dev/null
go get github.com/distribution/reference@v0.6.0 2>/dev/null
go run . "${names[@]}" > containerd.txt
venv/bin/python -c '
import sys
from oras.container import Container
for name in sys.argv[1:]:
    print(Container(name).uri)
' "${names[@]}" > oras.txt
printf '%-27s %-30s %s\n' name oras containerd
paste <(printf '%s\n' "${names[@]}") oras.txt containerd.txt | while IFS=$'\t' read -r name oras containerd; do
    printf '%-27s %-30s %s\n' "$name" "$oras" "$containerd"
done
if [ "$(tr '\n' ' ' < containerd.txt)" != \
    "localhost:5000/pause:3.10 localhost/pause:3.10 registry.k8s.io/pause:3.10 docker.io/library/busybox:1.37 " ]; then
    echo "containerd reads names otherwise now"
    exit 1
fi
if [ "$(tr '\n' ' ' < oras.txt)" != \
    "localhost:5000/pause:3.10 docker.io/localhost/pause:3.10 registry.k8s.io/pause:3.10 docker.io/busybox:1.37 " ]; then
    echo "oras reads names otherwise now"
    exit 1
fi
