// Program vcenter answers as a vCenter does, over HTTPS: govmomi's simulator with one datacenter, for trying and testing.
//
//	vcenter -user U -password P [-listen 127.0.0.1:0] [-cert FILE -key FILE]
//
// It prints its URL, then what its certificate's SHA-1 thumbprint is, and serves until its input ends. Its tests change
// the inventory as vSphere's administrators do: through the API.
package main

import (
	"crypto/sha1"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"

	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address and port")
	user := flag.String("user", "", "who may log in")
	password := flag.String("password", "", "by which password")
	cert := flag.String("cert", "", "file with the certificate; without, a certificate of the simulator's own")
	key := flag.String("key", "", "file with its key")
	version := flag.Bool("version", false, "print the modules that this was made of, and end")
	flag.Parse()

	if *version {
		build, _ := debug.ReadBuildInfo()
		for _, module := range build.Deps {
			fmt.Println(module.Path, module.Version)
		}
		return
	}
	model := simulator.VPX()
	defer model.Remove()
	fail(model.Create())
	registry := model.Service.Context.Map
	manager := registry.Get(*model.ServiceContent.AuthorizationManager).(*simulator.AuthorizationManager)
	registry.Put(&authorization{manager})
	for _, machine := range registry.All("VirtualMachine") {
		registry.Put(&template{machine.(*simulator.VirtualMachine)})
	}
	model.Service.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if *cert != "" {
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		fail(err)
		model.Service.TLS.Certificates = []tls.Certificate{pair}
	}
	model.Service.Listen = &url.URL{Host: *listen, User: url.UserPassword(*user, *password)}
	model.Service.RegisterEndpoints = true
	server := model.Service.NewServer()
	// It is not closed: that would wait for whoever waits for a change.

	sum := sha1.Sum(server.Server.TLS.Certificates[0].Certificate[0])
	parts := make([]string, len(sum))
	for at, part := range sum {
		parts[at] = fmt.Sprintf("%02X", part)
	}
	fmt.Printf("https://%s\n%s\n", server.URL.Host, strings.Join(parts, ":"))
	io.Copy(io.Discard, os.Stdin)
}

// authorization answers which privileges a session has by the permissions that were set on an object itself; the
// simulator grants everything.
type authorization struct {
	*simulator.AuthorizationManager
}

func (a *authorization) HasPrivilegeOnEntities(ctx *simulator.Context, req *types.HasPrivilegeOnEntities) soap.HasFault {
	answer := a.AuthorizationManager.HasPrivilegeOnEntities(req).(*methods.HasPrivilegeOnEntitiesBody)
	for at := range answer.Res.Returnval {
		one := &answer.Res.Returnval[at]
		asked := types.RetrieveEntityPermissions{Entity: one.Entity}
		set := a.RetrieveEntityPermissions(ctx, &asked).(*methods.RetrieveEntityPermissionsBody)
		if set.Res == nil || len(set.Res.Returnval) == 0 {
			continue
		}
		granted := map[string]bool{}
		for _, permission := range set.Res.Returnval {
			for _, role := range a.RoleList {
				if role.RoleId == permission.RoleId {
					for _, privilege := range role.Privilege {
						granted[privilege] = true
					}
				}
			}
		}
		for index := range one.PrivAvailability {
			one.PrivAvailability[index].IsGranted = granted[one.PrivAvailability[index].PrivId]
		}
	}
	return answer
}

// template gives its clones the configuration that is asked for: CPUs, memory, identity, and data for the guest. The
// simulator copies the template's, and changes devices only.
type template struct {
	*simulator.VirtualMachine
}

func (m *template) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	answer := m.VirtualMachine.CloneVMTask(ctx, req).(*methods.CloneVM_TaskBody)
	task := ctx.Map.Get(answer.Res.Returnval).(*simulator.Task)
	task.Wait()
	if made, ok := task.Info.Result.(types.ManagedObjectReference); ok && req.Spec.Config != nil {
		asked := *req.Spec.Config
		asked.DeviceChange = nil // the simulator did it
		clone := ctx.Map.Get(made).(*simulator.VirtualMachine)
		ctx.WithLock(clone, func() {
			clone.ReconfigVMTask(ctx, &types.ReconfigVM_Task{This: made, Spec: asked})
		})
	}
	return answer
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
