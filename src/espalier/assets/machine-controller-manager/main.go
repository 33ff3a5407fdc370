// Program machine-controller-manager, or machine-controller by the name it is started with: both halves of Gardener's
// machine controller manager, the second with a driver for the simulated cloud.
//
//	machine-controller-manager --control-kubeconfig F --target-kubeconfig F --namespace N ...
//	machine-controller --cloud URL --control-kubeconfig F --target-kubeconfig F --namespace N ...
//
// All flags but --cloud are those of Gardener's programs. `-version` alone prints the modules that this was made of.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	manager "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager/app"
	manageroptions "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager/app/options"
	controller "github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	controlleroptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-version" {
		build, _ := debug.ReadBuildInfo()
		for _, module := range build.Deps {
			fmt.Println(module.Path, module.Version)
		}
		return
	}
	defer logs.FlushLogs()
	if filepath.Base(os.Args[0]) == "machine-controller" {
		server := controlleroptions.NewMCServer()
		server.AddFlags(pflag.CommandLine)
		url := pflag.String("cloud", "", "URL of the simulated cloud")
		flag.InitFlags()
		logs.InitLogs()
		fail(controller.Run(server, &cloud{url: *url}))
		return
	}
	server := manageroptions.NewMCMServer()
	server.AddFlags(pflag.CommandLine)
	flag.InitFlags()
	logs.InitLogs()
	fail(manager.Run(server))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
