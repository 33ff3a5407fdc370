#!/usr/bin/env bash
# Library:       the processor of variables in clusterctl of Cluster API 1.14.2 (`clusterctl generate cluster`), which
#                its documentation calls a subset of bash's.
# Guess:         a default in a template, ${NAME:=3}, holds for the variable, as it does in bash from there on; and a
#                variable without a value is an error.
# What happens:  it holds for that one place. Elsewhere the variable is empty; and it is no error if the place with the
#                default comes first. Output seen, of "control plane: A, workers: B", nothing set:
#                  A            B            clusterctl                        bash
#                  ${NODES:=3}  ${NODES}     control plane: 3, workers:        control plane: 3, workers: 3
#                  ${NODES}     ${NODES:=3}  NODES is not set                  control plane: , workers: 3
#                  ${NODES:=3}  ${NODES:=5}  control plane: 3, workers: 5      control plane: 3, workers: 3
#                  ${NODES:+3}  ${NODES:=5}  control plane: 3, workers: 5      control plane: , workers: 5
# For users:     a template that names its default once is written with empty fields. An empty field is null, which the
#                API takes for absent, so a cluster has other numbers or versions than the template says; and whoever
#                has set the variable sees nothing. Repeat the default at each place.
# Espalier:      its provider for clusterctl has no variables (src/espalier/cli/install/); it has no guard.
#
# Needs Go and bash.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

func main() {
	os.Unsetenv("NODES")
	fmt.Printf("%-12s %-12s %-33s %s\n", "A", "B", "clusterctl", "bash")
	for _, places := range [][2]string{
		{"${NODES:=3}", "${NODES}"}, {"${NODES}", "${NODES:=3}"},
		{"${NODES:=3}", "${NODES:=5}"}, {"${NODES:+3}", "${NODES:=5}"},
	} {
		template := fmt.Sprintf("control plane: %s, workers: %s", places[0], places[1])
		shell, err := exec.Command("bash", "-c", `echo "`+template+`"`).Output()
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-12s %-12s %-33s %s", places[0], places[1], byClusterctl(template), shell)
	}
}

func byClusterctl(template string) string {
	noValue := func(name string) (string, error) { return "", fmt.Errorf("no value of %s", name) }
	written, err := yamlprocessor.NewSimpleProcessor().Process([]byte(template), noValue)
	if err == nil {
		return string(written)
	}
	if !strings.Contains(err.Error(), "value for variables [NODES] is not set") {
		panic(err)
	}
	return "NODES is not set"
}
E
go mod init finding 2>/dev/null
go get sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor@v1.14.2 2>/dev/null
output=$(go run .)
echo "$output"
expected='A            B            clusterctl                        bash
${NODES:=3}  ${NODES}     control plane: 3, workers:        control plane: 3, workers: 3
${NODES}     ${NODES:=3}  NODES is not set                  control plane: , workers: 3
${NODES:=3}  ${NODES:=5}  control plane: 3, workers: 5      control plane: 3, workers: 3
${NODES:+3}  ${NODES:=5}  control plane: 3, workers: 5      control plane: , workers: 5'
if [ "$output" != "$expected" ]; then
    echo "clusterctl takes defaults of variables otherwise now"
    exit 1
fi
