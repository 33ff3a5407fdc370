#!/usr/bin/env bash
# Library:       Cluster API 1.14.2 (sigs.k8s.io/cluster-api): its Machine controller, and its contract for control
#                planes. Both are asked by a test file that is put into a copy of the module.
# Guess:         a node whose kubelet is of the Kubernetes release in spec.version of its Machine is up to date, as it is
#                to Cluster API 1.13.
# What happens:  since 1.14 the two texts have to be equal. EKS Distro names releases (v1.36.3-eks-1-36-1), and its
#                kubelets the commit that they were built from (v1.36.3-eks-d91a302), so no Machine is ever up to date.
#                A control plane counts as upgrading, for as long as it lives, if the first digits of that commit sort
#                before those of the release. Output seen:
#                  kubelet v1.36.3: UpToDate False, is upgrading: false
#                  kubelet v1.36.3-eks-d91a302: UpToDate False, is upgrading: false
#                  kubelet v1.36.3-eks-0a1b2c3: UpToDate False, is upgrading: true
# For users:     upToDateReplicas stays 0, and status.version is not spec.version: who waits for either waits for ever.
#                Beside a control plane that counts as upgrading no MachineSet makes machines, unless annotation
#                machineset.cluster.x-k8s.io/skip-preflight-checks names ControlPlaneIsStable.
# Espalier:      takes machines for up to date if nothing but that text differs: src/espalier/clusterapi/contract.py
#                (`are_kubelets_named_otherwise`).
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
module=$(cd "$work" && go mod download -json sigs.k8s.io/cluster-api@v1.14.2 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
cp -r "$module" "$work/capi"
chmod -R u+w "$work/capi"
cd "$work/capi"
export GOFLAGS=-mod=mod
go mod edit -replace sigs.k8s.io/cluster-api/api=sigs.k8s.io/cluster-api/api@v1.14.2  # a module of its own
cat > internal/contract/finding_test.go <<'E2'
package contract

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestFinding(t *testing.T) {
	kubelet := os.Getenv("KUBELET")
	found, err := ControlPlane().IsUpgrading(&unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"version": "v1.36.3-eks-1-36-1"},
		"status": map[string]any{"versions": []any{map[string]any{"version": kubelet, "replicas": int64(3)}}},
	}})
	fmt.Printf("is upgrading: %t\n", found)
	if err != nil {
		t.Fatal(err)
	}
}
E2
cat > core/reconcilers/machine/finding_test.go <<'E2'
package machine

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func TestFinding(t *testing.T) {
	machine := &clusterv1.Machine{Spec: clusterv1.MachineSpec{Version: "v1.36.3-eks-1-36-1"}}
	machine.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: os.Getenv("KUBELET")}
	setUpToDateCondition(context.Background(), machine, &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{})
	fmt.Printf("UpToDate %s\n", conditions.Get(machine, clusterv1.MachineUpToDateCondition).Status)
}
E2
find internal/contract core/reconcilers/machine -maxdepth 1 -name '*_test.go' ! -name finding_test.go -delete
go test -c -vet=off -o "$work/contract" ./internal/contract
go test -c -vet=off -o "$work/machine" ./core/reconcilers/machine
output=$(for kubelet in v1.36.3 v1.36.3-eks-d91a302 v1.36.3-eks-0a1b2c3; do
    up_to_date=$(KUBELET=$kubelet "$work/machine" -test.run '^TestFinding$' | sed -n '/^UpToDate/p')
    upgrading=$(KUBELET=$kubelet "$work/contract" -test.run '^TestFinding$' | sed -n '/^is upgrading/p')
    echo "kubelet $kubelet: $up_to_date, $upgrading"
done)
echo "$output"
[ "$output" = "kubelet v1.36.3: UpToDate False, is upgrading: false
kubelet v1.36.3-eks-d91a302: UpToDate False, is upgrading: false
kubelet v1.36.3-eks-0a1b2c3: UpToDate False, is upgrading: true" ] || { echo "the behaviour has changed"; exit 1; }
