package explain

// These are the verdicts about a request.
const (
	// Allowed requests reach a workload.
	Allowed = "allowed"
	// Refused requests are answered by a proxy, or their connections are closed.
	Refused = "refused"
	// Depends says that the endpoints decide differently.
	Depends = "depends"
	// Unknown says that it cannot be said.
	Unknown = "unknown"
)

// Resource names a resource.
type Resource struct {
	Type string `json:"type"`
	Mesh string `json:"mesh,omitempty"`
	Name string `json:"name"`
	// ID is the id of an entity of a gateway.
	ID string `json:"id,omitempty"`
}

// Chance is something that happens to a share of the requests, or to those above a limit.
type Chance struct {
	// Percentage of the requests are concerned; nil for limits.
	Percentage *float64 `json:"percentage,omitempty"`
	Delay      string   `json:"delay,omitempty"`
	Status     uint32   `json:"status,omitempty"`
	Requests   uint32   `json:"requests,omitempty"`
	Interval   string   `json:"interval,omitempty"`
}

// Step is one thing that a proxy does with the request.
type Step struct {
	// Proxy is the name of the dataplane or gateway, Step the kind of the step.
	Proxy string `json:"proxy"`
	Step  string `json:"step"`
	// Name is the resource or filter of Envoy that it is about.
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
	// Decided are the resources that decide here, the first of them above all.
	Decided []Resource `json:"decided,omitempty"`
	// Chance is set for what concerns only some requests.
	Chance *Chance `json:"chance,omitempty"`
	// Refused says that the request ends here.
	Refused bool `json:"refused,omitempty"`

	// key tells what a limit counts together.
	key string
}

// Outcome is what becomes of a request.
type Outcome struct {
	Verdict string `json:"verdict"`
	// Status is what the client sees of a request that is refused. Without one the connection
	// is closed.
	Status uint32 `json:"status,omitempty"`
	// By is the step that refuses, with its resources.
	By *Step `json:"by,omitempty"`
	// Text says it in a sentence.
	Text string `json:"text"`
}

// Endpoint is one endpoint to which the request may go.
type Endpoint struct {
	// Address is where the proxy connects to, and Cluster by which cluster.
	Address string `json:"address"`
	Cluster string `json:"cluster"`
	// Dataplane serves there; it is empty for what is outside of the mesh.
	Dataplane string `json:"dataplane,omitempty"`
	// Share is the part of the requests that go here, in percent. It is 0 for an endpoint that is
	// used only while others fail.
	Share float64 `json:"share"`
	// Steps are those of the proxy of the endpoint.
	Steps   []Step  `json:"steps"`
	Outcome Outcome `json:"outcome"`
}

// Explanation is the answer about one request.
type Explanation struct {
	Mesh   string `json:"mesh,omitempty"`
	Source string `json:"source,omitempty"`
	// Gateway is the gateway whose configuration was followed.
	Gateway     string  `json:"gateway,omitempty"`
	Destination string  `json:"destination,omitempty"`
	Method      string  `json:"method"`
	Host        string  `json:"host"`
	Path        string  `json:"path"`
	Outcome     Outcome `json:"outcome"`
	// Steps are those of the first proxy.
	Steps     []Step     `json:"steps"`
	Endpoints []Endpoint `json:"endpoints"`
	// LeftOut is how many endpoints are not shown.
	LeftOut int `json:"leftOut,omitempty"`
	// Plugins are those of the chain of the route, in their order. Others are the routes that are
	// for the request, too, but come later.
	Plugins []Resource `json:"plugins,omitempty"`
	Others  []Resource `json:"others,omitempty"`
	// Consumer is whom the credential is of, if it is valid.
	Consumer *Resource `json:"consumer,omitempty"`
}
