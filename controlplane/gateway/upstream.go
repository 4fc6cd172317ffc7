package gateway

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The algorithms by which an upstream chooses a target.
const (
	RoundRobin        = "round-robin"
	LeastConnections  = "least-connections"
	ConsistentHashing = "consistent-hashing"
)

// The inputs of consistent hashing; HashNone chooses at random.
const (
	HashNone     = "none"
	HashConsumer = "consumer"
	HashIP       = "ip"
	HashHeader   = "header"
	HashCookie   = "cookie"
	HashPath     = "path"
	HashQueryArg = "query_arg"
)

// Upstream distributes the requests of services over its targets. It serves the services
// whose host is its name.
type Upstream struct {
	Name      string `json:"name" jsonschema:"maxLength=253" jsonschema_extras:"x-unique=true,x-check=upstream-name"`
	Algorithm string `json:"algorithm" jsonschema:"default=round-robin,enum=consistent-hashing,enum=least-connections,enum=round-robin,enum=latency" jsonschema_extras:"x-check=algorithm"`
	// HashOn is the input of the hash. HashFallback replaces it for requests without that
	// input.
	HashOn               string `json:"hash_on" jsonschema:"default=none,enum=none,enum=consumer,enum=ip,enum=header,enum=cookie,enum=path,enum=query_arg,enum=uri_capture" jsonschema_extras:"x-check=hash-input"`
	HashFallback         string `json:"hash_fallback" jsonschema:"default=none,enum=none,enum=consumer,enum=ip,enum=header,enum=cookie,enum=path,enum=query_arg,enum=uri_capture" jsonschema_extras:"x-check=hash-input"`
	HashOnHeader         string `json:"hash_on_header,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	HashFallbackHeader   string `json:"hash_fallback_header,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	HashOnCookie         string `json:"hash_on_cookie,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	HashOnCookiePath     string `json:"hash_on_cookie_path,omitempty" jsonschema:"default=/,maxLength=1024" jsonschema_extras:"x-check=path"`
	HashOnQueryArg       string `json:"hash_on_query_arg,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=query-arg"`
	HashFallbackQueryArg string `json:"hash_fallback_query_arg,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=query-arg"`
	// HashOnURICapture and HashFallbackURICapture are known, so that they are refused with a
	// precise error.
	HashOnURICapture       model.Virtual[string] `json:"hash_on_uri_capture,omitzero" jsonschema_extras:"x-null=true"`
	HashFallbackURICapture model.Virtual[string] `json:"hash_fallback_uri_capture,omitzero" jsonschema_extras:"x-null=true"`
	// Slots is the size of the hash ring.
	Slots        int          `json:"slots" jsonschema:"default=10000,minimum=10,maximum=65536"`
	Healthchecks Healthchecks `json:"healthchecks"`
	// HostHeader is the Host of requests to targets, and the name that their certificates
	// must have. If it is empty, it is the target's name, or the service's host if the target
	// is an address.
	HostHeader string `json:"host_header,omitempty" jsonschema:"maxLength=260" jsonschema_extras:"x-check=host-header"`
	// ClientCertificate is the id of the certificate that is presented to targets if the
	// service names none.
	ClientCertificate string   `json:"client_certificate,omitempty" jsonschema_extras:"x-refers-to=certificate"`
	UseSRVName        bool     `json:"use_srv_name" jsonschema:"default=false" jsonschema_extras:"x-check=no-srv"`
	Tags              []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// The types of health checks.
const (
	CheckHTTP  = "http"
	CheckHTTPS = "https"
	CheckTCP   = "tcp"
	CheckGRPC  = "grpc"
	CheckGRPCS = "grpcs"
)

// Healthchecks decide which targets get requests.
type Healthchecks struct {
	Active  ActiveCheck  `json:"active"`
	Passive PassiveCheck `json:"passive"`
	// Threshold is the least share of healthy targets, in percent, with which the upstream
	// serves requests.
	Threshold float64 `json:"threshold" jsonschema:"default=0,minimum=0,maximum=100"`
}

// ActiveCheck probes targets. Times are in seconds. Probes are off while both intervals are
// 0. A Timeout of more than a minute counts as a minute.
type ActiveCheck struct {
	Type    string  `json:"type" jsonschema:"default=http,enum=tcp,enum=http,enum=https,enum=grpc,enum=grpcs"`
	Timeout float64 `json:"timeout" jsonschema:"default=1,minimum=0,maximum=65535" jsonschema_extras:"x-check=positive"`
	// Concurrency has no effect, because proxies do not bound how many targets they probe at
	// once. It is stored and shown for the tools that set it.
	Concurrency            int             `json:"concurrency" jsonschema:"default=10,minimum=1,maximum=2147483648"`
	HTTPPath               string          `json:"http_path" jsonschema:"default=/,maxLength=1024" jsonschema_extras:"x-check=path"`
	HTTPSSNI               string          `json:"https_sni,omitempty" jsonschema:"maxLength=253" jsonschema_extras:"x-check=host"`
	HTTPSVerifyCertificate bool            `json:"https_verify_certificate" jsonschema:"default=true"`
	Headers                ProbeHeaders    `json:"headers,omitempty" jsonschema_extras:"x-check=header-names"`
	Healthy                ProbedHealthy   `json:"healthy"`
	Unhealthy              ProbedUnhealthy `json:"unhealthy"`
}

// PassiveCheck judges targets by their answers to requests.
type PassiveCheck struct {
	Type      string        `json:"type" jsonschema:"default=http,enum=tcp,enum=http,enum=https,enum=grpc,enum=grpcs"`
	Healthy   UsedHealthy   `json:"healthy"`
	Unhealthy UsedUnhealthy `json:"unhealthy"`
}

// ProbedHealthy says after how many successful probes in a row a target becomes healthy; 0
// means never. Interval is the time between probes of an unhealthy target, 0 for no probes.
type ProbedHealthy struct {
	Interval     float64 `json:"interval" jsonschema:"default=0,minimum=0,maximum=65535" jsonschema_extras:"x-check=interval"`
	HTTPStatuses []int   `json:"http_statuses" jsonschema:"default=200,default=302,minimum=100,maximum=599"`
	Successes    int     `json:"successes" jsonschema:"default=0,minimum=0,maximum=255"`
}

// ProbedUnhealthy says after how many failed probes of one sort in a row a target becomes
// unhealthy; 0 means never. Interval is the time between probes of a healthy target.
type ProbedUnhealthy struct {
	Interval     float64 `json:"interval" jsonschema:"default=0,minimum=0,maximum=65535" jsonschema_extras:"x-check=interval"`
	HTTPStatuses []int   `json:"http_statuses" jsonschema:"default=429,default=404,default=500,default=501,default=502,default=503,default=504,default=505,minimum=100,maximum=599"`
	HTTPFailures int     `json:"http_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	TCPFailures  int     `json:"tcp_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	Timeouts     int     `json:"timeouts" jsonschema:"default=0,minimum=0,maximum=255"`
}

// UsedHealthy says which answers make a target healthy. Every answer that is not a failure
// ends a row of failures, so these statuses have no effect of their own.
type UsedHealthy struct {
	HTTPStatuses []int `json:"http_statuses" jsonschema:"default=200,default=201,default=202,default=203,default=204,default=205,default=206,default=207,default=208,default=226,default=300,default=301,default=302,default=303,default=304,default=305,default=306,default=307,default=308,minimum=100,maximum=599"`
	Successes    int   `json:"successes" jsonschema:"default=0,minimum=0,maximum=255"`
}

// UsedUnhealthy says which answers make a target unhealthy.
type UsedUnhealthy struct {
	HTTPStatuses []int `json:"http_statuses" jsonschema:"default=429,default=500,default=503,minimum=100,maximum=599"`
	HTTPFailures int   `json:"http_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	TCPFailures  int   `json:"tcp_failures" jsonschema:"default=0,minimum=0,maximum=255"`
	Timeouts     int   `json:"timeouts" jsonschema:"default=0,minimum=0,maximum=255"`
}

// ProbeHeaders are the headers of probes.
type ProbeHeaders map[string][]string

// JSONSchemaExtend bounds the values.
func (ProbeHeaders) JSONSchemaExtend(s *jsonschema.Schema) {
	longest := uint64(1024)
	values := s.AdditionalProperties
	values.Items.MaxLength = &longest
	values.Extras = map[string]any{"x-each-check": "probe"}
}

// Upstreams is the kind of upstreams.
var Upstreams = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"algorithm":     unsupported("latency", "proxies do not choose targets by the time they take; use least-connections"),
		"hash-input":    unsupported("uri_capture", "the path has been rewritten when a target is chosen"),
		"header-names":  headerNamesText,
		"host-header":   hostHeaderText,
		"interval":      longText,
		"no-srv":        noServiceNames,
		"positive":      positiveText,
		"probe":         probeText,
		"query-arg":     queryArgText,
		"upstream-name": upstreamNameText,
	},
}).Describe(Upstream{}, model.Kind{
	Name: "upstream", Path: "upstreams", Scoping: model.ControlPlane, Class: model.Config,
	Secrets: []string{"/healthchecks/active/headers"}, // Authorization may be among them
	Schema: &model.Schema{
		Key: "name", KeyIndex: strings.ToLower, CreatedUnit: time.Second, Updated: true,
		Checks: []model.Check{
			{Fields: []string{"hash_on", "hash_on_header"}, Run: needsWith("hash_on", HashHeader, "hash_on_header")},
			{Fields: []string{"hash_fallback", "hash_fallback_header"}, Run: needsWith("hash_fallback", HashHeader, "hash_fallback_header")},
			{Fields: []string{"hash_on", "hash_on_cookie"}, Run: needsWith("hash_on", HashCookie, "hash_on_cookie")},
			{Fields: []string{"hash_fallback", "hash_on_cookie"}, Run: needsWith("hash_fallback", HashCookie, "hash_on_cookie")},
			{Fields: []string{"hash_on", "hash_on_query_arg"}, Run: needsWith("hash_on", HashQueryArg, "hash_on_query_arg")},
			{Fields: []string{"hash_fallback", "hash_fallback_query_arg"}, Run: needsWith("hash_fallback", HashQueryArg, "hash_fallback_query_arg")},
			{Fields: []string{"hash_on", "hash_fallback", "hash_on_header", "hash_fallback_header", "hash_on_query_arg", "hash_fallback_query_arg"}, Run: distinctHashes},
			{Fields: []string{"algorithm", "healthchecks"}, Run: hashingThreshold},
		},
	},
})

// Checked reports whether targets are probed or judged by their answers.
func (u *Upstream) Checked() bool {
	active, passive := u.Healthchecks.Active, u.Healthchecks.Passive.Unhealthy
	return active.Healthy.Interval > 0 || active.Unhealthy.Interval > 0 ||
		passive.HTTPFailures > 0 || passive.TCPFailures > 0 || passive.Timeouts > 0
}

func positiveText(v any) string {
	if v.(float64) < 0.001 {
		return "value must be greater than 0"
	}
	return ""
}

// longText refuses intervals so short that they would overload targets with probes.
func longText(v any) string {
	if n := v.(float64); n > 0 && n < 0.1 {
		return "value should be 0 or at least 0.1"
	}
	return ""
}

func headerNamesText(v any) string {
	headers, _ := v.(map[string]any)
	for name := range headers {
		if text := headerNameText(name); text != "" {
			return text
		}
	}
	return ""
}

// unsupported refuses one value and says why.
func unsupported(value, why string) func(any) string {
	return func(v any) string {
		if v == value {
			return "not supported: " + value + ": " + why
		}
		return ""
	}
}

func noServiceNames(v any) string {
	if v != false {
		return "not supported: SRV records are not resolved, so that no target has a name of one"
	}
	return ""
}

func upstreamNameText(v any) string {
	name := v.(string)
	switch {
	case net.ParseIP(strings.Trim(name, "[]")) != nil:
		return "Invalid name ('" + name + "'); no ip addresses allowed"
	case strings.Contains(name, ":"):
		return "Invalid name ('" + name + "'); no port allowed"
	case !namesHost(name):
		return "Invalid name ('" + name + "'); must be a valid hostname"
	}
	return ""
}

// hostHeaderText checks a host name or address with an optional port.
func hostHeaderText(v any) string {
	host, _, ok := splitAddress(v.(string), 0)
	if !ok || hostText(host) != "" {
		return "invalid hostname: " + strconv.Quote(v.(string))
	}
	return ""
}

func queryArgText(v any) string {
	if strings.ContainsAny(v.(string), "&=#") {
		return "must not contain '&', '=' or '#'"
	}
	return headerText(v)
}

// needsWith requires a field if another one has a value.
func needsWith(field, value, needed string) func(*model.Write) []fault.Violation {
	return func(w *model.Write) []fault.Violation {
		if w.New[field] != value || w.New[needed] != nil {
			return nil
		}
		return append(violation(needed, model.TextRequired),
			entityViolation("failed conditional validation given value of field '"+field+"'")...)
	}
}

// distinctHashes refuses a fallback that could never be used.
func distinctHashes(w *model.Write) []fault.Violation {
	on, fallback := given(w.New, "hash_on"), given(w.New, "hash_fallback")
	same := func(what string) []fault.Violation {
		return entityViolation("values of these fields must be distinct: 'hash_on_" + what + "', 'hash_fallback_" + what + "'")
	}
	switch {
	case fallback == HashNone:
		return nil
	case on == HashNone, on == HashCookie:
		return append(violation("hash_fallback", "expected one of: none"),
			entityViolation("failed conditional validation given value of field 'hash_on'")...)
	case on != fallback:
		return nil
	case on == HashHeader:
		if strings.EqualFold(given(w.New, "hash_on_header"), given(w.New, "hash_fallback_header")) {
			return same("header")
		}
	case on == HashQueryArg:
		if given(w.New, "hash_on_query_arg") == given(w.New, "hash_fallback_query_arg") {
			return same("query_arg")
		}
	default:
		return entityViolation("values of these fields must be distinct: 'hash_on', 'hash_fallback'")
	}
	return nil
}

// hashingThreshold refuses a threshold with a hash ring. A ring ignores it, and would spread
// the requests over all targets when it should serve none.
func hashingThreshold(w *model.Write) []fault.Violation {
	checks, _ := w.New["healthchecks"].(map[string]any)
	if w.New["algorithm"] != ConsistentHashing || checks["threshold"] == float64(0) {
		return nil
	}
	return violation("healthchecks.threshold", "not supported with the algorithm "+ConsistentHashing)
}
