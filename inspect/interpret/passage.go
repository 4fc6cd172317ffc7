package interpret

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// These are the kinds of steps, in the order in which a proxy takes them.
const (
	StepListener   = "listener"
	StepConnection = "connection"
	StepRoute      = "route"
	StepPermission = "permission"
	StepFault      = "fault"
	StepLimit      = "limit"
	StepToken      = "token"
	StepSplit      = "split"
	StepCluster    = "cluster"
	StepEndpoint   = "endpoint"
)

// Step is one thing that a proxy does with a request.
type Step struct {
	// Kind is one of the kinds of steps. Name is the resource or filter of Envoy that it is
	// about.
	Kind, Name string
	// Text says what happens, in one sentence. It shows no credentials.
	Text string
	// Chance is set for what concerns only some requests.
	Chance *Chance
	// Refused says that the step ends the request.
	Refused bool
}

// Chance is something that happens to a share of the requests, or only to those above a limit.
type Chance struct {
	// Percent is how many requests are concerned; 0 for limits, where it depends on the others.
	Percent float64
	// Delay and Status are what happens: a pause, an answer.
	Delay  time.Duration
	Status uint32
	// Requests may pass per Interval, for limits.
	Requests uint32
	Interval time.Duration
	// Slows says that the answer is slowed down.
	Slows bool
	// Key is equal for requests that are counted together, for limits.
	Key string
}

// Reply is how a proxy ends a request itself.
type Reply struct {
	// Status is the status of the answer, or 0 if the connection is closed without one.
	Status uint32
	// Step is the kind of the step that decided.
	Step string
	// Text says why.
	Text string
}

// Passage is what a proxy does with a request.
type Passage struct {
	Steps []Step
	// Reply is set if the proxy ends the request. Otherwise it goes to one of the shares.
	Reply *Reply
	// Shares are the clusters that the request may go to.
	Shares []Share
	// Request is the request as it leaves the proxy. It is nil if the proxy did not look into
	// the connection.
	Request *Request
	// facts are what is remembered of the connection.
	facts map[string]string
	// Opaque says that the proxy forwards bytes.
	Opaque bool
	// Route is the name of the route, empty if it has none.
	Route string
	// Issued says that the request is for the OAuth server.
	Issued bool
	// About is what the route says of itself: names and ids of the route and its service, by the
	// keys of package contract. Others are those of the routes that are for the request, too, but
	// come later.
	About  map[string]string
	Others []map[string]string
	// Plugins are those of the chain of the route.
	Plugins []contract.Plugin
	// Retry is what the proxy does if an endpoint fails; nil for nothing.
	Retry *Retry
}

// Retry says after which failures a proxy asks again, and how often at most.
type Retry struct {
	On     string
	Limit  uint32
	Status []uint32
}

// Share is a cluster with its part of the requests.
type Share struct {
	Cluster string
	// Weight of Total requests go here.
	Weight, Total uint32
	// Reply is set if the cluster cannot serve anything.
	Reply *Reply
	Steps []Step
	Ends  []End
	// Host is the authority that the endpoint is told; empty for that of the request.
	Host string
}

// End is one endpoint of a cluster.
type End struct {
	Address string
	Port    uint32
	// Weight of Total requests of the share go here. It is 0 for endpoints that are used only
	// while others fail.
	Weight, Total uint32
	// Secured says that the connection is TLS, with these protocols in its handshake.
	Secured   bool
	Protocols []string
	// Demands are what the certificate of the endpoint must fulfil: one of its URIs, one of
	// these. Empty demands nothing that this package knows.
	Demands []Demand
	// Identity says that the proxy shows its own certificate.
	Identity bool
	// Original says that it is where the client wanted to go, wherever that is.
	Original bool
}

// Demand is a condition on one name of a certificate.
type Demand func(uri string) bool

func (p *Passage) say(s Step) { p.Steps = append(p.Steps, s) }

// refuse ends a request.
func (p *Passage) refuse(kind, name string, status uint32, text string) {
	p.say(Step{Kind: kind, Name: name, Text: text, Refused: true})
	p.Reply = &Reply{Status: status, Step: kind, Text: text}
}
