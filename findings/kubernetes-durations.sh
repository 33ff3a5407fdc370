#!/usr/bin/env bash
# Libraries:     kubernetes 37.0.2 (`kubernetes.utils.duration`) and durationpy 0.11, which it requires, and
#                k8s.io/apimachinery 0.36.3 (`metav1.Duration`, the type of durations in manifests, in Go).
# Guess:         the function of the client reads each duration that a Kubernetes API writes.
# What happens:  it reads those of the Gateway API (GEP-2257) alone: no fractions, no sign, no microseconds and at most
#                five digits. durationpy reads all of them, and days, which no API does. Output seen:
#                  written    API          kubernetes  durationpy
#                  1h0m0s     1h0m0s       1:00:00     1:00:00
#                  1m30.5s    1m30.5s      ValueError  0:01:30.500000
#                  876000h    876000h0m0s  ValueError  36500 days, 0:00:00
#                  -5m        -5m0s        ValueError  -1 day, 23:55:00
#                  0          0s           ValueError  0:00:00
#                  1d         error        ValueError  1 day, 0:00:00
# For users:     kubeadm's caCertificateValidityPeriod of a hundred years, or a timeout that somebody wrote as 1500ms and
#                the API gives back as 1.5s, ends a program that has worked with 5m0s; the other library lets a manifest
#                with 1d pass that the API refuses. Read with durationpy what an API has accepted.
# Espalier:      reads them by its own rules: src/espalier/api/text/durations.py.
#
# Needs Go; the first build of apimachinery takes about half a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 durationpy==0.11
cd "$work"
texts=(1h0m0s 1m30.5s 876000h -5m 0 1d)
cat > main.go <<'E'
package main

import (
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	for _, text := range os.Args[1:] {
		var duration metav1.Duration
		if err := json.Unmarshal([]byte(`"`+text+`"`), &duration); err != nil {
			fmt.Println("error")
			continue
		}
		fmt.Println(duration.Duration)
	}
}
E
cat > clients.py <<'E'
import sys

import durationpy
from kubernetes.utils.duration import parse_duration


def of(read, text):
    try:
        return str(read(text))
    except ValueError:
        return "ValueError"


texts, api = sys.argv[1:], sys.stdin.read().splitlines()
for text, written in zip(texts, api, strict=True):
    print(f"{text:10} {written:12} {of(parse_duration, text):11} {of(durationpy.from_str, text)}")
E
go mod init finding 2>/dev/null
go get k8s.io/apimachinery/pkg/apis/meta/v1@v0.36.3 2>/dev/null
go build -o api .
output=$(./api "${texts[@]}" | venv/bin/python clients.py "${texts[@]}")
printf '%-10s %-12s %-11s %s\n' written API kubernetes durationpy
echo "$output"
expected="1h0m0s     1h0m0s       1:00:00     1:00:00
1m30.5s    1m30.5s      ValueError  0:01:30.500000
876000h    876000h0m0s  ValueError  36500 days, 0:00:00
-5m        -5m0s        ValueError  -1 day, 23:55:00
0          0s           ValueError  0:00:00
1d         error        ValueError  1 day, 0:00:00"
if [ "$output" != "$expected" ]; then
    echo "durations are read otherwise now"
    exit 1
fi
