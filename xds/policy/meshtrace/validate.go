package meshtrace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/collector"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

const (
	textDefined = "must be defined"
	textEmpty   = "must not be empty"
	// maxTags and maxText limit what each span carries.
	maxTags = 32
	maxText = 256
)

// secretive are words in the names of headers that may hold credentials, or paths with some in
// them.
var secretive = []string{
	"auth", "token", "key", "secret", "cookie", "password", "passwd", "credential", "session", "signature", "assertion", "jwt", "bearer", "otp", "dpop",
	"csrf", "saml", "location", "referer", "referrer", "refresh", "redirect", "url", "uri", "path", "query", "x-meshgate", "client-cert",
	"sec-websocket-protocol",
}

func validate(spec any) []fault.Violation {
	s := spec.(*Resource).Spec
	var v policy.Violations
	if s == nil {
		v.Add("spec", textDefined)
		return v
	}
	target.Check(&v, "spec.targetRef", s.TargetRef, target.Kinds()...)
	if s.Default == nil {
		v.Add("spec.default", textDefined)
		return v
	}
	s.Default.validate(&v, "spec.default")
	return v
}

func (c *Conf) validate(v *policy.Violations, path string) {
	if len(c.Backends) > 1 {
		v.Add(path+".backends", "must have no more than one backend defined")
	}
	for i := range c.Backends {
		for _, wrong := range second(c.Backends[i].collector()) {
			v.Add(fmt.Sprintf("%s.backends[%d]%s", path, i, wrong.Path), "%s", wrong.Message)
		}
	}
	if s := c.Sampling; s != nil {
		for _, x := range []struct {
			name  string
			value *float64
		}{{"client", s.Client}, {"random", s.Random}, {"overall", s.Overall}} {
			if x.value != nil && !(*x.value >= 0 && *x.value <= 100) {
				v.Add(path+".sampling."+x.name, "must be in inclusive range [0.0, 100.0]")
			}
		}
	}
	if len(c.Tags) > maxTags {
		v.Add(path+".tags", "must have at most %d elements", maxTags)
	}
	for i := range c.Tags {
		c.Tags[i].validate(v, fmt.Sprintf("%s.tags[%d]", path, i))
	}
}

func (t *Tag) validate(v *policy.Violations, path string) {
	text := func(path, s string) {
		if len(s) > maxText || !policy.Visible(s) {
			v.Add(path, "must be at most %d characters without control characters", maxText)
		}
		v.Sent(path, s)
	}
	if t.Name == "" {
		v.Add(path+".name", textEmpty)
	}
	text(path+".name", t.Name)
	if t.Name == collector.TagGRPCPath {
		v.Add(path+".name", "this tag is one that every proxy sets itself, so that spans have no path")
	}
	switch {
	case (t.Literal == nil) == (t.Header == nil):
		v.Add(path, "tag must have only one type defined: header, literal")
	case t.Literal != nil && *t.Literal == "":
		v.Add(path+".literal", textEmpty)
	case t.Literal != nil:
		text(path+".literal", *t.Literal)
	default:
		text(path+".header.default", t.Header.Default)
		t.Header.validate(v, path+".header.name")
	}
}

func (h *Header) validate(v *policy.Violations, path string) {
	name := strings.ToLower(h.Name)
	switch {
	case name == "":
		v.Add(path, textEmpty)
	case len(name) > maxText || strings.ContainsFunc(strings.TrimPrefix(name, ":"), func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }):
		v.Add(path, "must be a header name")
	case slices.ContainsFunc(secretive, func(w string) bool { return strings.Contains(strings.ReplaceAll(name, "_", "-"), w) }) && name != ":authority":
		v.Add(path, "this header may hold a credential, which would be in every span")
	default:
		v.Sent(path, h.Name)
	}
}

// collector reads a backend. The paths of violations are relative to it.
func (b *Backend) collector() (c mesh.Collector, wrong policy.Violations) {
	kinds := map[string]bool{typeZipkin: b.Zipkin != nil, typeDatadog: b.Datadog != nil, typeOpenTelemetry: b.OpenTelemetry != nil}
	said := 0
	for kind, there := range kinds {
		if there {
			said++
		} else if b.Type == kind {
			wrong.Add("", "%s must be defined", strings.ToLower(kind[:1])+kind[1:])
		}
	}
	_, known := kinds[b.Type]
	switch {
	case len(wrong) > 0:
	case said != 1:
		wrong.Add("", "must have only one of: zipkin, datadog, openTelemetry")
	case b.Type != "" && !known:
		wrong.Add(".type", "value is not supported. Available values: %s, %s, %s", typeZipkin, typeDatadog, typeOpenTelemetry)
	case b.Zipkin != nil:
		return b.Zipkin.collector()
	case b.Datadog != nil:
		return b.Datadog.collector()
	default:
		var text string
		if c, text = mesh.OTLPCollector(b.OpenTelemetry.Endpoint); text != "" {
			wrong.Add(".openTelemetry.endpoint", "%s", text)
		}
	}
	return c, wrong
}

func (z *Zipkin) collector() (c mesh.Collector, wrong policy.Violations) {
	c, text := mesh.ZipkinCollector(z.URL)
	if text != "" {
		wrong.Add(".zipkin.url", "%s", text)
	}
	switch z.APIVersion {
	case "", mesh.ZipkinJSON, mesh.ZipkinProto:
		c.APIVersion = z.APIVersion
	case mesh.ZipkinJSONV1:
		wrong.Add(".zipkin.apiVersion", "is no longer spoken by Envoy. Use %s or %s", mesh.ZipkinJSON, mesh.ZipkinProto)
	default:
		wrong.Add(".zipkin.apiVersion", "must be one of %s, %s", mesh.ZipkinJSON, mesh.ZipkinProto)
	}
	c.TraceID128 = z.TraceID128bit != nil && *z.TraceID128bit
	c.Apart = z.SharedSpanContext != nil && !*z.SharedSpanContext
	return c, wrong
}

// collector reads the agent. Agents speak no TLS.
func (d *Datadog) collector() (c mesh.Collector, wrong policy.Violations) {
	c, text := mesh.ZipkinCollector(d.URL)
	switch {
	case text != "":
		wrong.Add(".datadog.url", "%s", text)
	case c.TLS:
		wrong.Add(".datadog.url", "scheme must be http")
	case c.Path != "/":
		wrong.Add(".datadog.url", "path must not be set")
	}
	c.Type, c.Path, c.Split = mesh.TracingDatadog, "", d.SplitService != nil && *d.SplitService
	return c, wrong
}

func second[A, B any](_ A, b B) B { return b }
