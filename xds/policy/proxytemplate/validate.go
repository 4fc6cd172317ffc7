package proxytemplate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// profileSidecar makes what every sidecar gets. The other profiles are for other proxies.
const profileSidecar = "default-proxy"

var profiles = []string{profileSidecar, "egress-proxy", "gateway-proxy", "ingress-proxy"}

// maxParts bounds the resources and the modifications of a policy: each modification is tried
// on each resource of each proxy.
const maxParts = 100

const (
	textEmpty   = "cannot be empty"
	textInvalid = "native Envoy resource is not valid: "
	textNoMatch = "cannot be defined"
)

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	var v policy.Violations
	if len(s.Selectors) > 0 {
		v = mesh.ValidateSelectors("selectors", s.Selectors, mesh.SelectService)
	}
	if s.Conf == nil {
		return v
	}
	for i, profile := range s.Conf.Imports {
		switch path := fmt.Sprintf("conf.imports[%d]", i); {
		case profile == "":
			v.Add(path, textEmpty)
		case !slices.Contains(profiles, profile):
			v.Add(path, "profile not found. Available profiles: %s", strings.Join(profiles, ","))
		}
	}
	for what, n := range map[string]int{"resources": len(s.Conf.Resources), "modifications": len(s.Conf.Modifications)} {
		if n > maxParts {
			v.Add("conf."+what, "must have at most %d elements", maxParts)
		}
	}
	seen := map[string]bool{}
	for i := range s.Conf.Resources {
		s.Conf.Resources[i].validate(&v, fmt.Sprintf("conf.resources[%d]", i), seen)
	}
	for i := range s.Conf.Modifications {
		s.Conf.Modifications[i].validate(&v, fmt.Sprintf("conf.modifications[%d]", i))
	}
	return v
}

func (r *Resource) validate(v *policy.Violations, path string, seen map[string]bool) {
	for _, field := range []struct{ name, value string }{{"name", r.Name}, {"version", r.Version}, {"resource", r.Resource}} {
		if field.value == "" {
			v.Add(path+"."+field.name, textEmpty)
		}
	}
	if r.Resource == "" {
		return
	}
	m, err := parseResource(r.Resource)
	if err != nil {
		v.Add(path+".resource", "%s%v", textInvalid, err)
		return
	}
	key := string(m.ProtoReflect().Descriptor().Name()) + " " + m.GetName()
	if seen[key] {
		v.Add(path+".resource", "%sanother one is the %s too", textInvalid, key)
	}
	seen[key] = true
}

// sort is a sort of thing that modifications change.
type sort struct {
	name       string
	of         func(*Modification) *Change
	operations []string
	// value makes an empty message of the sort.
	value func() whole
}

var (
	onWholes  = []string{"add", "patch", "remove"}
	onFilters = []string{"addFirst", "addLast", "addBefore", "addAfter", "patch", "remove"}
	sorts     = []sort{
		{"cluster", func(m *Modification) *Change { return m.Cluster }, onWholes, func() whole { return new(clusterv3.Cluster) }},
		{"listener", func(m *Modification) *Change { return m.Listener }, onWholes, func() whole { return new(listenerv3.Listener) }},
		{"networkFilter", func(m *Modification) *Change { return m.NetworkFilter }, onFilters, func() whole { return new(listenerv3.Filter) }},
		{"httpFilter", func(m *Modification) *Change { return m.HTTPFilter }, onFilters, func() whole { return new(hcmv3.HttpFilter) }},
		{"virtualHost", func(m *Modification) *Change { return m.VirtualHost }, onWholes, func() whole { return new(routev3.VirtualHost) }},
	}
)

func (m *Modification) validate(v *policy.Violations, path string) {
	n := 0
	for _, s := range sorts {
		if c := s.of(m); c != nil {
			n++
			c.validate(v, path+"."+s.name, s)
		}
	}
	if n != 1 {
		v.Add(path, "must have exactly one of cluster, listener, networkFilter, httpFilter and virtualHost")
	}
}

func (c *Change) validate(v *policy.Violations, path string, s sort) {
	if !slices.Contains(s.operations, c.Operation) {
		quoted := make([]string, len(s.operations))
		for i, o := range s.operations {
			quoted[i] = strconv.Quote(o)
		}
		v.Add(path+".operation", "invalid operation. Available operations: %s", strings.Join(quoted, ", "))
		return
	}
	switch {
	case c.Operation == "add" && c.Match != nil && s.name != "virtualHost":
		v.Add(path+".match", textNoMatch)
	case (c.Operation == "addBefore" || c.Operation == "addAfter") && c.match().Name == "":
		v.Add(path+".match.name", "%s. You need to pick a filter %s which this one will be added", textEmpty, strings.ToLower(strings.TrimPrefix(c.Operation, "add")))
	case c.Operation == "patch" && s.filters() && c.match().Name == "":
		v.Add(path+".match.name", textEmpty)
	}
	c.validateValue(v, path, s)
}

func (c *Change) validateValue(v *policy.Violations, path string, s sort) {
	var err error
	switch m := s.value(); c.Operation {
	case "remove":
		return
	case "patch": // a part: what comes of it is judged when it is there
		err = parse(c.Value, m)
	case "add":
		if err = parseWhole(c.Value, m); err == nil && s.name == "listener" && m.(*listenerv3.Listener).GetAddress().GetSocketAddress() == nil {
			err = errNoSocket
		}
	default:
		err = parseWhole(c.Value, m)
	}
	if err != nil {
		v.Add(path+".value", "%s%v", textInvalid, err)
	}
}

func (s sort) filters() bool { return len(s.operations) == len(onFilters) }

// match returns what is matched; nothing in particular without one.
func (c *Change) match() Match {
	if c == nil || c.Match == nil {
		return Match{}
	}
	return *c.Match
}
