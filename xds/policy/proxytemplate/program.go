package proxytemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// program is what a Conf comes to. Nobody changes it.
type program struct {
	// keeps says that what the mesh makes stays.
	keeps     bool
	clusters  []*clusterv3.Cluster
	listeners []*listenerv3.Listener
	steps     []step
}

// step is one modification of what is there.
type step struct {
	// at is the index of the modification.
	at        int
	kind      sort
	operation string
	match     Match
	// value is a Cluster, Listener, Filter, HttpFilter or VirtualHost; nil if something is removed.
	value proto.Message
}

// sort is what a modification is about.
type sort string

// These are the sorts, by the names of the fields of [Modification].
const (
	sortCluster       sort = "cluster"
	sortListener      sort = "listener"
	sortNetworkFilter sort = "networkFilter"
	sortHTTPFilter    sort = "httpFilter"
	sortVirtualHost   sort = "virtualHost"
)

// These are the operations.
const (
	opAdd       = "add"
	opPatch     = "patch"
	opRemove    = "remove"
	opAddFirst  = "addFirst"
	opAddLast   = "addLast"
	opAddBefore = "addBefore"
	opAddAfter  = "addAfter"
)

var (
	onResources = []string{opAdd, opPatch, opRemove}
	onFilters   = []string{opAddFirst, opAddLast, opAddBefore, opAddAfter, opPatch, opRemove}
)

// operations returns what can be done to a sort.
func (s sort) operations() []string {
	if s == sortNetworkFilter || s == sortHTTPFilter {
		return onFilters
	}
	return onResources
}

// empty returns a message of the sort.
func (s sort) empty() proto.Message {
	switch s {
	case sortCluster:
		return new(clusterv3.Cluster)
	case sortListener:
		return new(listenerv3.Listener)
	case sortNetworkFilter:
		return new(listenerv3.Filter)
	case sortHTTPFilter:
		return new(hcmv3.HttpFilter)
	default:
		return new(routev3.VirtualHost)
	}
}

// one returns the sort and the change of a modification; the change is nil unless exactly one is
// set.
func (m *Modification) one() (sort, *Change) {
	var kind sort
	var change *Change
	for _, x := range []struct {
		kind   sort
		change *Change
	}{
		{sortCluster, m.Cluster}, {sortListener, m.Listener}, {sortNetworkFilter, m.NetworkFilter},
		{sortHTTPFilter, m.HTTPFilter}, {sortVirtualHost, m.VirtualHost},
	} {
		if x.change == nil {
			continue
		}
		if change != nil {
			return "", nil
		}
		kind, change = x.kind, x.change
	}
	return kind, change
}

func compile(c *Conf) (*program, error) {
	p := &program{keeps: slices.ContainsFunc(c.Imports, func(name string) bool { return slices.Contains(kept, name) })}
	for i := range c.Resources {
		if err := p.resource(c.Resources[i].Resource); err != nil {
			return nil, fmt.Errorf("resources[%d]: %w", i, err)
		}
	}
	for i := range c.Modifications {
		kind, change := c.Modifications[i].one()
		if change == nil {
			return nil, fmt.Errorf("modifications[%d]: %s", i, textOneSort)
		}
		if err := p.modification(i, kind, change); err != nil {
			return nil, fmt.Errorf("modifications[%d].%s: %w", i, kind, err)
		}
	}
	return p, nil
}

// resource takes a new cluster or listener from a text.
func (p *program) resource(text string) error {
	m, err := parseTyped(text, made)
	if err != nil {
		return err
	}
	return p.add(m)
}

// add takes a new cluster or listener.
func (p *program) add(m proto.Message) error {
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if m.GetName() == "" || m.GetLoadAssignment() == nil || m.GetClusterDiscoveryType() == nil {
			return fmt.Errorf("a cluster needs a name, a type (%s) and a load_assignment", strings.Join(clusterTypes, ", "))
		}
		p.clusters = append(p.clusters, m)
	case *listenerv3.Listener:
		if m.GetName() == "" || m.GetAddress() == nil || len(m.GetFilterChains()) == 0 {
			return errors.New("a listener needs a name, an address and a filter chain")
		}
		// Two proxies of a machine would otherwise share the port and say nothing.
		m.EnableReusePort = wrapperspb.Bool(false)
		if err := lazy(m); err != nil {
			return err
		}
		p.listeners = append(p.listeners, m)
	default:
		return fmt.Errorf("it is a %s, and must be a cluster or a listener", m.ProtoReflect().Descriptor().FullName())
	}
	return valid(m)
}

// modification takes a change.
func (p *program) modification(at int, kind sort, c *Change) error {
	s := step{at: at, kind: kind, operation: c.Operation}
	if c.Match != nil {
		s.match = *c.Match
	}
	if c.Operation == opRemove {
		p.steps = append(p.steps, s)
		return nil
	}
	in := made
	if c.Operation == opPatch {
		in = patched
	}
	s.value = kind.empty()
	if err := parse(c.Value, s.value, in); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	switch {
	case c.Operation == opAdd && kind != sortVirtualHost:
		return p.add(s.value)
	case c.Operation != opPatch:
		if f, ok := s.value.(filter); ok {
			switch {
			case f.GetTypedConfig() == nil:
				return errors.New("value: a filter needs a typed_config")
			case isLast(f):
				return errors.New("value: a filter that forwards is not added: there is one already")
			}
		}
		if err := valid(s.value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	}
	p.steps = append(p.steps, s)
	return nil
}
