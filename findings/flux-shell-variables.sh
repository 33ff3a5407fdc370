#!/usr/bin/env bash
# Library:       github.com/fluxcd/pkg/kustomize 1.35.7, with which Flux's kustomize-controller 1.9 replaces variables
#                (`postBuild.substitute` of a Kustomization).
# Guess:         a script in a manifest stays as it is, since its variables are not among those of the Kustomization.
# What happens:  each ${NAME} and each $$ is Flux's, also in a script: what isn't defined is replaced by nothing, $$
#                becomes $, and what bash has and the library hasn't is an error that stops the whole Kustomization. It
#                begins with the first variable that somebody defines. Output seen:
#                  script                          without variables               with one
#                  echo $HOSTNAME                  echo $HOSTNAME                  echo $HOSTNAME
#                  echo ${HOSTNAME}                echo ${HOSTNAME}                echo
#                  rm -rf ${DATA}/old              rm -rf ${DATA}/old              rm -rf /old
#                  echo $$ > /run/setup.pid        echo $$ > /run/setup.pid        echo $ > /run/setup.pid
#                  echo $${HOSTNAME}               echo $${HOSTNAME}               echo ${HOSTNAME}
#                  echo ${NODES[0]}                echo ${NODES[0]}                error
#                  echo ${PORT-6443}               echo ${PORT-6443}               error
# For users:     preKubeadmCommands of a KubeadmConfig, cloud-init or a Tinkerbell template runs with empty variables on
#                a node, long after Git has been applied without a fault. Write $NAME without braces and $$ nowhere, or
#                give the object the annotation kustomize.toolkit.fluxcd.io/substitute: disabled.
# Espalier:      docs/gitops.md says so; its stand-in for Flux refuses `postBuild`.
#
# Needs Go; the first build takes two to three minutes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/provider"
)

const scripts = `echo $HOSTNAME
echo ${HOSTNAME}
rm -rf ${DATA}/old
echo $$ > /run/setup.pid
echo $${HOSTNAME}
echo ${NODES[0]}
echo ${PORT-6443}`

func main() {
	for _, script := range strings.Split(scripts, "\n") {
		without := substituted(script, map[string]string{})
		with := substituted(script, map[string]string{"region": "west"})
		fmt.Println(strings.TrimRight(fmt.Sprintf("%-31s %-31s %s", script, without, with), " "))
	}
}

func substituted(script string, variables map[string]string) string {
	object := "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nscript: |\n  " + script + "\n"
	resource, err := provider.NewDefaultDepProvider().GetResourceFactory().FromBytes([]byte(object))
	if err != nil {
		panic(err)
	}
	kustomization := unstructured.Unstructured{Object: map[string]any{}}
	if err := unstructured.SetNestedStringMap(kustomization.Object, variables, "spec", "postBuild", "substitute"); err != nil {
		panic(err)
	}
	// The dry run reads no ConfigMaps and Secrets; there are none here.
	result, err := kustomize.SubstituteVariables(
		context.Background(), nil, kustomization, resource, kustomize.SubstituteWithDryRun(true))
	if err != nil {
		return "error"
	}
	tree, err := result.Map()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(tree["script"].(string))
}
E
go mod init finding 2>/dev/null
go get github.com/fluxcd/pkg/kustomize@v1.35.7 sigs.k8s.io/kustomize/api/provider@v0.21.1 2>/dev/null
output=$(go run .)
printf '%-31s %-31s %s\n' script 'without variables' 'with one'
echo "$output"
expected='echo $HOSTNAME                  echo $HOSTNAME                  echo $HOSTNAME
echo ${HOSTNAME}                echo ${HOSTNAME}                echo
rm -rf ${DATA}/old              rm -rf ${DATA}/old              rm -rf /old
echo $$ > /run/setup.pid        echo $$ > /run/setup.pid        echo $ > /run/setup.pid
echo $${HOSTNAME}               echo $${HOSTNAME}               echo ${HOSTNAME}
echo ${NODES[0]}                echo ${NODES[0]}                error
echo ${PORT-6443}               echo ${PORT-6443}               error'
if [ "$output" != "$expected" ]; then
    echo "variables in scripts are replaced otherwise now"
    exit 1
fi
