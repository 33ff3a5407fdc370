#!/usr/bin/env bash
# Libraries:     sigs.k8s.io/cli-utils 0.37.2, pkg/kstatus (how kpt, and in a fork Flux, tell whether an object is
#                ready), and the types of Cluster API 1.14.2, v1beta2.
# Guess:         a Cluster of Cluster API is in progress until it is available.
# What happens:  it is Current as soon as its status is of this generation: kstatus knows condition Ready, which of the
#                core kinds of v1beta2 only Machine has. The others have Available. Output seen:
#                  Machine            Ready=False      InProgress
#                  Cluster            Available=False  Current
#                  MachineDeployment  Available=False  Current
# For users:     whoever waits by it, such as a Kustomization of Flux with `wait: true`, goes on before there is a
#                control plane. Give the Kustomization `healthCheckExprs` that read Available.
# Espalier:      its own Clusters have Ready, Reconciling and Stalled: src/espalier/clusters/report/progress.py,
#                docs/gitops.md.
#
# Needs Go; the first build takes about a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func main() {
	meta := metav1.ObjectMeta{Name: "edge", Namespace: "default", Generation: 2}
	replicas, available := int32(3), int32(0)

	machine := &clusterv1.Machine{ObjectMeta: meta}
	machine.Status.ObservedGeneration = 2
	machine.Status.Conditions = conditions(clusterv1.MachineReadyCondition)
	show("Machine", machine)

	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Status.ObservedGeneration = 2
	cluster.Status.Phase = string(clusterv1.ClusterPhaseProvisioning)
	cluster.Status.Conditions = conditions(clusterv1.ClusterAvailableCondition)
	show("Cluster", cluster)

	deployment := &clusterv1.MachineDeployment{ObjectMeta: meta}
	deployment.Spec.Replicas = &replicas
	deployment.Status.ObservedGeneration = 2
	deployment.Status.AvailableReplicas = &available
	deployment.Status.Conditions = conditions(clusterv1.MachineDeploymentAvailableCondition)
	show("MachineDeployment", deployment)
}

func conditions(name string) []metav1.Condition {
	return []metav1.Condition{{Type: name, Status: "False", Reason: "NotYet", ObservedGeneration: 2}}
}

type object interface {
	GetConditions() []metav1.Condition
}

func show(kind string, typed object) {
	text, err := json.Marshal(typed)
	if err != nil {
		panic(err)
	}
	head := fmt.Sprintf(`{"apiVersion": "%s", "kind": "%s", `, clusterv1.GroupVersion, kind)
	read := &unstructured.Unstructured{}
	if err := read.UnmarshalJSON([]byte(head + string(text[1:]))); err != nil {
		panic(err)
	}
	result, err := status.Compute(read)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%-18s %-16s %s\n", kind, typed.GetConditions()[0].Type+"=False", result.Status)
}
E
go mod init finding 2>/dev/null
go get sigs.k8s.io/cli-utils/pkg/kstatus/status@v0.37.2 sigs.k8s.io/cluster-api/api/core/v1beta2@v1.14.2 2>/dev/null
go mod tidy 2>/dev/null
output=$(go run .)
echo "$output"
expected="Machine            Ready=False      InProgress
Cluster            Available=False  Current
MachineDeployment  Available=False  Current"
if [ "$output" != "$expected" ]; then
    echo "kstatus has another verdict on objects of Cluster API now"
    exit 1
fi
