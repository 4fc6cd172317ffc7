package edge

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// fill stores routes on hosts, and routes without hosts, all of one service. If chained, the
// service has a plugin.
func fill(w *world, hosts, perHost, hostless int, chained bool) {
	w.put(gateway.Services, id(1, 0), 1, serviceSpec("/s"))
	if chained {
		w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(w.t, "", id(1, 0), nil))
	}
	_, err := w.store.Update(w.ctx(), model.Config, func(tx store.Tx) error {
		for i := range hosts*perHost + hostless {
			r := routeSpec(id(1, 0), fmt.Sprintf("/route/%d", i))
			if i < hosts*perHost {
				r.Hosts = []string{fmt.Sprintf("h%d.test", i/perHost)}
			}
			_, err := tx.Create(&model.Resource{Kind: gateway.Routes, Scope: model.DefaultControlPlane, Name: id(2, i), Created: time.Unix(1, 0), Spec: r})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// observed is an Envoy that reads its routes from a file.
type observed struct {
	b             *testing.B
	address, file string
	process       *os.Process
	replies       *bufio.Reader
	conn          net.Conn
}

// observe starts an Envoy with a table and opens one connection to it.
func observe(b *testing.B, set *resource.Set, table *routev3.RouteConfiguration) *observed {
	b.Helper()
	o := &observed{b: b, file: filepath.Join(b.TempDir(), "routes.pb")}
	o.write(table, 0)
	boot := bare(b)
	add(b, boot, set)
	l := boot.StaticResources.Listeners[0]
	o.address = fmt.Sprintf("127.0.0.1:%d", l.Address.GetSocketAddress().GetPortValue())
	subscribe(b, l, o.file)
	boot.StaticResources.Listeners = boot.StaticResources.Listeners[:1]
	o.process = plantest.Run(b, write(b, boot))
	conn, err := net.Dial("tcp", o.address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	o.conn, o.replies = conn, bufio.NewReader(conn)
	return o
}

func subscribe(b *testing.B, l *listenerv3.Listener, file string) {
	b.Helper()
	manager := l.FilterChains[0].Filters[len(l.FilterChains[0].Filters)-1]
	edit(b, manager.GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: tableName, ConfigSource: &corev3.ConfigSource{
				ResourceApiVersion: corev3.ApiVersion_V3,
				ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
					PathConfigSource: &corev3.PathConfigSource{Path: file},
				},
			},
		}}
	})
}

// write replaces the file with a table that adds its version to every answer.
func (o *observed) write(table *routev3.RouteConfiguration, version int) {
	o.b.Helper()
	t, _ := proto.Clone(table).(*routev3.RouteConfiguration)
	t.ResponseHeadersToAdd = append(t.ResponseHeadersToAdd, overwrite("x-version", strconv.Itoa(version)))
	packed, err := anypb.New(t)
	if err != nil {
		o.b.Fatal(err)
	}
	body, err := proto.Marshal(&discoveryv3.DiscoveryResponse{VersionInfo: strconv.Itoa(version), Resources: []*anypb.Any{packed}})
	if err != nil {
		o.b.Fatal(err)
	}
	if err := os.WriteFile(o.file+".new", body, 0o600); err != nil {
		o.b.Fatal(err)
	}
	if err := os.Rename(o.file+".new", o.file); err != nil {
		o.b.Fatal(err)
	}
}

// ask sends a request that reaches no upstream. It returns the version of the table.
func (o *observed) ask(host, path string) string {
	o.b.Helper()
	if _, err := fmt.Fprintf(o.conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
		o.b.Fatal(err)
	}
	r, err := http.ReadResponse(o.replies, nil)
	if err != nil {
		o.b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		o.b.Fatal(err)
	}
	return r.Header.Get("X-Version")
}

// cpu returns the processor time used by Envoy's main thread, which builds tables, or by all
// its threads.
func (o *observed) cpu(all bool) time.Duration {
	o.b.Helper()
	pattern := fmt.Sprintf("/proc/%d/task/%d/schedstat", o.process.Pid, o.process.Pid)
	if all {
		pattern = fmt.Sprintf("/proc/%d/task/*/schedstat", o.process.Pid)
	}
	entries, err := filepath.Glob(pattern)
	if err != nil {
		o.b.Fatal(err)
	}
	var sum time.Duration
	for _, e := range entries {
		text, err := os.ReadFile(e)
		if err != nil {
			continue // the thread has ended
		}
		var n int64
		if _, err := fmt.Sscan(string(text), &n); err != nil {
			o.b.Fatal(err)
		}
		sum += time.Duration(n)
	}
	return sum
}

// rss returns the resident memory in MB.
func (o *observed) rss() float64 {
	o.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", o.process.Pid))
	if err != nil {
		o.b.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		o.b.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

// everyRoute edits every route with a chain in a table. fn gets what the route says to the
// filter, too.
func everyRoute(b *testing.B, table *routev3.RouteConfiguration, fn func(*routev3.Route, *contract.Carried) []*routev3.Route) *routev3.RouteConfiguration {
	b.Helper()
	out, _ := proto.Clone(table).(*routev3.RouteConfiguration)
	for _, v := range out.VirtualHosts {
		everyAction(v.Matcher, func(c *xdscorev3.TypedExtensionConfig) {
			m, err := c.TypedConfig.UnmarshalNew()
			if err != nil {
				b.Fatal(err)
			}
			r, ok := m.(*routev3.Route)
			if !ok || saidBy(b, r) == nil {
				return
			}
			routes := fn(r, saidBy(b, r))
			m = routes[0]
			if len(routes) > 1 {
				m = &routev3.RouteList{Routes: routes}
			}
			if c.TypedConfig, err = anypb.New(m); err != nil {
				b.Fatal(err)
			}
		})
	}
	return out
}

func everyAction(m *xdsmatcherv3.Matcher, fn func(*xdscorev3.TypedExtensionConfig)) {
	follow := func(on *xdsmatcherv3.Matcher_OnMatch) {
		switch {
		case on.GetMatcher() != nil:
			everyAction(on.GetMatcher(), fn)
		case on.GetAction() != nil:
			fn(on.GetAction())
		}
	}
	for _, e := range m.GetMatcherList().GetMatchers() {
		follow(e.OnMatch)
	}
	for _, on := range m.GetMatcherTree().GetPrefixMatchMap().GetMap() {
		follow(on)
	}
	follow(m.GetOnNoMatch())
}

// forms are the compared ways of carrying chains and of stripping prefixes.
var forms = []struct {
	name string
	edit func(*testing.B, *routev3.RouteConfiguration) *routev3.RouteConfiguration
}{
	{"as_planned", func(_ *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration { return t }},
	{"all_chains_differ", allDiffer},
	{"expression", func(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
		return everyRoute(b, t, func(r *routev3.Route, said *contract.Carried) []*routev3.Route {
			return []*routev3.Route{withExpression(r, said)}
		})
	}},
	{"two_entries", func(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
		return everyRoute(b, t, func(r *routev3.Route, said *contract.Carried) []*routev3.Route {
			inside, other := clone(r), clone(r)
			inside.Match.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: r.Match.GetPrefix() + "/"}
			inside.GetRoute().PrefixRewrite, other.GetRoute().PrefixRewrite = said.Strip.Base+"/", said.Strip.Base
			return []*routev3.Route{inside, other}
		})
	}},
	{"own_configuration", func(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
		return withConfigurations(b, t, func(r *routev3.Route, _ *contract.Carried) *routev3.Route { return r })
	}},
	{"own_configuration_and_expression", func(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
		return withConfigurations(b, t, withExpression)
	}},
	{"no_chain_with_expression", func(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
		return withoutChains(b, t, withExpression)
	}},
	{"no_chain", func(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
		return withoutChains(b, t, func(r *routev3.Route, _ *contract.Carried) *routev3.Route { return r })
	}},
}

// withExpression lets Envoy strip the prefix.
func withExpression(r *routev3.Route, said *contract.Carried) *routev3.Route {
	j := joinStripped(r.Match.GetPrefix(), said.Strip.Base)
	r.GetRoute().RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
		Pattern: &matcherv3.RegexMatcher{Regex: j.pattern}, Substitution: j.substitution,
	}
	return r
}

// withConfigurations gives every route a configuration of the filter with its chain, which
// names the route.
func withConfigurations(b *testing.B, t *routev3.RouteConfiguration, strip func(*routev3.Route, *contract.Carried) *routev3.Route) *routev3.RouteConfiguration {
	b.Helper()
	chains := encodedChains(b, t)
	out := withoutChains(b, t, func(r *routev3.Route, said *contract.Carried) *routev3.Route {
		config, err := chain.PerRoute(forRoute(b, chains[said.Content], r.Name))
		if err != nil {
			b.Fatal(err)
		}
		packed, err := anypb.New(config)
		if err != nil {
			b.Fatal(err)
		}
		r.TypedPerFilterConfig = map[string]*anypb.Any{contract.FilterName: packed}
		return strip(r, said)
	})
	return out
}

// withoutChains leaves the filter without chains.
func withoutChains(b *testing.B, t *routev3.RouteConfiguration, strip func(*routev3.Route, *contract.Carried) *routev3.Route) *routev3.RouteConfiguration {
	b.Helper()
	out := everyRoute(b, t, func(r *routev3.Route, said *contract.Carried) []*routev3.Route {
		r.Metadata.FilterMetadata[contract.MetadataNamespace].Fields[contract.MetaFilter] = structpb.NewStringValue(contract.NoChain)
		return []*routev3.Route{strip(r, said)}
	})
	out.TypedPerFilterConfig = nil
	return out
}

// allDiffer gives every route a chain of its own.
func allDiffer(b *testing.B, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	b.Helper()
	was, all := encodedChains(b, t), map[string][]byte{}
	out := everyRoute(b, t, func(r *routev3.Route, said *contract.Carried) []*routev3.Route {
		mine := forRoute(b, was[said.Content], r.Name)
		all[string(mine)], said.Content = mine, contract.ChainContent(mine)
		r.Metadata.FilterMetadata[contract.MetadataNamespace].Fields[contract.MetaFilter] = structpb.NewStringValue(said.String())
		return []*routev3.Route{r}
	})
	var err error
	if out.TypedPerFilterConfig, err = carried(all); err != nil {
		b.Fatal(err)
	}
	return out
}

// forRoute returns a chain that names a route.
func forRoute(b *testing.B, encoded []byte, route string) []byte {
	b.Helper()
	c, err := contract.ParseChain(encoded)
	if err != nil {
		b.Fatal(err)
	}
	c.Route = route
	out, err := c.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkRoutesUpdate replaces a table in a running Envoy and waits until Envoy answers from
// the new one.
func BenchmarkRoutesUpdate(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		for _, c := range forms {
			b.Run(fmt.Sprintf("routes=%d/%s", n, c.name), func(b *testing.B) {
				w := newWorld(b)
				fill(w, 1, n, 0, true)
				set := NewPlanner(Params{Address: "127.0.0.1", HTTPPort: freePort(b)}).Plan(w.state()).Set
				table := c.edit(b, tableOf(b, set))
				o := observe(b, set, table)
				version := 0
				start := o.cpu(false)
				for b.Loop() {
					version++
					o.write(table, version)
					until := time.Now().Add(time.Minute)
					for o.ask("other.test", "/none") != strconv.Itoa(version) {
						if time.Now().After(until) {
							b.Fatal("the table was not taken")
						}
					}
				}
				b.ReportMetric(float64((o.cpu(false)-start).Microseconds())/1000/float64(version), "main-ms/op")
				b.ReportMetric(o.rss(), "rss-MB")
				b.ReportMetric(float64(proto.Size(table))/(1<<20), "table-MB")
			})
		}
	}
}

// BenchmarkRoutesLookup requests a path that no route has, which is the longest way through a
// table, and the last route, whose chain refuses the request.
func BenchmarkRoutesLookup(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		w := newWorld(b)
		fill(w, 1, n, 0, true)
		set := NewPlanner(Params{Address: "127.0.0.1", HTTPPort: freePort(b)}).Plan(w.state()).Set
		for name, path := range map[string]string{"miss": "/none", "refused": fmt.Sprintf("/route/%d", n-1)} {
			b.Run(fmt.Sprintf("routes=%d/%s", n, name), func(b *testing.B) {
				o := observe(b, set, tableOf(b, set))
				for range 2000 {
					o.ask("h0.test", path)
				}
				start, asked := o.cpu(true), 0
				for b.Loop() {
					o.ask("h0.test", path)
					asked++
				}
				b.ReportMetric(float64((o.cpu(true)-start).Nanoseconds())/1000/float64(asked), "cpu-us/op")
			})
		}
	}
}

// BenchmarkRoutesWithoutHosts starts Envoy with 1,000 hosts of one route each and 100 routes
// without hosts, with and without merged virtual hosts.
func BenchmarkRoutesWithoutHosts(b *testing.B) {
	for name, copies := range map[string]int{"merged": mostCopies, "apart": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			fill(w, 1000, 1, 100, true)
			p := NewPlanner(Params{Address: "127.0.0.1", HTTPPort: freePort(b)})
			p.copies = copies
			set := p.Plan(w.state()).Set
			table := tableOf(b, set)
			o := observe(b, set, table)
			b.ReportMetric(float64(o.cpu(true).Milliseconds()), "start-cpu-ms")
			asked := 0
			start := o.cpu(true)
			for b.Loop() {
				o.ask(fmt.Sprintf("h%d.test", asked%1000), "/none")
				asked++
			}
			b.ReportMetric(float64((o.cpu(true)-start).Nanoseconds())/1000/float64(asked), "cpu-us/op")
			b.ReportMetric(o.rss(), "rss-MB")
			b.ReportMetric(float64(proto.Size(table))/(1<<20), "table-MB")
			b.ReportMetric(float64(len(table.VirtualHosts)), "vhosts")
		})
	}
}

// BenchmarkRoutesPlan changes one of many routes and plans.
func BenchmarkRoutesPlan(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			w := newWorld(b)
			fill(w, 1, n, 0, true)
			views := view.New(w.store, nil, slog.New(slog.DiscardHandler))
			defer views.Close()
			scope, err := views.ControlPlane(b.Context(), model.DefaultControlPlane)
			if err != nil {
				b.Fatal(err)
			}
			wake := make(chan struct{}, 1)
			changes := scope.Subscribe(wake)
			defer changes.Close()
			p := NewPlanner(testParams)
			set := p.Plan(changes.Take().State).Set
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				w.put(gateway.Routes, id(2, n/2), 1, routeSpec(id(1, 0), fmt.Sprintf("/other/%d", i)))
				<-wake
				g := changes.Take().State
				b.StartTimer()
				set = p.Plan(g).Set
			}
			b.ReportMetric(float64(len(set.Get(resource.Route, tableName).Body))/(1<<20), "table-MB")
		})
	}
}
