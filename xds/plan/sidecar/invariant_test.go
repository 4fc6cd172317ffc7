package sidecar_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
)

// mentions is what one resource says of others, and what is wrong with it alone.
type mentions struct {
	clusters, tables, secrets []string
	// plugins are the ids of those in its chains.
	plugins []string
	// eds says that it is a cluster with an assignment.
	eds     bool
	address string
	// templated says that it is a listener of a template, which has its routes inline and may lead
	// nowhere.
	templated bool
	err       error
}

// own are the beginnings of the names of listeners that the mesh makes.
var own = []string{"@", "inbound:", "outbound:", "mesh:"}

func templated(r *resource.Resource) bool {
	return r.Type == resource.Listener && !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(r.Name, prefix) })
}

// read remembers what resources mention: most are seen again and again.
var read sync.Map // version + type -> *mentions

func mentionsOf(r *resource.Resource) *mentions {
	key := string(r.Type) + r.Version
	if m, ok := read.Load(key); ok {
		return m.(*mentions)
	}
	m := &mentions{templated: templated(r)}
	msg, err := plantest.Decode(r)
	if m.err = err; err == nil {
		m.err = walk(msg.ProtoReflect(), m.note)
	}
	if own := nameOf(msg); m.err == nil && own != r.Name {
		m.err = fmt.Errorf("its own name is %q", own)
	}
	read.Store(key, m)
	return m
}

func nameOf(m proto.Message) string {
	if a, ok := m.(*endpointv3.ClusterLoadAssignment); ok {
		return a.GetClusterName()
	}
	return m.(interface{ GetName() string }).GetName()
}

// walk visits all messages, those in an Any too.
func walk(m protoreflect.Message, visit func(proto.Message) error) (err error) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		inner, err := a.UnmarshalNew()
		if err != nil {
			return err
		}
		return walk(inner.ProtoReflect(), visit)
	}
	if err := visit(m.Interface()); err != nil {
		return err
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool {
					err = walk(e.Message(), visit)
					return err == nil
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = walk(v.List().Get(i).Message(), visit)
			}
		default:
			err = walk(v.Message(), visit)
		}
		return err == nil
	})
	return err
}

// one is the bytes of the one source that everything is subscribed from.
var one = must(proto.MarshalOptions{Deterministic: true}.Marshal(plan.ADS()))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (m *mentions) note(msg proto.Message) error {
	switch x := msg.(type) {
	case *corev3.ConfigSource:
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(x)
		if err != nil || !bytes.Equal(b, one) {
			return fmt.Errorf("config source is %v", x)
		}
	case *listenerv3.Listener:
		if len(x.GetFilterChains()) == 0 {
			return fmt.Errorf("listener without filter chains")
		}
		m.address = x.GetAddress().String()
	case *listenerv3.FilterChain:
		if len(x.GetFilters()) == 0 {
			return fmt.Errorf("filter chain without filters")
		}
	case *clusterv3.Cluster:
		m.eds = x.GetType() == clusterv3.Cluster_EDS
	case *hcmv3.HttpConnectionManager:
		if m.templated && x.GetRouteConfig() != nil {
			return nil
		}
		if x.GetRds() == nil {
			return fmt.Errorf("routes are not subscribed to")
		}
		m.tables = append(m.tables, x.GetRds().GetRouteConfigName())
	case *filterv3.DynamicModuleFilterPerRoute:
		encoded := &wrapperspb.StringValue{}
		if err := x.GetFilterConfig().UnmarshalTo(encoded); err != nil {
			return err
		}
		c, err := contract.ParseChain([]byte(encoded.GetValue()))
		if err != nil {
			return err
		}
		for _, p := range c.Plugins {
			m.plugins = append(m.plugins, p.ID)
		}
	case *tlsv3.SdsSecretConfig:
		m.secrets = append(m.secrets, x.GetName())
	case *routev3.RouteAction:
		if c := x.GetCluster(); c != "" {
			m.clusters = append(m.clusters, c)
		}
	case *routev3.WeightedCluster_ClusterWeight:
		m.clusters = append(m.clusters, x.GetName())
	case *tcpv3.TcpProxy:
		if c := x.GetCluster(); c != "" && c != "@blackhole" {
			m.clusters = append(m.clusters, c)
		}
	case *tcpv3.TcpProxy_WeightedCluster_ClusterWeight:
		m.clusters = append(m.clusters, x.GetName())
	}
	return nil
}

// coherent holds a set against what an Envoy needs of it: everything that is
// named is there, and everything that is there is named. Of a broken proxy, which
// lacks listeners, there may be more than is named.
func coherent(s *resource.Set, broken bool) error {
	tables, eds, addresses := map[string]bool{}, map[string]bool{}, map[string]string{}
	asked := map[string]bool{}
	for _, t := range resource.Types {
		for _, r := range s.All(t) {
			m := mentionsOf(r)
			if m.err != nil {
				return fmt.Errorf("%s %s: %w", t, r.Name, m.err)
			}
			if err := m.carried(s, r); err != nil {
				return err
			}
			for _, c := range m.clusters {
				if m.templated {
					continue // the template may be wrong
				}
				if c == scraping.Cluster && r.Name == scraping.Listener && t == resource.Route {
					continue // the bootstrap has it
				}
				there := s.Get(resource.Cluster, c) != nil
				if strings.HasPrefix(c, "@refused:") || strings.HasPrefix(c, "@unmade:") { // what must not be called must not exist
					if there {
						return fmt.Errorf("%s leads to cluster %s, which must not exist", r.Name, c)
					}
					continue
				}
				if !there {
					return fmt.Errorf("%s leads to cluster %s, which is not there", r.Name, c)
				}
			}
			for _, name := range m.secrets {
				asked[name] = true
				if !s.AllowsSecret(name) {
					return fmt.Errorf("%s needs secret %s, which is not there", r.Name, name)
				}
			}
			for _, table := range m.tables {
				tables[table] = true
			}
			if m.eds {
				eds[r.Name] = true
			}
			if t == resource.Listener {
				if other := addresses[m.address]; other != "" {
					return fmt.Errorf("%s and %s listen on %s", other, r.Name, m.address)
				}
				addresses[m.address] = r.Name
			}
		}
	}
	for _, name := range s.Secrets() {
		if _, is := mesh.ParseExternalClient(name); is && !asked[name] {
			return fmt.Errorf("the proxy may have secret %s, for which nothing asks", name)
		}
		if strings.HasPrefix(name, "mesh_ca:") && name != mesh.SecretCA(meshName) && !asked[name] {
			return fmt.Errorf("the proxy may have the roots %s, by which nothing judges", name)
		}
	}
	for _, r := range s.All(resource.Secret) {
		if !s.AllowsSecret(r.Name) {
			return fmt.Errorf("the proxy is sent secret %s, which it may not have", r.Name)
		}
	}
	if err := equalNames(s, resource.Route, tables, broken); err != nil {
		return err
	}
	return equalNames(s, resource.Endpoint, eds, broken)
}

// carried holds what a resource says that it names against what it names.
func (m *mentions) carried(s *resource.Set, r *resource.Resource) error {
	tables := slices.Compact(slices.Sorted(slices.Values(m.tables)))
	if !slices.Equal(r.Routes, tables) {
		return fmt.Errorf("%s names the tables %v and says %v", r.Name, tables, r.Routes)
	}
	// Routes of several callers may carry chains of one plugin.
	if plugins := slices.Compact(slices.Sorted(slices.Values(m.plugins))); !slices.Equal(slices.Sorted(slices.Values(r.Plugins)), plugins) {
		return fmt.Errorf("%s carries the plugins %v and says %v", r.Name, m.plugins, r.Plugins)
	}
	for _, id := range m.plugins {
		if !s.HasPlugin(id) {
			return fmt.Errorf("the set does not know plugin %s of %s", id, r.Name)
		}
	}
	return nil
}

func equalNames(s *resource.Set, t resource.TypeURL, want map[string]bool, more bool) error {
	var have []string
	for _, r := range s.All(t) {
		if want[r.Name] || !more {
			have = append(have, r.Name)
		}
	}
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(have, names) {
		return fmt.Errorf("%s: there are %v, named are %v", t, have, names)
	}
	return nil
}
