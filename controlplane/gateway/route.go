package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// families are the sets of protocols that a route may combine.
var families = [][]string{
	{"http", "https"}, {"grpc", "grpcs"}, {"tcp", "tls", "udp"}, {"tls_passthrough"}, {"ws", "wss"},
}

// routeSchema describes routes. This version matches exact hosts, methods and
// path prefixes; everything else is refused, never silently ignored.
var routeSchema = &model.Schema{
	Key: "name", CreatedUnit: time.Second,
	Fields: append(model.Identity(time.Second, true),
		model.Field{Name: "name", Type: model.String, MaxLen: 128, Check: nameText},
		model.Field{
			Name: "protocols", Type: model.Set, Required: true, Default: []any{"http", "https"}, MinElements: 1,
			Elem: &model.Field{Type: model.String, OneOf: transports}, Check: protocolsText,
		},
		model.Field{Name: "methods", Type: model.Set, Elem: &model.Field{Type: model.String, MaxLen: 64, Check: methodText}},
		model.Field{Name: "hosts", Type: model.Array, Elem: &model.Field{Type: model.String, MaxLen: 260, Check: routeHostText}},
		model.Field{Name: "paths", Type: model.Array, Elem: &model.Field{Type: model.String, MaxLen: 1024, Check: routePathText}},
		model.Field{Name: "headers", Type: model.Map, Elem: &model.Field{Type: model.Array, Elem: &model.Field{Type: model.String}}, Check: notSupported},
		model.Field{Name: "snis", Type: model.Set, Elem: &model.Field{Type: model.String}, Check: notSupported},
		model.Field{Name: "https_redirect_status_code", Type: model.Integer, Required: true, Default: int64(426), OneOfInt: []int64{426, 301, 302, 307, 308}},
		model.Field{Name: "regex_priority", Type: model.Integer, Required: true, Default: int64(0), Between: &[2]int64{-1 << 31, 1<<31 - 1}},
		model.Field{Name: "strip_path", Type: model.Boolean, Required: true, Default: true},
		model.Field{Name: "preserve_host", Type: model.Boolean, Required: true, Default: false},
		model.Field{Name: "path_handling", Type: model.String, Required: true, Default: "v0", OneOf: []string{"v0", "v1"}},
		model.Field{Name: "request_buffering", Type: model.Boolean, Required: true, Default: true},
		model.Field{Name: "response_buffering", Type: model.Boolean, Required: true, Default: true},
		model.Field{Name: "service", Type: model.Foreign, To: "service"},
		tags(),
	),
	Checks: []model.Check{{
		Fields: []string{"protocols", "methods", "hosts", "headers", "paths", "snis"}, Run: routeMatches,
	}},
}

func notSupported(any) string { return "not supported" }

// protocolsText refuses mixed families and families that this version cannot
// carry.
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
		if text := protocolText(p); text != "" {
			return text
		}
	}
	return ""
}

// quoted lists names in single quotes.
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
	if strings.Contains(host, "*") {
		return "not supported: wildcard host"
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

func routePathText(v any) string {
	path := v.(string)
	switch {
	case strings.HasPrefix(path, "~/"):
		return "not supported: regex path"
	case !strings.HasPrefix(path, "/"):
		return "should start with: / (fixed path) or ~/ (regex path)"
	}
	return segmentsText(path)
}

// routeMatches demands that a route selects by something; which fields can do
// so depends on its protocols.
func routeMatches(w *model.Write) []fault.Violation {
	protocol, fields := "http", []string{"methods", "hosts", "headers", "paths"}
	if slices.Contains(texts(w.New["protocols"]), "https") {
		protocol, fields = "https", append(fields, "snis")
	}
	for _, name := range fields {
		switch v := w.New[name].(type) {
		case []any:
			if len(v) > 0 {
				return nil
			}
		case map[string]any:
			if len(v) > 0 {
				return nil
			}
		}
	}
	return entityViolation(fmt.Sprintf("must set one of %s when 'protocols' is '%s'", quoted(fields), protocol))
}
