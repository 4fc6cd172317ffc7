package gateway

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
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	// HashOn is what is hashed, HashFallback what is where a request lacks that.
	HashOn               string `json:"hash_on"`
	HashFallback         string `json:"hash_fallback"`
	HashOnHeader         string `json:"hash_on_header,omitempty"`
	HashFallbackHeader   string `json:"hash_fallback_header,omitempty"`
	HashOnCookie         string `json:"hash_on_cookie,omitempty"`
	HashOnCookiePath     string `json:"hash_on_cookie_path,omitempty"`
	HashOnQueryArg       string `json:"hash_on_query_arg,omitempty"`
	HashFallbackQueryArg string `json:"hash_fallback_query_arg,omitempty"`
	// Slots is the size of the hash ring.
	Slots        int          `json:"slots"`
	Healthchecks Healthchecks `json:"healthchecks"`
	// HostHeader is the Host of requests to targets, and the name that they must have in
	// TLS; empty means the target's name, or the service's host if it is an address.
	HostHeader string `json:"host_header,omitempty"`
	// ClientCertificate is the id of the certificate that is shown to targets
	// where the service names none.
	ClientCertificate string   `json:"client_certificate,omitempty"`
	UseSRVName        bool     `json:"use_srv_name"`
	Tags              []string `json:"tags,omitempty"`
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
	Threshold float64 `json:"threshold"`
}

// ActiveCheck probes targets. Times are in seconds; probes are off while both
// intervals are 0.
type ActiveCheck struct {
	Type                   string              `json:"type"`
	Timeout                float64             `json:"timeout"`
	Concurrency            int                 `json:"concurrency"`
	HTTPPath               string              `json:"http_path"`
	HTTPSSNI               string              `json:"https_sni,omitempty"`
	HTTPSVerifyCertificate bool                `json:"https_verify_certificate"`
	Headers                map[string][]string `json:"headers,omitempty"`
	Healthy                Recovery            `json:"healthy"`
	Unhealthy              Decline             `json:"unhealthy"`
}

// PassiveCheck judges targets by the answers to requests.
type PassiveCheck struct {
	Type      string   `json:"type"`
	Healthy   Recovery `json:"healthy"`
	Unhealthy Decline  `json:"unhealthy"`
}

// Recovery is what makes a target healthy: this many successes in a row; 0 is never.
type Recovery struct {
	Interval     float64 `json:"interval"`
	HTTPStatuses []int   `json:"http_statuses"`
	Successes    int     `json:"successes"`
}

// Decline is what makes a target unhealthy: this many failures of a sort in a
// row; 0 is never.
type Decline struct {
	Interval     float64 `json:"interval"`
	HTTPStatuses []int   `json:"http_statuses"`
	HTTPFailures int     `json:"http_failures"`
	TCPFailures  int     `json:"tcp_failures"`
	Timeouts     int     `json:"timeouts"`
}

// UpstreamTarget is one address of an upstream.
type UpstreamTarget struct {
	// Upstream is the id of the upstream.
	Upstream string `json:"upstream"`
	// Target is host:port as it was written, the port always being there; an
	// address of IP version 6 has all its digits.
	Target string `json:"target"`
	// Weight is the share of requests; 0 gets none.
	Weight int      `json:"weight"`
	Tags   []string `json:"tags,omitempty"`
}
