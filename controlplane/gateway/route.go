package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Route selects requests and sends them to a service.
type Route struct {
	Name                    string         `json:"name,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-unique=true,x-check=name"`
	Protocols               []string       `json:"protocols" jsonschema:"uniqueItems=true,minItems=1,default=http,default=https,enum=http,enum=https,enum=grpc,enum=grpcs,enum=tcp,enum=tls,enum=tls_passthrough,enum=udp,enum=ws,enum=wss" jsonschema_extras:"x-check=protocols"`
	Methods                 []string       `json:"methods,omitempty" jsonschema:"uniqueItems=true,maxLength=64" jsonschema_extras:"x-each-check=method"`
	Hosts                   []string       `json:"hosts,omitempty" jsonschema:"maxLength=260" jsonschema_extras:"x-each-check=route-host"`
	Paths                   []string       `json:"paths,omitempty" jsonschema:"maxLength=1025" jsonschema_extras:"x-each-check=route-path"`
	Headers                 MatchedHeaders `json:"headers,omitempty" jsonschema_extras:"x-check=headers"`
	SNIs                    []string       `json:"snis,omitempty" jsonschema:"uniqueItems=true,maxLength=253" jsonschema_extras:"x-each-check=server-name"`
	HTTPSRedirectStatusCode int            `json:"https_redirect_status_code" jsonschema:"default=426,enum=426,enum=301,enum=302,enum=307,enum=308"`
	RegexPriority           int            `json:"regex_priority" jsonschema:"default=0,minimum=-2147483648,maximum=2147483647"`
	StripPath               bool           `json:"strip_path" jsonschema:"default=true"`
	PreserveHost            bool           `json:"preserve_host" jsonschema:"default=false"`
	PathHandling            string         `json:"path_handling" jsonschema:"default=v0,enum=v0,enum=v1" jsonschema_extras:"x-check=path-handling"`
	RequestBuffering        bool           `json:"request_buffering" jsonschema:"default=true"`
	ResponseBuffering       bool           `json:"response_buffering" jsonschema:"default=true"`
	// Service is the id of the service, or empty.
	Service string   `json:"service,omitempty" jsonschema_extras:"x-refers-to=service"`
	Tags    []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// MatchedHeaders holds the values of each header name. A request must have one value of each
// name.
type MatchedHeaders map[string][]string

// JSONSchemaExtend bounds the values.
func (MatchedHeaders) JSONSchemaExtend(s *jsonschema.Schema) {
	least, longest := uint64(1), uint64(maxPattern+2)
	values := s.AdditionalProperties
	values.MinItems, values.Items.MaxLength = &least, &longest
	values.Extras = map[string]any{"x-each-check": "header-value"}
}

// Routes is the kind of routes. Attributes that cannot be matched or served are refused,
// never silently ignored.
var Routes = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"header-value":  headerValueText,
		"headers":       headersText,
		"method":        methodText,
		"path-handling": handlingText,
		"protocols":     protocolsText,
		"route-host":    routeHostText,
		"route-path":    routePathText,
		"server-name":   serverNameText,
	},
}).Describe(Route{}, model.Kind{
	Name: "route", Path: "routes", Scoping: model.ControlPlane, Class: model.Config,
	Schema: &model.Schema{
		Key: "name", CreatedUnit: time.Second, Updated: true, Shorthand: keepsPath,
		Checks: []model.Check{
			{Fields: []string{"protocols", "methods", "strip_path", "snis"}, Run: routeProtocols},
			{Fields: []string{"protocols", "methods", "hosts", "headers", "paths", "snis"}, Run: routeMatches},
		},
	},
})

// families lists the sets of protocols that a route may combine.
var families = [][]string{
	{"http", "https"}, {"grpc", "grpcs"}, {"tcp", "tls", "udp"}, {"tls_passthrough"}, {"ws", "wss"},
}

// routeProtocolText refuses protocols that a gateway does not support.
func routeProtocolText(protocol string) string {
	switch protocol {
	case "http", "https", "grpc", "grpcs", "ws", "wss":
		return ""
	}
	return "not supported: " + protocol
}

// handlingText refuses the other way of joining paths.
func handlingText(v any) string {
	if v != "v0" {
		return "not supported: v1 joins the paths of service and route in another way than proxies do; use v0"
	}
	return ""
}

// keepsPath switches strip_path off by default for gRPC, whose paths are names of methods.
func keepsPath(in map[string]any) []fault.Violation {
	given := texts(in["protocols"])
	if _, named := in["strip_path"]; !named && (slices.Contains(given, "grpc") || slices.Contains(given, "grpcs")) {
		in["strip_path"] = false
	}
	return nil
}

// protocolsText refuses mixed families, and families that are not supported.
func protocolsText(v any) string {
	protocols := texts(v)
	var used [][]string
	for _, family := range families {
		if slices.ContainsFunc(protocols, func(p string) bool { return slices.Contains(family, p) }) {
			used = append(used, family)
		}
	}
	if len(used) > 1 {
		sets := make([]string, len(used))
		for i, family := range used {
			sets[i] = "(" + quoted(family) + ")"
		}
		return "these sets are mutually exclusive: " + strings.Join(sets, ", ")
	}
	for _, p := range protocols {
		if text := routeProtocolText(p); text != "" {
			return text
		}
	}
	return ""
}

// quoted puts names in single quotes.
func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = "'" + n + "'"
	}
	return strings.Join(q, ", ")
}

func methodText(v any) string {
	if strings.ContainsFunc(v.(string), func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return "expected upper-case letters"
	}
	return ""
}

func routeHostText(v any) string {
	host := v.(string)
	if isWildcard(host) {
		return wildcardText(host)
	}
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "invalid port in " + strconv.Quote(host)
		}
	}
	if !validHostname(name) {
		return "invalid hostname: " + strconv.Quote(host)
	}
	return ""
}

func wildcardText(host string) string {
	p, ok := ParseHost(host)
	name := p.Name
	switch {
	case p.Suffix() != "":
		name = name[2:]
	case p.Prefix() != "":
		name = name[:len(name)-2]
	}
	switch {
	case strings.Count(host, "*") > 1:
		return "invalid wildcard: must have at most one"
	case isWildcard(name):
		return "invalid wildcard: must be the leftmost or the rightmost label"
	case !ok || !validHostname(name):
		return "invalid hostname: " + strconv.Quote(host)
	}
	return ""
}

func routePathText(v any) string {
	path := v.(string)
	switch {
	case strings.HasPrefix(path, "~/"):
		if _, err := ParsePath(path); err != nil {
			return regexText(path, err)
		}
		return ""
	case !strings.HasPrefix(path, "/"):
		return "should start with: / (fixed path) or ~/ (regex path)"
	}
	return segmentsText(path)
}

// headersText checks the names. Hosts have their own attribute, and a name must not occur in
// two spellings, because only one of them could count.
func headersText(v any) string {
	seen := map[string]bool{}
	for name := range v.(map[string]any) {
		lower := strings.ToLower(name)
		switch {
		case lower == "host":
			return "cannot contain 'host' header, which must be specified in the 'hosts' attribute"
		case name == "" || headerNameText(name) != "":
			return "invalid header name: " + strconv.Quote(name)
		case seen[lower]:
			return "header named twice: " + strconv.Quote(lower)
		}
		seen[lower] = true
	}
	return ""
}

func headerValueText(v any) string {
	if strings.HasPrefix(v.(string), headerPattern) {
		if _, err := ParseHeader(v.(string)); err != nil {
			return regexText(v.(string), err)
		}
		return ""
	}
	return headerText(v)
}

// regexText begins with the words by which tools recognise bad expressions.
func regexText(text string, err error) string {
	return fmt.Sprintf("invalid regex: '%s' (%s)", text, err)
}

func serverNameText(v any) string {
	if !validHostname(v.(string)) {
		return "invalid server name: " + strconv.Quote(v.(string))
	}
	return ""
}

// routeProtocols refuses attributes that a family of protocols does not have.
func routeProtocols(w *model.Write) []fault.Violation {
	protocols := texts(w.New["protocols"])
	has := func(p string) bool { return slices.Contains(protocols, p) }
	var out []fault.Violation
	if has("grpc") || has("grpcs") {
		if hasMembers(w.New["methods"]) {
			out = append(out, violation("methods", "cannot set 'methods' when 'protocols' is 'grpc' or 'grpcs'")...)
		}
		if w.New["strip_path"] == true {
			out = append(out, violation("strip_path", "cannot set 'strip_path' when 'protocols' is 'grpc' or 'grpcs'")...)
		}
	}
	if hasMembers(w.New["snis"]) && !has("https") && !has("grpcs") && !has("wss") {
		out = append(out, violation("snis", "'snis' can only be set when 'protocols' is 'https', 'grpcs' or 'wss'")...)
	}
	return out
}

// routeMatches checks that a route selects by something. Its protocols decide which fields
// count.
func routeMatches(w *model.Write) []fault.Violation {
	protocols := texts(w.New["protocols"])
	protocol, fields := "http", []string{"methods", "hosts", "headers", "paths"}
	for _, pair := range secured {
		for i, p := range pair {
			if !slices.Contains(protocols, p) {
				continue
			}
			if protocol = p; i == 0 {
				fields = append(fields, "snis")
				break
			}
		}
	}
	if protocol == "grpc" || protocol == "grpcs" {
		fields = fields[1:]
	}
	for _, name := range fields {
		if hasMembers(w.New[name]) {
			return nil
		}
	}
	return entityViolation(fmt.Sprintf("must set one of %s when 'protocols' is '%s'", quoted(fields), protocol))
}

// hasMembers reports whether a list or map has members.
func hasMembers(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}
