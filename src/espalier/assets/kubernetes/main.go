// Program kubernetes is several Kubernetes programs in one static binary: it becomes the one whose name it is
// called by. Linked together they share most of their code, so the whole costs little more than the API server alone.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// programs maps the name of each program to its main function, which returns the exit code.
var programs = map[string]func() int{
	"kube-apiserver":          serve(apiserver.NewAPIServerCommand),
	"kube-controller-manager": serve(controllermanager.NewControllerManagerCommand),
	"kubectl":                 runKubectl,
}

func main() {
	name := filepath.Base(os.Args[0])
	program, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: this binary holds other programs; call it by the name of one of them\n", name)
		os.Exit(2)
	}
	os.Exit(program())
}

func serve(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

// runKubectl prints errors as kubectl does, which is not how the servers do.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
