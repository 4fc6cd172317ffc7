package gateway

import "github.com/meshgate/meshgate/controlplane/model"

// Algorithms by which an upstream chooses a target.
const (
	RoundRobin        = "round-robin"
	LeastConnections  = "least-connections"
	ConsistentHashing = "consistent-hashing"
)

// What consistent hashing hashes; HashNone chooses at random.
const (
	HashNone     = "none"
	HashConsumer = "consumer"
	HashIP       = "ip"
	HashHeader   = "header"
	HashCookie   = "cookie"
	HashPath     = "path"
	HashQueryArg = "query_arg"
)

// Upstream spreads the requests of the services whose host is its name over its
// targets.
type Upstream struct {
	Name      string `json:"name" jsonschema:"maxLength=253" jsonschema_extras:"x-unique=true,x-check=upstream-name"`
	Algorithm string `json:"algorithm" jsonschema:"default=round-robin,enum=consistent-hashing,enum=least-connections,enum=round-robin,enum=latency" jsonschema_extras:"x-check=algorithm"`
	// HashOn is what is hashed, HashFallback what is where a request lacks that.
	HashOn               string `json:"hash_on" jsonschema:"default=none,enum=none,enum=consumer,enum=ip,enum=header,enum=cookie,enum=path,enum=query_arg,enum=uri_capture" jsonschema_extras:"x-check=hash-input"`
	HashFallback         string `json:"hash_fallback" jsonschema:"default=none,enum=none,enum=consumer,enum=ip,enum=header,enum=cookie,enum=path,enum=query_arg,enum=uri_capture" jsonschema_extras:"x-check=hash-input"`
	HashOnHeader         string `json:"hash_on_header,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	HashFallbackHeader   string `json:"hash_fallback_header,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	HashOnCookie         string `json:"hash_on_cookie,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	HashOnCookiePath     string `json:"hash_on_cookie_path,omitempty" jsonschema:"default=/,maxLength=1024" jsonschema_extras:"x-check=path"`
	HashOnQueryArg       string `json:"hash_on_query_arg,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=query-arg"`
	HashFallbackQueryArg string `json:"hash_fallback_query_arg,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=query-arg"`
	// HashOnURICapture and HashFallbackURICapture are known so that they are refused
	// as what they are.
	HashOnURICapture       model.Virtual[string] `json:"hash_on_uri_capture,omitzero" jsonschema_extras:"x-null=true"`
	HashFallbackURICapture model.Virtual[string] `json:"hash_fallback_uri_capture,omitzero" jsonschema_extras:"x-null=true"`
	// Slots is the size of the hash ring.
	Slots        int          `json:"slots" jsonschema:"default=10000,minimum=10,maximum=65536"`
	Healthchecks Healthchecks `json:"healthchecks"`
	// HostHeader is the Host of requests to targets, and the name that they must have in
	// TLS; empty means the target's name, or the service's host if it is an address.
	HostHeader string `json:"host_header,omitempty" jsonschema:"maxLength=260" jsonschema_extras:"x-check=host-header"`
	// ClientCertificate is the id of the certificate that is shown to targets
	// where the service names none.
	ClientCertificate string   `json:"client_certificate,omitempty" jsonschema_extras:"x-refers-to=certificate"`
	UseSRVName        bool     `json:"use_srv_name" jsonschema:"default=false" jsonschema_extras:"x-check=no-srv"`
	Tags              []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Types of health checks.
const (
	CheckHTTP  = "http"
	CheckHTTPS = "https"
	CheckTCP   = "tcp"
	CheckGRPC  = "grpc"
	CheckGRPCS = "grpcs"
)

// Healthchecks say which targets get requests.
type Healthchecks struct {
	Active  ActiveCheck  `json:"active"`
	Passive PassiveCheck `json:"passive"`
	// Threshold is the least share of healthy targets, in percent, with which
	// the upstream serves at all.
	Threshold float64 `json:"threshold" jsonschema:"default=0,minimum=0,maximum=100"`
}

// ActiveCheck probes targets. Times are in seconds; probes are off while both
// intervals are 0.
type ActiveCheck struct {
	Type    string  `json:"type" jsonschema:"default=http,enum=tcp,enum=http,enum=https,enum=grpc,enum=grpcs"`
	Timeout float64 `json:"timeout" jsonschema:"default=1,minimum=0,maximum=65535" jsonschema_extras:"x-check=positive"`
	// Concurrency has no effect: proxies have no bound of the targets that they probe
	// at once. It is kept and shown for the tools that set it.
	Concurrency            int             `json:"concurrency" jsonschema:"default=10,minimum=1,maximum=2147483648"`
	HTTPPath               string          `json:"http_path" jsonschema:"default=/,maxLength=1024" jsonschema_extras:"x-check=path"`
	HTTPSSNI               string          `json:"https_sni,omitempty" jsonschema:"maxLength=253" jsonschema_extras:"x-check=host"`
	HTTPSVerifyCertificate bool            `json:"https_verify_certificate" jsonschema:"default=true"`
	Headers                ProbeHeaders    `json:"headers,omitempty" jsonschema_extras:"x-check=header-names"`
	Healthy                ProbedHealthy   `json:"healthy"`
	Unhealthy              ProbedUnhealthy `json:"unhealthy"`
}

// PassiveCheck judges targets by the answers to requests.
type PassiveCheck struct {
	Type      string        `json:"type" jsonschema:"default=http,enum=tcp,enum=http,enum=https,enum=grpc,enum=grpcs"`
	Healthy   UsedHealthy   `json:"healthy"`
	Unhealthy UsedUnhealthy `json:"unhealthy"`
}

// ProbedHealthy is what makes a target healthy by probes: this many successes in a row;
// 0 is never. Interval is that between probes of an unhealthy target, 0 for none.
type ProbedHealthy struct {
	Interval     float64 `json:"interval" jsonschema:"default=0,minimum=0,maximum=65535" jsonschema_extras:"x-check=interval"`
	HTTPStatuses []int   `json:"http_statuses" jsonschema:"default=200,default=302,minimum=100,maximum=599"`
	Successes    int     `json:"successes" jsonschema:"default=0,minimum=0,maximum=255"`
}

// ProbedUnhealthy is what makes a target unhealthy by probes: this many failures of a
// sort in a row; 0 is never. Interval is that between probes of a healthy target.
type ProbedUnhealthy struct {
	Interval     float64 `json:"interval" jsonschema:"default=0,minimum=0,maximum=65535" jsonschema_extras:"x-check=interval"`
	HTTPStatuses []int   `json:"http_statuses" jsonschema:"default=429,default=404,default=500,default=501,default=502,default=503,default=504,default=505,minimum=100,maximum=599"`
	HTTPFailures int     `json:"http_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	TCPFailures  int     `json:"tcp_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	Timeouts     int     `json:"timeouts" jsonschema:"default=0,minimum=0,maximum=255"`
}

// UsedHealthy is what makes a target healthy by its answers. Whatever is no failure ends
// a row of failures, so that these statuses have no effect of their own.
type UsedHealthy struct {
	HTTPStatuses []int `json:"http_statuses" jsonschema:"default=200,default=201,default=202,default=203,default=204,default=205,default=206,default=207,default=208,default=226,default=300,default=301,default=302,default=303,default=304,default=305,default=306,default=307,default=308,minimum=100,maximum=599"`
	Successes    int   `json:"successes" jsonschema:"default=0,minimum=0,maximum=255"`
}

// UsedUnhealthy is what makes a target unhealthy by its answers.
type UsedUnhealthy struct {
	HTTPStatuses []int `json:"http_statuses" jsonschema:"default=429,default=500,default=503,minimum=100,maximum=599"`
	HTTPFailures int   `json:"http_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	TCPFailures  int   `json:"tcp_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	Timeouts     int   `json:"timeouts" jsonschema:"default=0,minimum=0,maximum=255"`
}

// UpstreamTarget is one address of an upstream.
type UpstreamTarget struct {
	// Upstream is the id of the upstream.
	Upstream string `json:"upstream" jsonschema_extras:"x-on-delete=cascade,x-refers-to=upstream"`
	// Target is host:port as it was written, the port always being there; an
	// address of IP version 6 has all its digits.
	Target string `json:"target" jsonschema:"maxLength=260" jsonschema_extras:"x-check=target"`
	// Weight is the share of requests; 0 gets none.
	Weight int      `json:"weight" jsonschema:"default=100,minimum=0,maximum=65535"`
	Tags   []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}
