package proxytemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// Texts of violations (requirement "ProxyTemplate").
const (
	textEmpty    = "cannot be empty"
	textProfile  = "profile not found. Available profiles: default-proxy,egress-proxy,gateway-proxy,ingress-proxy"
	textNative   = "native Envoy resource is not valid: %s"
	textNoMatch  = "cannot be defined"
	textPick     = "cannot be empty. You need to pick a filter %s which this one will be added"
	textOneSort  = "must have exactly one of cluster, listener, networkFilter, httpFilter, virtualHost"
	textMany     = "must have at most %d elements"
	textOrigin   = "must be one of %s"
	textOutbound = "only virtual hosts of outbounds can be changed: those of inbounds are where callers are checked"
)

// Bounds of lists.
const (
	maxResources     = 16
	maxModifications = 64
)

// profiles are what can be imported. kept are those with which a proxy of a mesh keeps what the
// mesh makes for it.
var (
	profiles = []string{"default-proxy", "egress-proxy", "gateway-proxy", "ingress-proxy"}
	kept     = []string{"default-proxy", "gateway-proxy"}
	origins  = []string{draft.OriginContributed, draft.OriginInbound, draft.OriginOutbound}
)

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	var v policy.Violations
	if len(s.Selectors) > 0 {
		v = mesh.ValidateSelectors("selectors", s.Selectors, mesh.SelectService)
	}
	c := s.Conf
	if c == nil {
		v.Add("conf", policy.TextDefined)
		return v
	}
	for i, name := range c.Imports {
		switch path := fmt.Sprintf("conf.imports[%d]", i); {
		case name == "":
			v.Add(path, textEmpty)
		case !slices.Contains(profiles, name):
			v.Add(path, textProfile)
		}
	}
	switch {
	case len(c.Resources) > maxResources:
		v.Add("conf.resources", textMany, maxResources)
	case len(c.Modifications) > maxModifications:
		v.Add("conf.modifications", textMany, maxModifications)
	case c.size() > maxTexts:
		v.Add("conf", "%s", errMany)
	default:
		checkResources(&v, c.Resources)
		checkModifications(&v, c.Modifications)
		checkNames(&v, c)
	}
	return v
}

func checkResources(v *policy.Violations, rs []Resource) {
	for i := range rs {
		r, path := &rs[i], fmt.Sprintf("conf.resources[%d]", i)
		for _, f := range []struct{ name, value string }{{"name", r.Name}, {"version", r.Version}, {"resource", r.Resource}} {
			if f.value == "" {
				v.Add(path+"."+f.name, textEmpty)
			}
		}
		if r.Resource == "" {
			continue
		}
		p := new(program)
		err := p.resource(r.Resource)
		if err == nil {
			err = p.whole()
		}
		if err != nil {
			v.Add(path+".resource", textNative, err)
		}
	}
}

func checkModifications(v *policy.Violations, ms []Modification) {
	for i := range ms {
		kind, c := ms[i].one()
		path := fmt.Sprintf("conf.modifications[%d]", i)
		if c == nil {
			v.Add(path, textOneSort)
			continue
		}
		path += "." + string(kind)
		if !slices.Contains(kind.operations(), c.Operation) {
			v.Add(path+".operation", "invalid operation. Available operations: %s", quoted(kind.operations()))
			continue
		}
		checkMatch(v, path+".match", kind, c)
		if c.Operation == opRemove {
			continue
		}
		p := new(program)
		err := p.modification(i, kind, c)
		switch {
		case c.Value == "":
			err = errors.New("value: it is empty")
		case err == nil:
			err = p.whole()
		}
		if err != nil {
			v.Add(path+".value", textNative, strings.TrimPrefix(err.Error(), "value: "))
		}
	}
}

func checkMatch(v *policy.Violations, path string, kind sort, c *Change) {
	m := c.Match
	if (kind == sortCluster || kind == sortListener) && c.Operation == opAdd {
		if m != nil {
			v.Add(path, textNoMatch)
		}
		return
	}
	filter := kind == sortNetworkFilter || kind == sortHTTPFilter
	switch unnamed := m == nil || m.Name == ""; {
	case !filter || !unnamed:
	case c.Operation == opAddBefore:
		v.Add(path+".name", textPick, "before")
	case c.Operation == opAddAfter:
		v.Add(path+".name", textPick, "after")
	case c.Operation == opPatch:
		v.Add(path+".name", textEmpty)
	}
	if m == nil {
		return
	}
	if m.Origin != "" && !slices.Contains(origins, m.Origin) {
		v.Add(path+".origin", textOrigin, strings.Join(origins, ", "))
	}
	if kind == sortVirtualHost && m.Origin != "" && m.Origin != draft.OriginOutbound {
		v.Add(path+".origin", textOutbound)
	}
	// What does not belong to a sort would be ignored, and more would be changed than was meant.
	for _, f := range []struct {
		name string
		set  bool
		of   []sort
	}{
		{"tags", len(m.Tags) > 0, []sort{sortListener}},
		{"listenerName", m.ListenerName != "", []sort{sortNetworkFilter, sortHTTPFilter}},
		{"listenerTags", len(m.ListenerTags) > 0, []sort{sortNetworkFilter, sortHTTPFilter}},
		{"routeConfigurationName", m.RouteConfigurationName != "", []sort{sortVirtualHost}},
	} {
		if f.set && !slices.Contains(f.of, kind) {
			v.Add(path+"."+f.name, textNoMatch)
		}
	}
}

// checkNames refuses two new resources of one name: one of them would be dropped. It does the same
// to two listeners in one place.
func checkNames(v *policy.Violations, c *Conf) {
	p, err := compile(c)
	if err != nil {
		return // said already
	}
	var names []string
	for _, x := range p.clusters {
		names = append(names, "cluster "+x.GetName())
	}
	for _, x := range p.listeners {
		names = append(names, "listener "+x.GetName())
	}
	slices.Sort(names)
	for i := range names[min(1, len(names)):] {
		if names[i] == names[i+1] {
			v.Add("conf", "%s is made twice", names[i])
		}
	}
	if names := clash(p.listeners); names != "" {
		v.Add("conf", "%s listen on the same port", names)
	}
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }
