package mesh

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/hostname"
)

// These are the types of tracing backends.
const (
	TracingZipkin        = "zipkin"
	TracingDatadog       = "datadog"
	TracingOpenTelemetry = "opentelemetry"
)

// These are the versions of Zipkin's API. Envoy no longer speaks the first one.
const (
	ZipkinJSONV1 = "httpJsonV1"
	ZipkinJSON   = "httpJson"
	ZipkinProto  = "httpProto"
)

const (
	textTracing     = `unknown backend type. Available backends: "zipkin", "datadog", "opentelemetry"`
	textURL         = "invalid URL"
	textPlainURL    = "must not have credentials, a query or a fragment"
	textExplicit    = "port has to be explicitly specified"
	textBoolean     = "must be true or false"
	textHost        = "has to be an IP address or a host name"
	textGRPCPath    = "must not have a path, because gRPC has its own"
	defaultOTLPPath = "/v1/traces"
)

// Collector is a server that takes spans, and how to speak to it. It is comparable.
type Collector struct {
	// Type is that of the backend.
	Type string
	// Host is an IP address without brackets, or a name.
	Host string
	Port uint32
	TLS  bool
	// Path is where HTTP requests go. OTLP with GRPC has none, nor has Datadog.
	Path string
	GRPC bool
	// APIVersion, TraceID128 and Apart are Zipkin's: whether new traces have ids of 128 bits,
	// and whether the two proxies of a request have spans of their own instead of one.
	APIVersion        string
	TraceID128, Apart bool
	// Split is Datadog's: the service of a span also says in which direction, and to whom.
	Split bool
}

// Collector reads the configuration of a backend. The paths of violations are relative to it.
func (b *TracingBackend) Collector() (Collector, []fault.Violation) {
	var vs violations
	var c Collector
	switch b.Type {
	case TracingZipkin:
		c = vs.zipkin(b.Conf)
	case TracingDatadog:
		c = vs.datadog(b.Conf)
	case TracingOpenTelemetry:
		var wrong string
		if c, wrong = OTLPCollector(text(b.Conf, "endpoint")); wrong != "" {
			vs.add("config.endpoint", wrong)
		}
	default:
		vs.add("type", textTracing)
	}
	c.Type = b.Type
	return c, vs
}

func (vs *violations) zipkin(conf map[string]any) Collector {
	version := or(text(conf, "apiVersion"), ZipkinJSON)
	if !slices.Contains([]string{ZipkinJSONV1, ZipkinJSON, ZipkinProto}, version) {
		vs.add("config.apiVersion", "has invalid value. Allowed values: httpJsonV1, httpJson, httpProto")
	}
	c, wrong := ZipkinCollector(text(conf, "url"))
	if wrong != "" {
		vs.add("config.url", wrong)
	}
	c.APIVersion = version
	c.TraceID128 = vs.flag(conf, "traceId128bit", false)
	c.Apart = !vs.flag(conf, "sharedSpanContext", true)
	return c
}

func (vs *violations) datadog(conf map[string]any) Collector {
	c := Collector{Host: text(conf, "address")}
	switch {
	case c.Host == "":
		vs.add("config.address", textEmpty)
	case !isHost(c.Host):
		vs.add("config.address", textHost)
	}
	port, ok := number(conf["port"])
	if !ok || port < 1 || port > 65535 {
		vs.add("config.port", textPort)
	} else {
		c.Port = uint32(port)
	}
	c.Split = vs.flag(conf, "splitService", false)
	return c
}

// flag reads a boolean of a free configuration.
func (vs *violations) flag(conf map[string]any, key string, otherwise bool) bool {
	switch v := conf[key].(type) {
	case nil:
		return otherwise
	case bool:
		return v
	default:
		vs.add("config."+key, textBoolean)
		return otherwise
	}
}

// ZipkinCollector reads the URL to which spans are posted. wrong says what is wrong with it, and
// is empty if nothing is.
func ZipkinCollector(raw string) (c Collector, wrong string) {
	u, wrong := serverURL(raw, "http", "https")
	if wrong != "" {
		return Collector{}, wrong
	}
	if c, wrong = serverOf(u); wrong != "" {
		return Collector{}, wrong
	}
	c.Type, c.Path = TracingZipkin, or(u.EscapedPath(), "/")
	return c, ""
}

// OTLPCollector reads where spans go in OTLP: host:port, which means gRPC without TLS, or a URL
// with one of the schemes grpc, grpcs, http and https. wrong is as in [ZipkinCollector].
func OTLPCollector(raw string) (c Collector, wrong string) {
	if raw != "" && !strings.Contains(raw, "://") {
		raw = "grpc://" + raw
	}
	u, wrong := serverURL(raw, "http", "https", "grpc", "grpcs")
	if wrong != "" {
		return Collector{}, wrong
	}
	if c, wrong = serverOf(u); wrong != "" {
		return Collector{}, wrong
	}
	c.Type, c.GRPC = TracingOpenTelemetry, strings.HasPrefix(u.Scheme, "grpc")
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	switch {
	case c.GRPC && path != "":
		return Collector{}, textGRPCPath
	case !c.GRPC && path == "":
		c.Path = defaultOTLPPath
	case !c.GRPC:
		c.Path = "/" + path
	}
	return c, ""
}

// serverURL parses the URL of a server, which has one of some schemes.
func serverURL(raw string, schemes ...string) (u *url.URL, wrong string) {
	u, err := url.ParseRequestURI(raw)
	switch {
	case raw == "":
		return nil, textEmpty
	case err != nil || !slices.Contains(schemes, u.Scheme) || !isHost(u.Hostname()):
		return nil, textURL
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, textPlainURL
	}
	return u, ""
}

// serverOf returns the server of a URL, which must name a port.
func serverOf(u *url.URL) (c Collector, wrong string) {
	if u.Port() == "" {
		return c, textExplicit
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return c, textPort
	}
	return Collector{Host: u.Hostname(), Port: uint32(port), TLS: u.Scheme == "https" || u.Scheme == "grpcs"}, ""
}

// isHost reports whether a text is an IP address or a name that a resolver takes for a name.
func isHost(s string) bool {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.Zone() == ""
	}
	return len(s) <= 253 && dnsName.MatchString(s) && !hostname.EndsInNumber(s)
}
