package mesh

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// MeshGatewayRoute is the spec of what the listeners of builtin gateways do with requests and
// connections (requirement "MeshGatewayRoute").
type MeshGatewayRoute struct { //nolint:revive // documents have this name
	model.Labelled
	// Selectors select listeners by their tags; see [MeshGateway.ListenerTags].
	Selectors []Selector            `json:"selectors,omitempty"`
	Conf      *MeshGatewayRouteConf `json:"conf,omitempty"`
}

// MeshGatewayRouteConf has HTTP for listeners of HTTP and HTTPS, and TCP for those of TCP and TLS.
type MeshGatewayRouteConf struct { //nolint:revive // documents have this name
	TCP  *TCPGatewayRoute  `json:"tcp,omitempty"`
	HTTP *HTTPGatewayRoute `json:"http,omitempty"`
}

// TCPGatewayRoute leads connections to backends.
type TCPGatewayRoute struct {
	Rules []TCPGatewayRule `json:"rules,omitempty"`
}

// TCPGatewayRule lists the backends of connections.
type TCPGatewayRule struct {
	Backends []GatewayBackend `json:"backends,omitempty"`
}

// HTTPGatewayRoute is about requests for some hosts; without Hostnames about all that the
// listener takes.
type HTTPGatewayRoute struct {
	Hostnames []string          `json:"hostnames,omitempty"`
	Rules     []HTTPGatewayRule `json:"rules,omitempty"`
}

// HTTPGatewayRule says what is done with a request that one of Matches matches.
type HTTPGatewayRule struct {
	Matches  []GatewayMatch   `json:"matches,omitempty"`
	Filters  []GatewayFilter  `json:"filters,omitempty"`
	Backends []GatewayBackend `json:"backends,omitempty"`
}

// GatewayBackend is one destination with its share. If no backend of a rule has a weight, their
// shares are equal.
type GatewayBackend struct {
	Weight uint32 `json:"weight,omitempty"`
	// Destination has the tags of a service, and perhaps further ones.
	Destination Tags `json:"destination,omitempty"`
}

// The kinds of matches. Each field lists those that it can have.
const (
	MatchExact   = "EXACT"
	MatchPrefix  = "PREFIX"
	MatchRegex   = "REGEX"
	MatchAbsent  = "ABSENT"
	MatchPresent = "PRESENT"
)

// GatewayMatch matches a request if everything that it contains does.
type GatewayMatch struct {
	Path    *GatewayPathMatch    `json:"path,omitempty"`
	Method  string               `json:"method,omitempty" jsonschema:"enum=NONE,enum=CONNECT,enum=DELETE,enum=GET,enum=HEAD,enum=OPTIONS,enum=PATCH,enum=POST,enum=PUT,enum=TRACE"`
	Headers []GatewayHeaderMatch `json:"headers,omitempty"`
	// QueryParameters match the first value of each name.
	QueryParameters []GatewayQueryMatch `json:"queryParameters,omitempty"`
}

// GatewayPathMatch matches a path. A prefix consists of whole segments.
type GatewayPathMatch struct {
	Match string `json:"match,omitempty" jsonschema:"enum=EXACT,enum=PREFIX,enum=REGEX"`
	Value string `json:"value,omitempty"`
}

// Kind returns what sort of match it is.
func (m *GatewayPathMatch) Kind() string { return or(m.Match, MatchExact) }

// GatewayHeaderMatch matches a header. ABSENT and PRESENT have no value.
type GatewayHeaderMatch struct {
	Match string `json:"match,omitempty" jsonschema:"enum=EXACT,enum=REGEX,enum=ABSENT,enum=PRESENT"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// Kind returns what sort of match it is.
func (m *GatewayHeaderMatch) Kind() string { return or(m.Match, MatchExact) }

// GatewayQueryMatch matches a parameter of the query.
type GatewayQueryMatch struct {
	Match string `json:"match,omitempty" jsonschema:"enum=EXACT,enum=REGEX"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// Kind returns what sort of match it is.
func (m *GatewayQueryMatch) Kind() string { return or(m.Match, MatchExact) }

// GatewayFilter is one of its members.
type GatewayFilter struct {
	RequestHeader  *GatewayHeaderFilter `json:"requestHeader,omitempty"`
	Mirror         *GatewayMirror       `json:"mirror,omitempty"`
	Redirect       *GatewayRedirect     `json:"redirect,omitempty"`
	Rewrite        *GatewayRewrite      `json:"rewrite,omitempty"`
	ResponseHeader *GatewayHeaderFilter `json:"responseHeader,omitempty"`
}

// GatewayHeaderFilter edits headers. Set replaces the values of a header, Add adds one.
type GatewayHeaderFilter struct {
	Set    []GatewayHeader `json:"set,omitempty"`
	Add    []GatewayHeader `json:"add,omitempty"`
	Remove []string        `json:"remove,omitempty"`
}

// GatewayHeader is a header with its value.
type GatewayHeader struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// GatewayMirror sends copies of a percentage of the requests to a backend, whose answers nobody
// gets.
type GatewayMirror struct {
	Backend    *GatewayBackend `json:"backend,omitempty"`
	Percentage *float64        `json:"percentage,omitempty"`
}

// GatewayRedirect answers with a redirect. What is absent stays as in the request; without a
// port it is that of the listener.
type GatewayRedirect struct {
	Scheme     string              `json:"scheme,omitempty"`
	Hostname   string              `json:"hostname,omitempty"`
	Port       *uint32             `json:"port,omitempty"`
	StatusCode uint32              `json:"statusCode,omitempty"`
	Path       *GatewayPathRewrite `json:"path,omitempty"`
}

// GatewayPathRewrite is one of its members: a whole path, or what replaces the matched prefix.
type GatewayPathRewrite struct {
	ReplaceFull        *string `json:"replaceFull,omitempty"`
	ReplacePrefixMatch *string `json:"replacePrefixMatch,omitempty"`
}

// GatewayRewrite changes the path of a request, as GatewayPathRewrite says, and its host.
type GatewayRewrite struct {
	ReplaceFull        *string `json:"replaceFull,omitempty"`
	ReplacePrefixMatch *string `json:"replacePrefixMatch,omitempty"`
	// HostToBackendHostname asks backends outside the mesh for their own host name.
	HostToBackendHostname bool `json:"hostToBackendHostname,omitempty"`
}

// Path returns what is done to the path, nil if it stays as it is.
func (r *GatewayRewrite) Path() *GatewayPathRewrite {
	if r.ReplaceFull == nil && r.ReplacePrefixMatch == nil {
		return nil
	}
	return &GatewayPathRewrite{r.ReplaceFull, r.ReplacePrefixMatch}
}

// MeshGatewayRoutes describes the resources.
var MeshGatewayRoutes = model.Describe(MeshGatewayRoute{}, model.Kind{
	Name: "mesh_gateway_route", Path: "meshgatewayroutes", Scoping: model.Mesh, Class: model.Config, Sealed: true,
	Secrets: []string{ // Authorization may be among them
		"/conf/http/rules/*/filters/*/requestHeader/set/*/value", "/conf/http/rules/*/filters/*/requestHeader/add/*/value",
	},
	Document: &model.Document{
		Type: "MeshGatewayRoute", Singular: "Mesh Gateway Route", Plural: "Mesh Gateway Routes", Listed: true,
		Validate: func(spec any) []fault.Violation { return spec.(*MeshGatewayRoute).validate() },
	},
})

// SelectedSources implements model.Selecting: a route has no sources.
func (r *MeshGatewayRoute) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting.
func (r *MeshGatewayRoute) SelectedDestinations() []map[string]string { return Matched(r.Selectors) }

// Destinations are the tags of all backends and mirrors of a rule, the backends first.
func (r *HTTPGatewayRule) Destinations() (out []Tags) {
	for i := range r.Backends {
		out = append(out, r.Backends[i].Destination)
	}
	for i := range r.Filters {
		if m := r.Filters[i].Mirror; m != nil && m.Backend != nil {
			out = append(out, m.Backend.Destination)
		}
	}
	return out
}
