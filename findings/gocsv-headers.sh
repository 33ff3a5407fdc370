#!/usr/bin/env bash
# Library:       github.com/gocarina/gocsv, 2024-05-20 (files of comma-separated values into types, in Go), with which
#                inventories of machines are read.
# Guess:         a file whose columns the type does not have is an error, or its lines are left out.
# What happens:  each line becomes a record whose fields are empty, without an error: for names in another case, for
#                semicolons, and for a column twice, of which the last is taken. Names with a byte order mark or blanks
#                before them are found, but values keep the blanks. Output seen:
#                  plain       error=<nil> hostname="worker-1" mac="02:00:00:00:00:01"
#                  mark        error=<nil> hostname="worker-1" mac="02:00:00:00:00:01"
#                  case        error=<nil> hostname="" mac=""
#                  semicolons  error=<nil> hostname="" mac=""
#                  blanks      error=<nil> hostname="worker-1" mac=" 02:00:00:00:00:01"
#                  twice       error=<nil> hostname="worker-2" mac="02:00:00:00:00:01"
# For users:     a list of hardware that a spreadsheet saved with `Hostname`, or with semicolons as it does where the
#                comma is the decimal mark, becomes machines without a name, and what complains is whatever comes next.
#                `gocsv.FailIfUnmatchedStructTags` also refuses files without optional columns: look at the first line
#                yourself.
# Espalier:      reads names in any case and cells without their blanks, and names each column that is missing or there
#                twice, and a separator that is none: src/espalier/providers/tinkerbell/hardware/inventory.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'E2'
module example.org/finding

go 1.24

require github.com/gocarina/gocsv v0.0.0-20240520201108-78e41c74b4b1
E2
cat > main.go <<'E2'
package main

import (
	"fmt"

	"github.com/gocarina/gocsv"
)

type machine struct {
	Hostname string `csv:"hostname"`
	MAC      string `csv:"mac"`
}

func main() {
	for _, file := range [][2]string{
		{"plain", "hostname,mac\nworker-1,02:00:00:00:00:01\n"},
		{"mark", "\ufeffhostname,mac\nworker-1,02:00:00:00:00:01\n"},
		{"case", "Hostname,MAC\nworker-1,02:00:00:00:00:01\n"},
		{"semicolons", "hostname;mac\nworker-1;02:00:00:00:00:01\n"},
		{"blanks", "hostname, mac\nworker-1, 02:00:00:00:00:01\n"},
		{"twice", "hostname,mac,hostname\nworker-1,02:00:00:00:00:01,worker-2\n"},
	} {
		var machines []*machine
		err := gocsv.UnmarshalString(file[1], &machines)
		for _, read := range machines {
			fmt.Printf("%-11s error=%v hostname=%q mac=%q\n", file[0], err, read.Hostname, read.MAC)
		}
	}
}
E2
GOFLAGS=-mod=mod go run . > seen
cat seen
diff - seen <<'E2'
plain       error=<nil> hostname="worker-1" mac="02:00:00:00:00:01"
mark        error=<nil> hostname="worker-1" mac="02:00:00:00:00:01"
case        error=<nil> hostname="" mac=""
semicolons  error=<nil> hostname="" mac=""
blanks      error=<nil> hostname="worker-1" mac=" 02:00:00:00:00:01"
twice       error=<nil> hostname="worker-2" mac="02:00:00:00:00:01"
E2
