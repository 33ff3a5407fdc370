#!/usr/bin/env bash
# Libraries:     github.com/google/cel-go 0.29.2 (CEL in kube-apiserver), and cel-python 0.5.0 (CEL in Python).
# Guess:         string() of a value is the same text in both, and what one takes for a duration the other does.
# What happens:  cel-python writes a double as Python does, and leaves a fraction of a second out. Output seen:
#                                                                cel-go                  cel-python
#                  string(1.0)                                   1                       1.0
#                  string(100000000.0)                           1e+08                   100000000.0
#                  string(timestamp('2026-01-02T03:04:05.5Z'))   2026-01-02T03:04:05.5Z  2026-01-02T03:04:05Z
#                  duration('1d') == duration('24h')             error                   true
# For users:     a rule of a CRD or an admission policy that is tried with cel-python, and compares such a text or reads
#                a duration of days, has another result in a cluster; two times within a second count as equal.
# Espalier:      its embedded API server evaluates rules with CEL's own library in C++ (decision 0003).
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cel-python==0.5.0
cd "$work"
cat > expressions <<'E'
string(1.0)
string(100000000.0)
string(timestamp('2026-01-02T03:04:05.5Z'))
duration('1d') == duration('24h')
E
cat > main.go <<'E'
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
)

func main() {
	environment, err := cel.NewEnv()
	if err != nil {
		panic(err)
	}
	file, _ := os.Open("expressions")
	for lines := bufio.NewScanner(file); lines.Scan(); {
		ast, issues := environment.Compile(lines.Text())
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := environment.Program(ast)
		if err != nil {
			panic(err)
		}
		value, _, err := program.Eval(map[string]any{})
		if err != nil {
			fmt.Println("error")
		} else {
			fmt.Println(value.Value())
		}
	}
}
E
cat > evaluate.py <<'E'
import celpy

for line in open("expressions"):
    environment = celpy.Environment()
    try:
        value = environment.program(environment.compile(line.strip())).evaluate({})
    except celpy.CELEvalError:
        print("error")
    else:
        print("true" if value is True or repr(value) == "BoolType(True)" else value)
E
go mod init finding 2>/dev/null
go get github.com/google/cel-go@v0.29.2 2>/dev/null
go mod tidy 2>/dev/null
go run . > go.txt
venv/bin/python evaluate.py > python.txt
paste expressions go.txt python.txt | while IFS=$'\t' read -r expression go python; do
    printf '%-45s %-23s %s\n' "$expression" "$go" "$python"
done
if [ "$(cat go.txt)" != $'1\n1e+08\n2026-01-02T03:04:05.5Z\nerror' ]; then
    echo "cel-go has other results now"
    exit 1
fi
if [ "$(cat python.txt)" != $'1.0\n100000000.0\n2026-01-02T03:04:05Z\ntrue' ]; then
    echo "cel-python has other results now"
    exit 1
fi
