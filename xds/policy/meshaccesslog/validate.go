package meshaccesslog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/logging"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// Bounds of one policy: every listener of a proxy has a copy of what is chosen for it.
const (
	maxItems    = 64
	maxBackends = 8
	maxFields   = 64
	maxKey      = 256
	maxTexts    = 32 << 10
)

const textDefined = "must be defined"

func validate(spec any) []fault.Violation {
	s := spec.(*Resource).Spec
	var v policy.Violations
	if s == nil {
		v.Add("spec", textDefined)
		return v
	}
	target.Check(&v, "spec.targetRef", s.TargetRef, target.Kinds()...)
	if len(s.From)+len(s.To) == 0 {
		v.Add("spec", "at least one of 'from', 'to' has to be defined")
	}
	items(&v, "spec.from", s.From, target.Mesh)
	items(&v, "spec.to", s.To, target.Mesh, target.Service)
	return v
}

func items(v *policy.Violations, path string, all []target.Item[Conf], kinds ...string) {
	if len(all) > maxItems {
		v.Add(path, "must have at most %d elements", maxItems)
		return
	}
	for i, item := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		target.CheckItem(v, at+".targetRef", item.TargetRef, kinds...)
		switch {
		case item.Default == nil:
			v.Add(at+".default", textDefined)
		case len(item.Default.Backends) > maxBackends:
			v.Add(at+".default.backends", "must have at most %d elements", maxBackends)
		case item.Default.size() > maxTexts:
			v.Add(at+".default.backends", "must not have more than %d bytes in all", maxTexts)
		default:
			for j := range item.Default.Backends {
				item.Default.Backends[j].validate(v, fmt.Sprintf("%s.default.backends[%d]", at, j))
			}
		}
	}
}

// size returns the bytes of all texts that a listener has a copy of.
func (c *Conf) size() (n int) {
	of := func(all []Field) (n int) {
		for _, f := range all {
			n += len(f.Key) + len(f.Value)
		}
		return n
	}
	format := func(f *Format) int {
		if f == nil {
			return 0
		}
		n := of(f.JSON)
		if f.Plain != nil {
			n += len(*f.Plain)
		}
		return n
	}
	for _, b := range c.Backends {
		if b.TCP != nil {
			n += len(b.TCP.Address) + format(b.TCP.Format)
		}
		if b.File != nil {
			n += len(b.File.Path) + format(b.File.Format)
		}
		if o := b.OpenTelemetry; o != nil {
			n += len(o.Endpoint) + of(o.Attributes) + len(o.Body)
		}
	}
	return n
}

func (b *Backend) validate(v *policy.Violations, path string) {
	members := map[string]bool{typeTCP: b.TCP != nil, typeFile: b.File != nil, typeOpenTelemetry: b.OpenTelemetry != nil}
	names := map[string]string{typeTCP: "tcp", typeFile: "file", typeOpenTelemetry: "openTelemetry"}
	types := []string{typeTCP, typeFile, typeOpenTelemetry}
	if !slices.Contains(types, b.Type) {
		v.Add(path+".type", "value is not supported. Available values: %s", strings.Join(types, ", "))
		return
	}
	for _, t := range types {
		switch {
		case t == b.Type && !members[t]:
			v.Add(path+"."+names[t], textDefined)
		case t != b.Type && members[t]:
			v.Add(path+"."+names[t], "must not be set with type %s", b.Type)
		}
	}
	if b.TCP != nil {
		if wrong := mesh.CheckLogAddress(b.TCP.Address); wrong != "" {
			v.Add(path+".tcp.address", "%s", wrong)
		}
		b.TCP.Format.validate(v, path+".tcp.format")
	}
	if b.File != nil {
		if wrong := mesh.CheckLogFile(b.File.Path); wrong != "" {
			v.Add(path+".file.path", "%s", wrong)
		}
		b.File.Format.validate(v, path+".file.format")
	}
	if b.OpenTelemetry != nil {
		b.OpenTelemetry.validate(v, path+".openTelemetry")
	}
}

func (f *Format) validate(v *policy.Violations, path string) {
	if f == nil {
		return
	}
	if f.OmitEmptyValues != nil && *f.OmitEmptyValues {
		v.Add(path+".omitEmptyValues", "is not supported: a value that does not exist is shown as -")
	}
	switch f.Type {
	case formatPlain:
		if f.Plain == nil || *f.Plain == "" {
			v.Add(path+".plain", "must not be empty")
		} else if _, wrong := mesh.ParseLogFormat(*f.Plain); wrong != "" {
			v.Add(path+".plain", "%s", wrong)
		}
		if f.JSON != nil {
			v.Add(path+".json", "must not be set with type %s", f.Type)
		}
	case formatJSON:
		if len(f.JSON) == 0 {
			v.Add(path+".json", "must not be empty")
		}
		fields(v, path+".json", f.JSON, func(s string) string { return second(mesh.ParseLogFormat(s)) })
		if f.Plain != nil {
			v.Add(path+".plain", "must not be set with type %s", f.Type)
		}
	default:
		v.Add(path+".type", "value is not supported. Available values: %s, %s", formatPlain, formatJSON)
	}
}

func second[A, B any](_ A, b B) B { return b }

// fields checks members, of which each key exists once. All of them are one line.
func fields(v *policy.Violations, path string, all []Field, check func(string) string) {
	if len(all) > maxFields {
		v.Add(path, "must have at most %d elements", maxFields)
		return
	}
	seen, headers := map[string]bool{}, 0
	for i, f := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case f.Key == "" || len(f.Key) > maxKey || !policy.Visible(f.Key):
			v.Add(at+".key", "must be 1 to %d characters without control characters", maxKey)
		case seen[f.Key]:
			v.Add(at+".key", "there is another element with this key")
		}
		seen[f.Key] = true
		headers += mesh.LogHeaders(f.Value)
		if f.Value == "" {
			v.Add(at+".value", "must not be empty")
		} else if wrong := check(f.Value); wrong != "" {
			v.Add(at+".value", "%s", wrong)
		}
	}
	if headers > mesh.MaxLogHeaders {
		v.Add(path, "must not have more than %d headers in all", mesh.MaxLogHeaders)
	}
}

func (o *OpenTelemetry) validate(v *policy.Violations, path string) {
	if _, wrong := logging.CollectorAt(o.Endpoint); wrong != "" {
		v.Add(path+".endpoint", "%s", wrong)
	}
	fields(v, path+".attributes", o.Attributes, logging.CheckRecord)
	if err := logging.CheckRecordBody(o.Body); err != nil {
		v.Add(path+".body", "%v", err)
	}
}
