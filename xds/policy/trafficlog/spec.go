// Package trafficlog is the policy by which proxies log the requests and connections of their
// workloads to a backend of their mesh (requirement "TrafficLog").
package trafficlog

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec says which connections are logged where.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf names a backend of the mesh. An empty name stands for the default one.
type Conf struct {
	Backend string `json:"backend,omitempty"`
}

func (s *Spec) backend() string {
	if s.Conf == nil {
		return ""
	}
	return s.Conf.Backend
}

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	return slices.Concat(mesh.CheckSources(s.Sources), mesh.CheckDestinations(s.Destinations))
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "traffic_log", Path: "traffic-logs", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "TrafficLog", Singular: "Traffic Log", Plural: "Traffic Logs",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the listeners of outbounds and tells agents of the sink.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByService, Sourced: true,
	Edits:   policy.Edits{Outbound: outbound, Contribute: contribute},
	Facts:   facts,
	Explain: explain,
}
