package proxytemplate

import (
	"errors"
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

func programOf(s *policy.Selection) (*program, error) {
	c := policy.First[Spec](s).Conf
	if c == nil {
		return &program{}, nil
	}
	return c.programOf()
}

// add makes the new clusters and listeners.
func add(d *draft.Contribution, s *policy.Selection) error {
	p, err := programOf(s)
	if err != nil {
		return err
	}
	for _, c := range p.clusters {
		d.Clusters = append(d.Clusters, proto.CloneOf(c))
	}
	for _, l := range p.listeners {
		d.Listeners = append(d.Listeners, proto.CloneOf(l))
	}
	return nil
}

// patch applies the modifications to one finished resource. What must not be changed stays as it
// is, and the proxy says so: it is what the mesh makes, so it is safe.
func patch(d *draft.Finished, s *policy.Selection) error {
	p, err := programOf(s)
	if err != nil {
		d.Left = append(d.Left, err)
		return nil
	}
	if !p.keeps && !p.makes(d.Proto) {
		d.Removed = true
		return nil
	}
	for i := range p.steps {
		if err := p.steps[i].apply(d); err != nil {
			d.Left = append(d.Left, fmt.Errorf("modifications[%d].%s: %w", p.steps[i].at, p.steps[i].kind, err))
		}
		if d.Removed {
			return nil
		}
	}
	return nil
}

// makes reports whether a resource is one of the program's own.
func (p *program) makes(m proto.Message) bool {
	switch m := m.(type) {
	case *clusterv3.Cluster:
		for _, c := range p.clusters {
			if c.GetName() == m.GetName() {
				return true
			}
		}
	case *listenerv3.Listener:
		for _, l := range p.listeners {
			if l.GetName() == m.GetName() {
				return true
			}
		}
	}
	return false
}

// apply applies a step to one resource.
func (s *step) apply(d *draft.Finished) error {
	if s.match.Origin != "" && s.match.Origin != d.Origin || d.Origin == draft.OriginTransparent {
		return nil // what takes redirected connections is nobody's to change: it is the last guard
	}
	switch m := d.Proto.(type) {
	case *clusterv3.Cluster:
		if s.kind == sortCluster && s.named(m.GetName()) {
			return s.change(d)
		}
	case *listenerv3.Listener:
		if s.kind == sortListener && s.named(m.GetName()) && tagged(m, s.match.Tags) {
			return s.change(d)
		}
		return s.inListener(d.Origin, m)
	case *routev3.RouteConfiguration:
		if s.kind == sortVirtualHost && d.Origin == draft.OriginOutbound && s.ofTable(m.GetName()) {
			return s.hosts(m)
		}
	}
	return nil
}

func (s *step) named(name string) bool { return s.match.Name == "" || s.match.Name == name }

func (s *step) ofTable(name string) bool {
	return s.match.RouteConfigurationName == "" || s.match.RouteConfigurationName == name
}

// errOpen is why the listener of an inbound is not removed. At a transparent proxy everything
// gets through where nothing listens.
var errOpen = errors.New("the listener of an inbound is not removed: it keeps callers out")

// change patches or removes a cluster or a listener.
func (s *step) change(d *draft.Finished) error {
	if s.operation == opPatch {
		return merge(d.Proto.ProtoReflect(), proto.Clone(s.value).ProtoReflect())
	}
	if s.kind == sortListener && d.Origin == draft.OriginInbound {
		return errOpen
	}
	d.Removed = true
	return nil
}

// tagged reports whether the listener of an inbound or an outbound has some tags.
func tagged(l *listenerv3.Listener, tags map[string]string) bool {
	if len(tags) == 0 {
		return true
	}
	has := mesh.Tags{}
	for key, v := range l.GetMetadata().GetFilterMetadata()[mesh.MetadataTags].GetFields() {
		has[key] = v.GetStringValue()
	}
	return mesh.Matches(tags, has)
}

// hosts changes the virtual hosts of a table.
func (s *step) hosts(t *routev3.RouteConfiguration) error {
	if s.operation == opAdd {
		host, ok := proto.Clone(s.value).(*routev3.VirtualHost)
		if !ok {
			return fmt.Errorf("it is a %T", s.value)
		}
		if repeated(host.GetDomains()) >= 0 { // stored before that was refused
			return fmt.Errorf("virtual host %s has a domain twice", host.GetName())
		}
		for _, h := range t.GetVirtualHosts() {
			if h.GetName() == host.GetName() || slices.ContainsFunc(h.GetDomains(), func(d string) bool { return slices.Contains(host.GetDomains(), d) }) {
				return fmt.Errorf("%s has a virtual host of this name, or for one of its domains", t.GetName())
			}
		}
		t.VirtualHosts = append(t.GetVirtualHosts(), host)
		return nil
	}
	var kept []*routev3.VirtualHost
	for _, h := range t.GetVirtualHosts() {
		switch {
		case !s.named(h.GetName()):
		case s.operation == opRemove:
			continue
		default:
			if err := merge(h.ProtoReflect(), proto.Clone(s.value).ProtoReflect()); err != nil {
				return err
			}
		}
		kept = append(kept, h)
	}
	t.VirtualHosts = kept
	return nil
}
