// Package healthcheck is the policy by which proxies check whether the endpoints of a service
// work, and avoid those that do not (requirement "HealthCheck").
package healthcheck

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec is a health check.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf says how and how often to check endpoints. Without TCP and HTTP, a successful
// connection is enough.
type Conf struct {
	// Interval is the time between two checks. Timeout is how long one may take.
	Interval *mesh.Duration `json:"interval,omitempty"`
	Timeout  *mesh.Duration `json:"timeout,omitempty"`
	// UnhealthyThreshold and HealthyThreshold are how many consecutive checks must fail, or
	// succeed, to change the state of an endpoint.
	UnhealthyThreshold uint32 `json:"unhealthyThreshold,omitempty"`
	HealthyThreshold   uint32 `json:"healthyThreshold,omitempty"`
	// InitialJitter randomly delays the first check; IntervalJitter and IntervalJitterPercent
	// delay every check.
	InitialJitter         *mesh.Duration `json:"initialJitter,omitempty"`
	IntervalJitter        *mesh.Duration `json:"intervalJitter,omitempty"`
	IntervalJitterPercent uint32         `json:"intervalJitterPercent,omitempty"`
	// HealthyPanicThreshold is the percentage of healthy endpoints below which health no
	// longer counts. FailTrafficOnPanic refuses requests in that state.
	HealthyPanicThreshold *float64 `json:"healthyPanicThreshold,omitempty"`
	FailTrafficOnPanic    *bool    `json:"failTrafficOnPanic,omitempty"`
	// EventLogPath is refused: configuration must not name files of a proxy's machine.
	EventLogPath string `json:"eventLogPath,omitempty"`
	// AlwaysLogHealthCheckFailures concerns that log.
	AlwaysLogHealthCheckFailures *bool `json:"alwaysLogHealthCheckFailures,omitempty"`
	// NoTrafficInterval replaces Interval for services without traffic so far.
	NoTrafficInterval *mesh.Duration `json:"noTrafficInterval,omitempty"`
	TCP               *TCP           `json:"tcp,omitempty"`
	HTTP              *HTTP          `json:"http,omitempty"`
	// ReuseConnection keeps the connection of a check for the next one, unless false.
	ReuseConnection *bool `json:"reuseConnection,omitempty"`
}

// TCP is what to send, and what must be received, in this order.
type TCP struct {
	Send    []byte   `json:"send,omitempty"`
	Receive [][]byte `json:"receive,omitempty"`
}

// HTTP is a request, and the statuses that count as success; 200 if there are none.
type HTTP struct {
	Path                string        `json:"path,omitempty"`
	RequestHeadersToAdd []HeaderToAdd `json:"requestHeadersToAdd,omitempty"`
	ExpectedStatuses    []uint32      `json:"expectedStatuses,omitempty"`
	// UseHTTP1 sends HTTP/1.1 even if the service uses HTTP/2.
	UseHTTP1 bool `json:"useHttp1,omitempty"`
}

// HeaderToAdd is a header of the request. It is added to others with the same name unless
// Append is false.
type HeaderToAdd struct {
	Append *bool   `json:"append,omitempty"`
	Header *Header `json:"header,omitempty"`
}

// Header is a name and a value.
type Header struct {
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "health_check", Path: "health-checks", Scoping: model.Mesh, Class: model.Config, Sealed: true,
	// Authorization may be among the headers, and a password in what is sent.
	Secrets: []string{"/conf/http/requestHeadersToAdd/*/header/value", "/conf/tcp/send"},
	Document: &model.Document{
		Type: "HealthCheck", Singular: "Health Check", Plural: "Health Checks",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the clusters of destinations.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByDestination, Gateway: true,
	Edits:   policy.Edits{Cluster: cluster},
	Explain: explain,
	Idle:    idle,
}
