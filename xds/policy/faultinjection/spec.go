// Package faultinjection is the policy that delays, refuses or slows down a share of the
// requests to a service, to test how its callers react (requirement "FaultInjection").
package faultinjection

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
)

// Spec says whose requests to which services get which faults.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf contains at least one fault.
type Conf struct {
	Delay             *Delay     `json:"delay,omitempty"`
	Abort             *Abort     `json:"abort,omitempty"`
	ResponseBandwidth *Bandwidth `json:"responseBandwidth,omitempty"`
}

// Delay delays a percentage of the requests.
type Delay struct {
	Percentage *float64       `json:"percentage,omitempty"`
	Value      *mesh.Duration `json:"value,omitempty"`
}

// Abort answers a percentage of the requests with an error.
type Abort struct {
	Percentage *float64 `json:"percentage,omitempty"`
	HTTPStatus *uint32  `json:"httpStatus,omitempty"`
}

// Bandwidth slows down a percentage of the responses. Limit is a number with kbps, mbps or
// gbps: thousands, millions or billions of bits per second, in upper or lower case.
type Bandwidth struct {
	Percentage *float64 `json:"percentage,omitempty"`
	Limit      string   `json:"limit,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "fault_injection", Path: "fault-injections", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "FaultInjection", Singular: "Fault Injection", Plural: "Fault Injections",
		Policy: true, Inbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits inbounds. Every policy that matches takes effect.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.AllByInbound, Egress: true, Gateway: true, HTTPOnly: true, Refuses: policy.RefusesNobody,
	Edits:   policy.Edits{Inbound: inbound, InboundRoutes: inboundRoutes},
	Facts:   callers.Facts(func(s *Spec) []mesh.Selector { return s.Sources }),
	Explain: explain,
}
