package gateway

import (
	"github.com/meshgate/meshgate/controlplane/model"
)

// Instances is the kind of gateway instances, named like their node tokens. It
// is written when an instance enrols and remembers what its listeners are,
// so that the control plane can configure it again after a restart.
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
	// ControlPlane is host:port at which the instance reaches the data-plane
	// server, where the OAuth server is too.
	ControlPlane string `json:"control_plane"`
	// RootsFile is the instance's own PEM bundle of public authorities, or empty.
	RootsFile string `json:"roots_file,omitempty"`
}

// SameSockets says whether two instances listen on the same address and ports.
func (i *Instance) SameSockets(o *Instance) bool {
	return i.Listen == o.Listen && i.HTTPPort == o.HTTPPort && i.HTTPSPort == o.HTTPSPort
}
