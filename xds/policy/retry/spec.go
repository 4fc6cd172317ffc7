// Package retry is the policy that repeats failed requests (requirement "Retry").
package retry

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec is a retry policy.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf says what to retry, by the protocol of the service.
type Conf struct {
	HTTP *HTTP `json:"http,omitempty"`
	GRPC *GRPC `json:"grpc,omitempty"`
	TCP  *TCP  `json:"tcp,omitempty"`
}

// HTTP applies to HTTP and HTTP/2.
type HTTP struct {
	// NumRetries does not count the first try.
	NumRetries *uint32 `json:"numRetries,omitempty"`
	// PerTryTimeout applies to each try, including the first.
	PerTryTimeout *mesh.Duration `json:"perTryTimeout,omitempty"`
	BackOff       *BackOff       `json:"backOff,omitempty"`
	// RetriableStatusCodes are retried in addition to RetryOn.
	RetriableStatusCodes []uint32 `json:"retriableStatusCodes,omitempty"`
	// RetriableHeaders are the names of headers; answers with one of them are retried in addition to
	// RetryOn. The usual mesh does not have them, and so nothing that retriable_headers could mean.
	RetriableHeaders []string `json:"retriableHeaders,omitempty"`
	// RetriableMethods limit retries to some methods; empty means all.
	RetriableMethods []string `json:"retriableMethods,omitempty" jsonschema:"enum=NONE,enum=CONNECT,enum=DELETE,enum=GET,enum=HEAD,enum=OPTIONS,enum=PATCH,enum=POST,enum=PUT,enum=TRACE"`
	// RetryOn replaces the default conditions.
	RetryOn []string `json:"retryOn,omitempty" jsonschema:"enum=all_5xx,enum=gateway_error,enum=reset,enum=connect_failure,enum=envoy_ratelimited,enum=retriable_4xx,enum=refused_stream,enum=retriable_status_codes,enum=retriable_headers,enum=http3_post_connect_failure"`
}

// GRPC applies to gRPC.
type GRPC struct {
	NumRetries    *uint32        `json:"numRetries,omitempty"`
	PerTryTimeout *mesh.Duration `json:"perTryTimeout,omitempty"`
	BackOff       *BackOff       `json:"backOff,omitempty"`
	// RetryOn replaces the default conditions.
	RetryOn []string `json:"retryOn,omitempty" jsonschema:"enum=cancelled,enum=deadline_exceeded,enum=internal,enum=resource_exhausted,enum=unavailable"`
}

// TCP applies to connections that are not HTTP.
type TCP struct {
	// MaxConnectAttempts counts the first try.
	MaxConnectAttempts uint32 `json:"maxConnectAttempts,omitempty"`
}

// BackOff is the time between tries. It is random and grows from BaseInterval to MaxInterval,
// which is ten times BaseInterval if absent.
type BackOff struct {
	BaseInterval *mesh.Duration `json:"baseInterval,omitempty"`
	MaxInterval  *mesh.Duration `json:"maxInterval,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "retry", Path: "retries", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "Retry", Singular: "Retry", Plural: "Retries",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the listeners and routes of outbounds.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByDestination, Gateway: true,
	Edits:   policy.Edits{Outbound: outbound, OutboundRoutes: outboundRoutes},
	Explain: explain,
	Idle:    idle,
}
