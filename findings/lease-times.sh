#!/usr/bin/env bash
# Libraries:     kubernetes 37.0.2 and lightkube 1.0.1 (Kubernetes clients in Python), and k8s.io/apimachinery 0.36.1
#                (the types with which kube-apiserver reads what they send).
# Guess:         the typed Lease of a client writes every datetime so that the API can read it.
# What happens:  MicroTime, the type of a Lease's times, is read with exactly six digits of a second. Both clients leave
#                the fraction out if it is zero. Output seen:
#                  kubernetes, 1 microsecond:   2026-01-01T00:00:00.000001+00:00  read
#                  kubernetes, 0 microseconds:  2026-01-01T00:00:00+00:00         cannot parse "+00:00" as ".000000"
#                  lightkube,  1 microsecond:   2026-01-01T00:00:00.000001Z       read
#                  lightkube,  0 microseconds:  2026-01-01T00:00:00Z              cannot parse "Z" as ".000000"
# For users:     a leader that writes `now` fails once in a million renewals; one that rounds to seconds, or a test
#                with a fixed time, fails always. An Event's eventTime is of the same type.
# Espalier:      writes six digits always: `micro_time` in src/espalier/runtime/leadership/election.py and
#                src/espalier/api/gardener/extensions/leases.py.
#
# Needs Go; the first build of apimachinery takes about half a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	for _, text := range os.Args[1:] {
		var time metav1.MicroTime
		if err := time.UnmarshalJSON([]byte(`"` + text + `"`)); err != nil {
			fmt.Println(text, err)
		} else {
			fmt.Println(text, "read")
		}
	}
}
E
cat > times.py <<'E'
from datetime import UTC, datetime

import lightkube.models.coordination_v1
import lightkube.resources.coordination_v1
from kubernetes import client

for microsecond in (1, 0):
    moment = datetime(2026, 1, 1, 0, 0, 0, microsecond, UTC)
    lease = client.V1Lease(spec=client.V1LeaseSpec(renew_time=moment))
    print(client.ApiClient().sanitize_for_serialization(lease)["spec"]["renewTime"])
    spec = lightkube.models.coordination_v1.LeaseSpec(renewTime=moment)
    print(lightkube.resources.coordination_v1.Lease(spec=spec).to_dict()["spec"]["renewTime"])
E
go mod init finding 2>/dev/null
go get k8s.io/apimachinery@v0.36.1 2>/dev/null
go mod tidy 2>/dev/null
mapfile -t times < <(venv/bin/python times.py)
result=$(go run . "${times[@]}")
echo "$result"
layout='as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
expected="2026-01-01T00:00:00.000001+00:00 read
2026-01-01T00:00:00.000001Z read
2026-01-01T00:00:00+00:00 parsing time \"2026-01-01T00:00:00+00:00\" $layout \"+00:00\" as \".000000\"
2026-01-01T00:00:00Z parsing time \"2026-01-01T00:00:00Z\" $layout \"Z\" as \".000000\""
if [ "$result" != "$expected" ]; then
    echo "the times of a Lease are written or read otherwise now"
    exit 1
fi
