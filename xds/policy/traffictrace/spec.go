// Package traffictrace is the policy by which proxies send spans of the requests that pass them
// to a tracing backend of their mesh (requirement "TrafficTrace").
package traffictrace

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec says which proxies send spans where.
type Spec struct {
	model.Labelled
	Selectors []mesh.Selector `json:"selectors,omitempty"`
	Conf      *Conf           `json:"conf,omitempty"`
}

// Conf names a backend of the mesh. An empty name stands for the default one.
type Conf struct {
	Backend string `json:"backend,omitempty"`
}

// SelectedSources implements model.Selecting: there are none.
func (s *Spec) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting: the proxies that send spans.
func (s *Spec) SelectedDestinations() []map[string]string { return mesh.Matched(s.Selectors) }

func (s *Spec) backend() string {
	if s.Conf == nil {
		return ""
	}
	return s.Conf.Backend
}

func validate(spec any) []fault.Violation { return mesh.CheckAny("selectors", spec.(*Spec).Selectors) }

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "traffic_trace", Path: "traffic-traces", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "TrafficTrace", Singular: "Traffic Trace", Plural: "Traffic Traces",
		Policy: true, Proxy: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the listeners of a proxy and adds the cluster of the backend.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByProxy, Sourced: true, Yields: "mesh_trace", Refuses: policy.RefusesNobody,
	Edits:   policy.Edits{Inbound: inbound, Outbound: outbound, Contribute: contribute},
	Facts:   facts,
	Explain: explain,
}
