// Package ratelimit is the policy that limits the requests to a service, for each sidecar and
// group of callers (requirement "RateLimit").
package ratelimit

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
)

// Spec says whose requests to which services are limited.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf limits nothing if it is empty.
type Conf struct {
	HTTP *HTTP `json:"http,omitempty"`
}

// HTTP lets so many requests pass at once, and then as many in each interval, evenly
// (LocalRateLimit.token_bucket). The callers of each source have a limit of their own, at each
// sidecar of the service. For a service outside the mesh, each caller's sidecar has one.
type HTTP struct {
	Requests    uint32         `json:"requests,omitempty"`
	Interval    *mesh.Duration `json:"interval,omitempty"`
	OnRateLimit *OnRateLimit   `json:"onRateLimit,omitempty"`
}

// OnRateLimit is the answer to a request over the limit; 429 unless it says otherwise.
type OnRateLimit struct {
	Status  *uint32  `json:"status,omitempty"`
	Headers []Header `json:"headers,omitempty"`
}

// Header is a header of the answer. With Append it stands beside one of the same name.
type Header struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Append bool   `json:"append,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "rate_limit", Path: "rate-limits", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "RateLimit", Singular: "Rate Limit", Plural: "Rate Limits",
		Policy: true, Inbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits inbounds. Of the sources that select a caller, in all policies that match, the
// most specific one says how many requests it may send. What has no inbound is limited by the
// proxies of its callers, by the one policy that is chosen for their connections.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.AllByInbound | policy.ByOutbound, Egress: true, Gateway: true, HTTPOnly: true, Refuses: policy.RefusesAnybody, Proxyless: true,
	Edits:   policy.Edits{Inbound: inbound, Callers: limitCallers, Outbound: outbound, OutboundRoutes: limitOutbound, Prepare: prepare},
	Facts:   callers.Facts(func(s *Spec) []mesh.Selector { return s.Sources }),
	Explain: explain,
}
