package gateway

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Service is an upstream. Timeouts are in milliseconds.
type Service struct {
	Name           string   `json:"name,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-unique=true,x-check=name"`
	Protocol       string   `json:"protocol" jsonschema:"default=http,enum=http,enum=https,enum=grpc,enum=grpcs,enum=tcp,enum=tls,enum=tls_passthrough,enum=udp,enum=ws,enum=wss" jsonschema_extras:"x-check=service-protocol"`
	Host           string   `json:"host" jsonschema:"maxLength=253" jsonschema_extras:"x-check=host"`
	Port           int      `json:"port" jsonschema:"default=80,minimum=0,maximum=65535"`
	Path           string   `json:"path,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-check=path"`
	Retries        int      `json:"retries" jsonschema:"default=5,minimum=0,maximum=32767"`
	ConnectTimeout int      `json:"connect_timeout" jsonschema:"default=60000,minimum=1,maximum=2147483646"`
	WriteTimeout   int      `json:"write_timeout" jsonschema:"default=60000,minimum=1,maximum=2147483646"`
	ReadTimeout    int      `json:"read_timeout" jsonschema:"default=60000,minimum=1,maximum=2147483646"`
	Tags           []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// ClientCertificate is the id of the certificate that is presented to the upstream, or
	// empty. CACertificates are the ids of the authorities that may sign the upstream's
	// certificate, instead of those of the proxy's system.
	ClientCertificate string   `json:"client_certificate,omitempty" jsonschema_extras:"x-refers-to=certificate"`
	CACertificates    []string `json:"ca_certificates,omitempty" jsonschema_extras:"x-holds=ca_certificate,x-each-check=uuid"`
	TLSVerify         *bool    `json:"tls_verify,omitempty"`
	TLSVerifyDepth    *int     `json:"tls_verify_depth,omitempty" jsonschema:"minimum=0,maximum=64"`
	Enabled           bool     `json:"enabled" jsonschema:"default=true"`
}

// Services is the kind of services. Timeouts are in milliseconds.
var Services = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"service-protocol": serviceProtocolText,
		"uuid":             uuidText,
	},
}).Describe(Service{}, model.Kind{
	Name: "service", Path: "services", Scoping: model.ControlPlane, Class: model.Config,
	Lists: []model.ListIndex{listed(IndexHost, func(s *Service) []string { return one(strings.ToLower(s.Host)) })},
	Schema: &model.Schema{
		Key: "name", CreatedUnit: time.Second, Updated: true, Settle: settleAuthorities,
		Shorthand: expandURL, Shorthands: []model.Field{{Name: "url", Type: model.String}},
		Checks: []model.Check{
			{Fields: []string{"protocol", "path"}, Run: noPath},
			{Fields: []string{"protocol", "client_certificate"}, Run: onlyTLS("client_certificate")},
			{Fields: []string{"protocol", "ca_certificates"}, Run: onlyTLS("ca_certificates")},
			{Fields: []string{"protocol", "tls_verify"}, Run: onlyTLS("tls_verify")},
			{Fields: []string{"protocol", "tls_verify_depth"}, Run: onlyTLS("tls_verify_depth")},
		},
	},
})

// serviceProtocolText refuses protocols that are not HTTP.
func serviceProtocolText(v any) string {
	switch p := v.(string); p {
	case "tcp", "tls", "tls_passthrough", "udp":
		return "not supported: " + p
	}
	return ""
}

// TLS reports whether connections to the upstream use TLS.
func (s *Service) TLS() bool { return overTLS(s.Protocol) }

func overTLS(protocol any) bool {
	return protocol == "https" || protocol == "grpcs" || protocol == "wss"
}

// noPath refuses paths of gRPC services, because the paths of gRPC are its methods.
func noPath(w *model.Write) []fault.Violation {
	if w.New["path"] == nil || w.New["protocol"] != "grpc" && w.New["protocol"] != "grpcs" {
		return nil
	}
	return violation("path", model.TextNull)
}

func uuidText(v any) string {
	if !model.IsUUID(v.(string)) {
		return model.TextUUID
	}
	return ""
}

// settleAuthorities stores ids in lower case, in which they are compared, and each id once.
func settleAuthorities(w *model.Write, _ time.Time) error {
	list, ok := w.New["ca_certificates"].([]any)
	if !ok {
		return nil
	}
	ids := make([]any, 0, len(list))
	for _, id := range texts(list) {
		if id = strings.ToLower(id); !slices.Contains(ids, any(id)) {
			ids = append(ids, id)
		}
	}
	w.New["ca_certificates"] = ids
	return nil
}

func onlyTLS(name string) func(*model.Write) []fault.Violation {
	return func(w *model.Write) []fault.Violation {
		if w.New[name] == nil || overTLS(w.New["protocol"]) {
			return nil
		}
		return violation(name, model.TextNull)
	}
}

// hostText checks a host name or address without a port.
func hostText(v any) string {
	host := v.(string)
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		return ""
	}
	if strings.Contains(host, ":") {
		return "must not have a port"
	}
	if !namesHost(host) {
		return "invalid hostname: " + strconv.Quote(host)
	}
	return ""
}

// namesHost reports whether host is a name that no resolver reads as an address. Rows of
// older versions may hold other names: these are read, but refused in writes.
func namesHost(host string) bool { return validHostname(host) && !hostname.EndsInNumber(host) }

// validHostname reports whether host consists of labels of RFC 1123 section 2.1. It also
// allows underscores, which are common, addresses of IP version 4, and the rest of a wildcard
// name. [namesHost] is for names that must lead to a host.
func validHostname(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
			if !alphanumeric && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

func servicePathText(v any) string {
	path := v.(string)
	if !strings.HasPrefix(path, "/") {
		return "should start with: /"
	}
	return segmentsText(path)
}

// expandURL replaces the write-only shorthand url by all of protocol, host, port and path. A
// URL without a path clears the path.
func expandURL(in map[string]any) []fault.Violation {
	v, ok := in["url"]
	if !ok {
		return nil
	}
	delete(in, "url")
	text, isText := v.(string)
	if v == nil || text == "" && isText {
		return violation("url", model.TextEmpty)
	}
	if !isText {
		return violation("url", "expected a string")
	}
	in["protocol"], in["host"], in["port"], in["path"] = "http", nil, int64(80), nil
	u, err := url.Parse(text)
	if err != nil {
		in["path"] = text
		return nil
	}
	if u.Scheme == "https" || u.Scheme == "" && u.Port() == "443" {
		in["protocol"], in["port"] = "https", int64(443)
	} else if u.Scheme != "" {
		in["protocol"] = u.Scheme
	}
	if host := u.Hostname(); host != "" {
		in["host"] = host
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return violation("url", "must hold only scheme, host, port and path")
	}
	if port, err := strconv.ParseInt(u.Port(), 10, 64); err == nil {
		in["port"] = port
	}
	if path := u.EscapedPath(); path != "" {
		in["path"] = u.Path
		if u.Host != "" {
			in["path"] = path
		}
	}
	return nil
}
