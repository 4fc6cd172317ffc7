package gateway

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Instances is the kind of gateway instances, which are named like their node tokens. An
// instance is written when it enrols. It holds the sockets of the listeners, so that the
// control plane can configure the instance again after a restart.
var Instances = &model.Kind{
	Name: "gateway_instance", Path: "gateway-instances", Scoping: model.ControlPlane,
	Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(Instance) },
}

// Instance is one gateway Envoy.
type Instance struct {
	// Listen is the IP address of its listeners.
	Listen string `json:"listen"`
	// HTTPPort and HTTPSPort are the ports of its listeners.
	HTTPPort  int `json:"http_port"`
	HTTPSPort int `json:"https_port"`
	// ControlPlane is the host:port at which the instance reaches the data-plane server,
	// which also serves OAuth.
	ControlPlane string `json:"control_plane"`
	// RootsFile is the instance's own PEM bundle of public authorities, or empty.
	RootsFile string `json:"roots_file,omitempty"`
	// Filter says how the instance has the filter.
	Filter contract.Mode `json:"filter,omitempty"`
}

// SameSockets reports whether two instances listen on the same address and ports.
func (i *Instance) SameSockets(o *Instance) bool {
	return i.Listen == o.Listen && i.HTTPPort == o.HTTPPort && i.HTTPSPort == o.HTTPSPort
}

// SameFilter reports whether two instances have the filter in the same way.
func (i *Instance) SameFilter(o *Instance) bool { return i.Filter == o.Filter }
