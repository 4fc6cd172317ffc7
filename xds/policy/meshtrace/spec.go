// Package meshtrace is the policy by which the proxies of its target send spans of the requests
// that pass them to a collector. All policies whose target matches a proxy count: a field of a
// stronger one replaces that of a weaker one. Where one is chosen, no TrafficTrace counts.
package meshtrace

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// Resource is the policy as users write it, with everything below spec.
type Resource struct {
	model.Labelled
	Spec *Spec `json:"spec,omitempty"`
}

// Spec says which proxies send spans, and how.
type Spec struct {
	TargetRef *target.Ref `json:"targetRef,omitempty"`
	Default   *Conf       `json:"default,omitempty"`
}

// Conf says where spans go, of how many requests there are some, and what they say.
type Conf struct {
	// Backends has one element.
	Backends []Backend `json:"backends,omitempty"`
	Sampling *Sampling `json:"sampling,omitempty"`
	Tags     []Tag     `json:"tags,omitempty"`
}

// These are the types of backends.
const (
	typeZipkin        = "Zipkin"
	typeDatadog       = "Datadog"
	typeOpenTelemetry = "OpenTelemetry"
)

// Backend has one member beside Type, which may be left out.
type Backend struct {
	Type          string         `json:"type,omitempty"`
	Zipkin        *Zipkin        `json:"zipkin,omitempty"`
	Datadog       *Datadog       `json:"datadog,omitempty"`
	OpenTelemetry *OpenTelemetry `json:"openTelemetry,omitempty"`
}

// Zipkin is where spans are posted, and their form: see [mesh.Collector].
type Zipkin struct {
	URL               string `json:"url,omitempty"`
	TraceID128bit     *bool  `json:"traceId128bit,omitempty"`
	APIVersion        string `json:"apiVersion,omitempty"`
	SharedSpanContext *bool  `json:"sharedSpanContext,omitempty"`
}

// Datadog is the URL of an agent, without a path.
type Datadog struct {
	URL          string `json:"url,omitempty"`
	SplitService *bool  `json:"splitService,omitempty"`
}

// OpenTelemetry is where spans go in OTLP: see [mesh.OTLPCollector].
type OpenTelemetry struct {
	Endpoint string `json:"endpoint,omitempty"`
}

// Sampling is in per cent; 100 where it says nothing: see [tracing.Sampling].
type Sampling struct {
	Overall *float64 `json:"overall,omitempty"`
	Client  *float64 `json:"client,omitempty"`
	Random  *float64 `json:"random,omitempty"`
}

// Tag is a tag of every span: a text, or the value of a header of the request.
type Tag struct {
	Name    string  `json:"name,omitempty"`
	Literal *string `json:"literal,omitempty"`
	Header  *Header `json:"header,omitempty"`
}

// Header names a header. Requests without it have the default, or no tag if that is empty.
type Header struct {
	Name    string `json:"name,omitempty"`
	Default string `json:"default,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Resource{}, model.Kind{
	Name: "mesh_trace", Path: "meshtraces", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "MeshTrace", Singular: "Mesh Trace", Plural: "Mesh Traces",
		Policy: true, Proxy: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the listeners of a proxy and adds the cluster of the collector.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.AllByProxy, Order: target.Order, Sourced: true, Refuses: policy.RefusesNobody,
	Edits:   policy.Edits{Inbound: inbound, Outbound: outbound, Contribute: contribute},
	Facts:   facts,
	Explain: explain, Rules: rules,
}

// Target implements target.Targeted.
func (r *Resource) Target() *target.Ref {
	if r.Spec == nil {
		return nil
	}
	return r.Spec.TargetRef
}

// SelectedTargets implements model.Targeting.
func (r *Resource) SelectedTargets() []map[string]string { return r.Target().Selected() }

// SelectedSources implements model.Selecting: the policy is not about callers.
func (r *Resource) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting: the policy is not about called services.
func (r *Resource) SelectedDestinations() []map[string]string { return nil }

// items returns what a policy says, for everybody.
func items(spec any) []target.Item[Conf] {
	r, ok := spec.(*Resource)
	if !ok || r.Spec == nil || r.Spec.Default == nil {
		return nil
	}
	return []target.Item[Conf]{{TargetRef: &target.Ref{Kind: target.Mesh}, Default: r.Spec.Default}}
}
