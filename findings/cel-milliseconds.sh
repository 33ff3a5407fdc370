#!/usr/bin/env bash
# Libraries:     github.com/google/cel-go 0.26.0 (CEL in kube-apiserver 1.36), cel-python 0.5.0, and cel-expr-python 0.1.3
#                (the CEL project's own library in C++, for Python).
# Guess:         both libraries of the CEL project, in Go and in C++, give an expression the same value.
# What happens:  getSeconds() of a duration is all of its seconds in both, but getMilliseconds() is all of its
#                milliseconds in Go, and only those beyond the last second in C++. Output seen:
#                                                         cel-go  cel-python  cel-expr-python
#                  duration('90s').getSeconds()           90      90          90
#                  duration('1500ms').getMilliseconds()   1500    1500        500
#                  duration('2s').getMilliseconds() < 9   false   false       true
# For users:     a limit such as getMilliseconds() < 1000 in a rule of a CRD or an admission policy refuses 1500ms in a
#                cluster, and passes in tests with the library for Python. Compare durations: d < duration('1s').
# Espalier:      its embedded API server has the library in C++ (decision 0003). A rule that asks a duration for
#                milliseconds isn't evaluated, and the CRD's condition RulesEvaluated says so:
#                src/espalier/apiserver/schema/expressions/cel.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cel-python==0.5.0 cel-expr-python==0.1.3
cd "$work"
cat > expressions <<'E'
duration('90s').getSeconds()
duration('1500ms').getMilliseconds()
duration('2s').getMilliseconds() < 9
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
	file, err := os.Open("expressions")
	if err != nil {
		panic(err)
	}
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
			panic(err)
		}
		fmt.Println(value.Value())
	}
}
E
cat > evaluate.py <<'E'
import sys

import celpy
from cel_expr_python import cel

environment = cel.NewEnv(variables={}, extensions=[])
for line in open("expressions"):
    if sys.argv[1] == "cel-python":
        python = celpy.Environment()
        value = python.program(python.compile(line.strip())).evaluate({})
        print(int(value) if isinstance(value, celpy.celtypes.IntType) else str(bool(value)).lower())
    else:
        value = environment.compile(line.strip()).eval(environment.Activation({})).value()
        print(str(value).lower())
E
go mod init finding 2>/dev/null
go get github.com/google/cel-go@v0.26.0 2>/dev/null
go mod tidy 2>/dev/null
go run . > go.txt
venv/bin/python evaluate.py cel-python > python.txt
venv/bin/python evaluate.py cel-expr-python > cpp.txt
printf '%-38s %-7s %-11s %s\n' "" cel-go cel-python cel-expr-python
paste expressions go.txt python.txt cpp.txt | while IFS=$'\t' read -r expression go python cpp; do
    printf '%-38s %-7s %-11s %s\n' "$expression" "$go" "$python" "$cpp"
done
for results in go.txt python.txt; do
    if [ "$(cat $results)" != $'90\n1500\nfalse' ]; then
        echo "$results: other values than all milliseconds of a duration"
        exit 1
    fi
done
if [ "$(cat cpp.txt)" != $'90\n500\ntrue' ]; then
    echo "cel-expr-python has other values now"
    exit 1
fi
