// Program kubernetes-node is every Kubernetes program of a cluster's nodes in one static binary: it becomes the one
// whose name it is called by. Linked together they share most of their code, on disk and in an image's layer.
package main

import (
	"context"
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
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps the name of each program to its main function, which returns the exit code.
var programs = map[string]func() int{
	"kube-apiserver":          serve(apiserver.NewAPIServerCommand),
	"kube-controller-manager": serve(controllermanager.NewControllerManagerCommand),
	"kube-proxy":              serve(proxy.NewProxyCommand),
	"kube-scheduler":          serve(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubeadm":                 runKubeadm,
	"kubectl":                 runKubectl,
	// The kubelet makes a context that signals end; it panics when it is given one.
	"kubelet": serve(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
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

// runKubeadm tells errors as kubeadm does, by the exit code too.
func runKubeadm() int {
	kubeadmerrors.HandleError(kubeadm.Run())
	return 0
}

// runKubectl prints errors as kubectl does, which is not how the servers do.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
