package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	caller   = "machine-controller"
	idPrefix = "cloud://"

	shootTag      = "espalier.gardener.cloud/shoot"
	deploymentTag = "espalier.gardener.cloud/machine-deployment"
	setTag        = "espalier.gardener.cloud/machine-set"
	machineTag    = "espalier.gardener.cloud/machine"
	// deploymentLabel is a label of each Machine, by the template of its deployment.
	deploymentLabel = "name"
)

// virtualMachine is an item of the cloud's inventory (`api/cloud.py`).
type virtualMachine struct {
	Kind     string            `json:"kind"`
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Tags     map[string]string `json:"tags,omitempty"`
	Network  string            `json:"network"`
	Size     string            `json:"size"`
	Image    string            `json:"image"`
	UserData []byte            `json:"userData,omitempty"`
	Address  string            `json:"address,omitempty"`
}

// call is one call of the cloud's API: Create, List or Delete.
type call struct {
	Type string            `json:"type"`
	Item *virtualMachine   `json:"item,omitempty"`
	Kind string            `json:"kind,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
	ID   string            `json:"id,omitempty"`
}

type request struct {
	Credentials map[string]string `json:"credentials"`
	Call        call              `json:"call"`
	Caller      string            `json:"caller"`
}

// refused is the cloud's answer to a request that it does not carry out.
type refused struct {
	Refusal string `json:"refusal"`
	Message string `json:"message"`
}

var codeOf = map[string]codes.Code{
	"Unauthenticated": codes.Unauthenticated,
	"NotFound":        codes.NotFound,
	"NameTaken":       codes.AlreadyExists,
	"InUse":           codes.FailedPrecondition,
	"Invalid":         codes.InvalidArgument,
	"QuotaExceeded":   codes.ResourceExhausted,
	"RateLimited":     codes.ResourceExhausted,
	"Unavailable":     codes.Unavailable,
}

var client = http.Client{Timeout: 10 * time.Second}

// cloud is the driver of the machine controller for the simulated cloud.
type cloud struct {
	url string
}

var _ driver.Driver = (*cloud)(nil)

func (c *cloud) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	wanted := virtualMachine{
		Kind: "VirtualMachine",
		Name: req.Machine.Name,
		Tags: map[string]string{
			shootTag:      req.Machine.Namespace,
			machineTag:    req.Machine.Name,
			deploymentTag: req.Machine.Labels[deploymentLabel],
		},
		UserData: req.Secret.Data["userData"],
	}
	if owner := metav1.GetControllerOf(req.Machine); owner != nil {
		wanted.Tags[setTag] = owner.Name
	}
	if err := json.Unmarshal(req.MachineClass.ProviderSpec.Raw, &wanted); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	created, err := c.ask(ctx, req.Secret, call{Type: "Create", Item: &wanted})
	if err != nil {
		return nil, err
	}
	made := created[0]
	return &driver.CreateMachineResponse{ProviderID: idPrefix + made.ID, NodeName: made.Name, Addresses: made.addresses()}, nil
}

func (c *cloud) InitializeMachine(context.Context, *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	return nil, status.Error(codes.Unimplemented, "a virtual machine of this cloud needs nothing after its creation")
}

func (c *cloud) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	found, err := c.of(ctx, req.Machine, req.Secret)
	if err != nil {
		return nil, err
	}
	for _, machine := range found {
		_, err := c.ask(ctx, req.Secret, call{Type: "Delete", Kind: "VirtualMachine", ID: machine.ID})
		if answer, _ := status.FromError(err); err != nil && answer.Code() != codes.NotFound {
			return nil, err
		}
	}
	return &driver.DeleteMachineResponse{}, nil
}

func (c *cloud) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	found, err := c.of(ctx, req.Machine, req.Secret)
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, status.Error(codes.NotFound, fmt.Sprintf("the cloud has no virtual machine of Machine %s", req.Machine.Name))
	case 1:
		it := found[0]
		return &driver.GetMachineStatusResponse{ProviderID: idPrefix + it.ID, NodeName: it.Name, Addresses: it.addresses()}, nil
	default:
		return nil, status.Error(codes.OutOfRange, fmt.Sprintf("the cloud has %d virtual machines of Machine %s", len(found), req.Machine.Name))
	}
}

func (c *cloud) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	all, err := c.list(ctx, req.MachineClass.Namespace, req.Secret)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, machine := range all {
		names[idPrefix+machine.ID] = machine.Tags[machineTag]
	}
	return &driver.ListMachinesResponse{MachineList: names}, nil
}

func (c *cloud) GetVolumeIDs(context.Context, *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	return nil, status.Error(codes.Unimplemented, "this cloud has no volumes")
}

// of is the virtual machines of a Machine: by its provider ID, or by its tag before it has one.
func (c *cloud) of(ctx context.Context, machine *v1alpha1.Machine, secret *corev1.Secret) ([]virtualMachine, error) {
	all, err := c.list(ctx, machine.Namespace, secret)
	if err != nil {
		return nil, err
	}
	found := []virtualMachine{}
	for _, it := range all {
		if id := machine.Spec.ProviderID; id == idPrefix+it.ID || id == "" && it.Tags[machineTag] == machine.Name {
			found = append(found, it)
		}
	}
	return found, nil
}

func (c *cloud) list(ctx context.Context, namespace string, secret *corev1.Secret) ([]virtualMachine, error) {
	return c.ask(ctx, secret, call{Type: "List", Kind: "VirtualMachine", Tags: map[string]string{shootTag: namespace}})
}

// ask makes one call. Whether a call that is not answered was carried out is unknown: Unavailable.
func (c *cloud) ask(ctx context.Context, secret *corev1.Secret, what call) ([]virtualMachine, error) {
	credentials := map[string]string{"account": string(secret.Data["account"]), "token": string(secret.Data["token"])}
	body, err := json.Marshal(request{Credentials: credentials, Call: what, Caller: caller})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	sent, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	answer, err := client.Do(sent)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if answer.StatusCode != http.StatusOK {
		var no refused
		if err := json.Unmarshal(content, &no); err != nil || codeOf[no.Refusal] == codes.OK {
			return nil, status.Error(codes.Unavailable, strings.TrimSpace(string(content)))
		}
		return nil, status.Error(codeOf[no.Refusal], no.Message)
	}
	var items []virtualMachine
	if err := json.Unmarshal(content, &items); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return items, nil
}

func (m virtualMachine) addresses() []corev1.NodeAddress {
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.Address}}
}
