// Package timeout is the policy that limits how long connections, requests and streams to a
// service may take (requirement "Timeout").
package timeout

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec is a timeout policy.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf contains the limits. Unless stated otherwise, an absent limit has Envoy's default.
type Conf struct {
	// ConnectTimeout applies to connections to an endpoint; [DefaultConnect] if absent.
	ConnectTimeout *mesh.Duration `json:"connectTimeout,omitempty"`
	TCP            *TCP           `json:"tcp,omitempty"`
	HTTP           *HTTP          `json:"http,omitempty"`
	GRPC           *GRPC          `json:"grpc,omitempty"`
}

// TCP applies to connections that are not HTTP.
type TCP struct {
	IdleTimeout *mesh.Duration `json:"idleTimeout,omitempty"`
}

// HTTP applies to HTTP, HTTP/2 and gRPC.
type HTTP struct {
	// RequestTimeout applies to the whole response. If it is absent, there is no limit.
	RequestTimeout *mesh.Duration `json:"requestTimeout,omitempty"`
	// IdleTimeout closes connections without requests.
	IdleTimeout *mesh.Duration `json:"idleTimeout,omitempty"`
	// StreamIdleTimeout ends requests without activity.
	StreamIdleTimeout *mesh.Duration `json:"streamIdleTimeout,omitempty"`
	MaxStreamDuration *mesh.Duration `json:"maxStreamDuration,omitempty"`
}

// GRPC applies to gRPC, where it takes precedence over HTTP.
type GRPC struct {
	StreamIdleTimeout *mesh.Duration `json:"streamIdleTimeout,omitempty"`
	MaxStreamDuration *mesh.Duration `json:"maxStreamDuration,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "timeout", Path: "timeouts", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "Timeout", Singular: "Timeout", Plural: "Timeouts",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the clusters, listeners and routes of outbounds.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByOutbound, Gateway: true,
	Edits:   policy.Edits{Cluster: cluster, Outbound: outbound, OutboundRoutes: outboundRoutes},
	Explain: explain,
}

const textSection = "at least one timeout in section has to be defined"

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := policy.Violations(append(mesh.CheckSources(s.Sources), mesh.CheckDestinations(s.Destinations)...))
	if s.Conf == nil {
		v.Add("conf", policy.TextDefined)
		return v
	}
	v.Whole("conf.connectTimeout", s.Conf.ConnectTimeout)
	if t := s.Conf.TCP; t != nil {
		v.Whole("conf.tcp.idleTimeout", t.IdleTimeout)
		switch {
		case t.IdleTimeout == nil:
			v.Add("conf.tcp", textSection)
		case *t.IdleTimeout <= 0:
			v.Add("conf.tcp.idleTimeout", policy.TextPositive)
		}
	}
	if h := s.Conf.HTTP; h != nil {
		if h.RequestTimeout == nil && h.IdleTimeout == nil {
			v.Add("conf.http", textSection)
		}
		v.Positive("conf.http.requestTimeout", h.RequestTimeout)
		v.Positive("conf.http.idleTimeout", h.IdleTimeout)
		v.Positive("conf.http.streamIdleTimeout", h.StreamIdleTimeout)
		v.Positive("conf.http.maxStreamDuration", h.MaxStreamDuration)
	}
	if g := s.Conf.GRPC; g != nil {
		if g.StreamIdleTimeout == nil && g.MaxStreamDuration == nil {
			v.Add("conf.grpc", textSection)
		}
		v.Positive("conf.grpc.streamIdleTimeout", g.StreamIdleTimeout)
		v.Positive("conf.grpc.maxStreamDuration", g.MaxStreamDuration)
	}
	return v
}
