package census_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rule is a typical policy.
type rule struct {
	model.Labelled
	mesh.Connection
}

var rules = model.Describe(rule{}, model.Kind{
	Name: "rule", Path: "rules", Scoping: model.Mesh,
	Document: &model.Document{Type: "Rule", Singular: "Rule", Plural: "Rules", Policy: true},
})

func kinds() []*model.Kind { return append(mesh.Kinds(), rules) }

// failing is a test, or one run of a property.
type failing interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is a store with insights and a census that can be started anew.
type world struct {
	t        failing
	store    store.Store
	status   store.Status
	insights *insight.Insights
	census   *census.Census
	log      slog.Handler // of the census
	stop     context.CancelFunc
	done     chan error
	streams  map[string][]uint64
	number   uint64
}

// newWorld returns a world whose store remembers so many events, 0 = many.
func newWorld(t failing, history int) *world {
	w := &world{t: t, store: memstore.Open(memstore.Options{History: history}), status: memstore.NewStatus(), streams: map[string][]uint64{}, log: slog.DiscardHandler}
	w.begin()
	return w
}

// begin starts what a process starts.
func (w *world) begin() {
	w.census = census.New(census.Options{
		Store: w.store, Kinds: kinds(), Log: slog.New(w.log),
		Insight: func(m, d string) *insight.DataplaneInsight {
			in, _, _ := w.insights.Read(context.Background(), m, d)
			return in
		},
		Online: w.online,
	})
	var err error
	w.insights, err = insight.Open(context.Background(), insight.Options{Store: w.status, Changed: w.census.Changed, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, make(chan error, 1)
	go func() { w.done <- w.census.Run(ctx) }()
}

// online is whether a zone whose name says so, or a proxy of a zone, is connected.
func (w *world) online(k *model.Kind, name string) bool {
	if k == mesh.Zones {
		return strings.HasPrefix(name, "on")
	}
	in, _, err := w.insights.Read(context.Background(), mesh.ZoneNodeScope(mesh.ZoneProxyOf(k.Name)), name)
	w.must(err)
	return in.Online()
}

// end ends it, as a process does.
func (w *world) end() {
	w.must(w.insights.Close(context.Background()))
	w.stop()
	if err := <-w.done; !errors.Is(err, context.Canceled) {
		w.t.Fatalf("%v", err)
	}
	w.streams = map[string][]uint64{}
}

func (w *world) close() {
	w.end()
	w.must(errors.Join(w.store.Close(), w.status.Close()))
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

// write runs one transaction. What is not there or already is changes nothing.
func (w *world) write(f func(store.Tx) error) {
	_, err := w.store.Update(context.Background(), model.Config, f)
	if c := fault.CodeOf(err); err != nil && c != fault.NotFound && c != fault.Exists {
		w.must(err)
	}
}

func (w *world) put(k *model.Kind, scope, name string, spec any) {
	w.write(func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		_, err := tx.Update(r, 0)
		if fault.Is(err, fault.NotFound) {
			_, err = tx.Create(r)
		}
		return err
	})
}

func (w *world) remove(k *model.Kind, scope, name string) {
	w.write(func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) })
}

// removeMesh deletes a mesh with everything in it in one transaction.
func (w *world) removeMesh(name string) {
	w.write(func(tx store.Tx) error {
		for _, k := range kinds() {
			if k.Scoping != model.Mesh {
				continue
			}
			all, err := tx.List(k, store.Query{Scope: name})
			if err != nil {
				return err
			}
			for _, r := range all {
				if err := tx.Delete(k, name, r.Name, 0); err != nil {
					return err
				}
			}
		}
		return tx.Delete(mesh.Meshes, "", name, 0)
	})
}

func (w *world) connect(m, d string) { w.open(mesh.NodeID(m, d)) }

func (w *world) disconnect(m, d string) { w.shut(mesh.NodeID(m, d)) }

func (w *world) open(node string) {
	w.number++
	w.streams[node] = append(w.streams[node], w.number)
	w.insights.Connected(server.Event{Node: node, Stream: w.number})
}

func (w *world) shut(node string) {
	if open := w.streams[node]; len(open) > 0 {
		w.insights.Disconnected(server.Event{Node: node, Stream: open[0]})
		w.streams[node] = open[1:]
	}
}

// now returns the census of this moment.
func (w *world) now() *census.State {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, _, err := w.census.Now(ctx)
	w.must(err)
	return s
}

// recounted is everything that a census shows, counted by listing.
type recounted struct {
	Meshes   map[string]census.MeshInsight
	Services map[string]census.ServiceInsight
	Global   map[string]census.Total
	All      census.All
	Zones    map[string]bool
}

// shown is what the census shows.
func (w *world) shown() recounted {
	s := w.now()
	out := recounted{Meshes: map[string]census.MeshInsight{}, Services: map[string]census.ServiceInsight{}, Zones: map[string]bool{}}
	var names []string
	for _, m := range s.Meshes() {
		names = append(names, m.Insight().Name)
		out.Meshes[m.Insight().Name] = *m.Insight()
		for _, svc := range m.Services() {
			out.Services[svc.Mesh+"/"+svc.Name] = *svc
			if found, err := m.Service(svc.Name); err != nil || found != svc {
				w.t.Fatalf("service %s: %v", svc.Name, err)
			}
		}
		if found, err := s.Mesh(m.Insight().Name); err != nil || found != m {
			w.t.Fatalf("mesh %s: %v", m.Insight().Name, err)
		}
	}
	if !slices.IsSorted(names) {
		w.t.Fatalf("meshes in the order %v", names)
	}
	for _, z := range s.Zones() {
		out.Zones[z.Name] = z.Active
	}
	out.Global, out.All = s.Global(time.Time{}).Resources, *s.All(time.Time{})
	return out
}

// recount lists the store. It shares no code with the census but the types.
func (w *world) recount() recounted {
	out := recounted{Meshes: map[string]census.MeshInsight{}, Services: map[string]census.ServiceInsight{}, Global: map[string]census.Total{}, Zones: map[string]bool{}}
	out.All.Resources = map[string]census.Total{}
	w.must(w.store.View(context.Background(), func(r store.Reader) error {
		for _, k := range kinds() {
			if k.Document == nil || k.Scoping != model.Global {
				continue
			}
			n, err := r.Count(k, store.Query{})
			if err != nil {
				return err
			}
			out.Global[k.Document.Type] = census.Total{Total: n}
			if n > 0 {
				out.All.Resources[k.Document.Type] = census.Total{Total: n}
			}
		}
		zones, err := r.List(mesh.Zones, store.Query{})
		if err != nil {
			return err
		}
		for _, z := range zones {
			online := strings.HasPrefix(z.Name, "on")
			out.Zones[z.Name] = online && z.Spec.(*mesh.Zone).IsEnabled()
			out.All.Zones.ControlPlanes.Total++
			if online {
				out.All.Zones.ControlPlanes.Online++
			}
		}
		for k, p := range map[*model.Kind]*census.Present{mesh.ZoneIngresses: &out.All.Zones.ZoneIngresses, mesh.ZoneEgresses: &out.All.Zones.ZoneEgresses} {
			all, err := r.List(k, store.Query{})
			if err != nil {
				return err
			}
			for _, res := range all {
				if p.Total++; w.online(k, res.Name) {
					p.Online++
				}
			}
		}
		meshes, err := r.List(mesh.Meshes, store.Query{})
		if err != nil {
			return err
		}
		out.All.Meshes.Total = len(meshes)
		for _, m := range meshes {
			if err := w.recountMesh(r, m, &out); err != nil {
				return err
			}
		}
		return nil
	}))
	return out
}

func (w *world) recountMesh(r store.Reader, m *model.Resource, out *recounted) error {
	in := census.MeshInsight{
		Type: "MeshInsight", Name: m.Name, CreationTime: m.Created.UTC(), Policies: map[string]census.Total{}, Resources: map[string]census.Total{},
		Versions: census.Versions{Agent: map[string]census.Counts{}, Proxy: map[string]census.Counts{}},
		MTLS:     census.Backends{Issued: map[string]census.Counts{}, Supported: map[string]census.Counts{}},
	}
	for _, k := range kinds() {
		if k.Document == nil || k.Scoping != model.Mesh {
			continue
		}
		n, err := r.Count(k, store.Query{Scope: m.Name})
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		in.Resources[k.Document.Type] = census.Total{Total: n}
		out.All.Resources[k.Document.Type] = census.Total{Total: out.All.Resources[k.Document.Type].Total + n}
		if k.Document.Policy || k == mesh.ExternalServices {
			in.Policies[k.Document.Type] = census.Total{Total: n}
			out.All.Policies.Total += n
		}
	}
	dataplanes, err := r.List(mesh.Dataplanes, store.Query{Scope: m.Name})
	if err != nil {
		return err
	}
	// what each service has: the states of dataplanes by type, backends, zones
	type seen struct {
		states    map[string][]string
		issued    map[string]int
		zones     []string
		externals []string
	}
	services := map[string]*seen{}
	at := func(name string) *seen {
		if services[name] == nil {
			services[name] = &seen{states: map[string][]string{}, issued: map[string]int{}}
		}
		return services[name]
	}
	for _, res := range dataplanes {
		d := res.Spec.(*mesh.Dataplane)
		known, _, err := w.insights.Read(context.Background(), m.Name, res.Name)
		if err != nil {
			return err
		}
		state := insight.Status(d, known)
		count := func(c census.Counts) census.Counts {
			c.Total++
			switch state {
			case insight.Online:
				c.Online++
			case insight.Offline:
				c.Offline++
			case insight.PartiallyDegraded:
				c.PartiallyDegraded++
			}
			return c
		}
		full := func(f *census.Full) {
			c := count(census.Counts{Total: f.Total, Online: f.Online, Offline: f.Offline, PartiallyDegraded: f.PartiallyDegraded})
			*f = census.Full{Online: c.Online, Offline: c.Offline, PartiallyDegraded: c.PartiallyDegraded, Total: c.Total}
		}
		in.Dataplanes = count(in.Dataplanes)
		agent, proxy := "unknown", "unknown"
		if last := known.Last(); last != nil && last.Version != nil {
			agent, proxy = last.Version.MeshDP.Version, last.Version.Proxy.Version
		}
		in.Versions.Agent[agent], in.Versions.Proxy[proxy] = count(in.Versions.Agent[agent]), count(in.Versions.Proxy[proxy])
		issued := ""
		if known != nil && known.MTLS != nil {
			issued = known.MTLS.IssuedBackend
			in.MTLS.Issued[issued] = count(in.MTLS.Issued[issued])
			for _, b := range known.MTLS.SupportedBackends {
				in.MTLS.Supported[b] = count(in.MTLS.Supported[b])
			}
		}
		serves := map[string]map[string]bool{} // by type
		serve := func(typ string, tags mesh.Tags) {
			s := at(tags.Service())
			if serves[typ] == nil {
				serves[typ] = map[string]bool{}
			}
			if !serves[typ][tags.Service()] {
				serves[typ][tags.Service()] = true
				s.states[typ] = append(s.states[typ], state)
				if issued != "" {
					s.issued[issued]++
				}
			}
			if z := tags[mesh.TagZone]; z != "" && !slices.Contains(s.zones, z) {
				s.zones = append(s.zones, z)
			}
		}
		switch g := d.Networking.Gateway; {
		case g == nil:
			in.ByType.Standard = count(in.ByType.Standard)
			full(&out.All.Dataplanes.Standard)
			for _, i := range d.Networking.Inbound {
				if i.State != mesh.StateIgnored {
					serve("internal", i.Tags)
				}
			}
		case g.Type == mesh.GatewayBuiltin:
			in.ByType.GatewayBuiltin, in.ByType.Gateway = count(in.ByType.GatewayBuiltin), count(in.ByType.Gateway)
			full(&out.All.Dataplanes.GatewayBuiltin)
			serve("gateway_builtin", g.Tags)
		default:
			in.ByType.GatewayDelegated, in.ByType.Gateway = count(in.ByType.GatewayDelegated), count(in.ByType.Gateway)
			full(&out.All.Dataplanes.GatewayDelegated)
			serve("gateway_delegated", g.Tags)
		}
	}
	in.Services.Internal = len(services)
	externals, err := r.List(mesh.ExternalServices, store.Query{Scope: m.Name})
	if err != nil {
		return err
	}
	for _, res := range externals {
		x := res.Spec.(*mesh.ExternalService)
		at(x.Tags.Service()).externals = append(at(x.Tags.Service()).externals, x.Networking.Address)
	}
	in.Services.External = len(externals)
	in.Services.Total = in.Services.Internal + in.Services.External
	out.Meshes[m.Name] = in
	for name, s := range services {
		svc := census.ServiceInsight{Type: "ServiceInsight", Mesh: m.Name, Name: name, CreationTime: m.Created.UTC(), Issued: s.issued, Status: "not_available"}
		slices.Sort(s.zones)
		svc.Zones = s.zones
		for _, states := range s.states {
			for _, state := range states {
				svc.Dataplanes.Total++
				if state == insight.Online {
					svc.Dataplanes.Online++
				} else {
					svc.Dataplanes.Offline++
				}
			}
		}
		total := &out.All.Services.Internal
		switch {
		case len(s.states["internal"]) > 0:
			svc.AddressPort = name + ".mesh:80"
		case len(s.states["gateway_builtin"]) > 0:
			svc.ServiceType, total = "gateway_builtin", &out.All.Services.GatewayBuiltin
		case len(s.states["gateway_delegated"]) > 0:
			svc.ServiceType, total = "gateway_delegated", &out.All.Services.GatewayDelegated
		default:
			svc.ServiceType, svc.AddressPort, total = "external", s.externals[0], &census.Full{}
			out.All.Services.External.Total++
		}
		total.Total++
		switch d := svc.Dataplanes; {
		case d.Total == 0:
		case d.Online == d.Total:
			svc.Status = "online"
			total.Online++
		case d.Online == 0:
			svc.Status = "offline"
			total.Offline++
		default:
			svc.Status = "partially_degraded"
			total.PartiallyDegraded++
		}
		out.Services[m.Name+"/"+name] = svc
	}
	return nil
}

// times are those that a recount cannot know.
var times = cmp.Options{
	cmpopts.IgnoreFields(census.MeshInsight{}, "ModificationTime", "LastSync"), cmpopts.IgnoreFields(census.ServiceInsight{}, "ModificationTime"),
}

// compare fails the test if the census shows something else than a recount.
func (w *world) compare(when string) {
	w.t.Helper()
	if d := cmp.Diff(w.recount(), w.shown(), cmpopts.EquateEmpty(), times); d != "" {
		w.t.Fatalf("%s (-recounted +census):\n%s", when, d)
	}
}

// TestCensusOfAnyHistory: after any changes of anything in any order, restarts and a feed that
// forgot included, the census shows what a recount shows.
func TestCensusOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, rapid.SampledFrom([]int{0, 3}).Draw(rt, "history"))
		defer w.close()
		w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
		pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(rt, label) }
		service := func() mesh.Tags {
			tags := mesh.Tags{mesh.TagService: pick("service", "web", "api", "edge")}
			if z := pick("zone", "", "east", "west"); z != "" {
				tags[mesh.TagZone] = z
			}
			return tags
		}
		dataplane := func() *mesh.Dataplane {
			d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1"}}
			switch g := pick("gateway", "", "", "BUILTIN", "DELEGATED"); g {
			case "":
				for range rapid.IntRange(1, 3).Draw(rt, "inbounds") {
					d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{
						Port: 80, Tags: service(), State: pick("state", "", "", mesh.StateReady, mesh.StateNotReady, mesh.StateIgnored),
					})
				}
			default:
				d.Networking.Gateway = &mesh.Gateway{Type: g, Tags: service()}
			}
			return d
		}
		for i := range rapid.IntRange(30, 60).Draw(rt, "steps") {
			m, name := pick("mesh", "m", "m", "n"), pick("name", "a", "b")
			step := pick("step", "mesh", "mesh", "unmesh", "dataplane", "dataplane", "dataplane", "undataplane", "rule", "unrule", "secret", "external", "external", "unexternal",
				"zone", "unzone", "ingress", "uningress", "egress", "unegress", "connect", "connect", "connect", "disconnect", "version", "issued", "forget",
				"open", "open", "shut", "restart", "quiet", "quiet")
			inMesh := true
			if w.store.View(context.Background(), func(r store.Reader) error { _, err := r.Get(mesh.Meshes, "", m); return err }) != nil {
				inMesh = false
			}
			switch {
			case step == "mesh":
				w.put(mesh.Meshes, "", m, &mesh.Mesh{})
			case step == "unmesh":
				w.removeMesh(m)
			case step == "zone":
				w.put(mesh.Zones, "", "on"+name, &mesh.Zone{Enabled: new(rapid.Bool().Draw(rt, "enabled"))})
				w.put(mesh.Zones, "", "off"+name, &mesh.Zone{})
			case step == "unzone":
				w.remove(mesh.Zones, "", "on"+name)
			case step == "ingress":
				w.put(mesh.ZoneIngresses, "", name, &mesh.ZoneIngress{})
				w.put(mesh.GlobalSecrets, "", name, &mesh.Secret{})
			case step == "uningress":
				w.remove(mesh.ZoneIngresses, "", name)
			case step == "egress":
				w.put(mesh.ZoneEgresses, "", name, &mesh.ZoneEgress{})
			case step == "unegress":
				w.remove(mesh.ZoneEgresses, "", name)
			case step == "connect":
				w.connect(m, name)
			case step == "disconnect":
				w.disconnect(m, name)
			case step == "open":
				w.open(mesh.ZoneNodeID(pick("proxy", mesh.ProxyIngress, mesh.ProxyEgress), name))
			case step == "shut":
				w.shut(mesh.ZoneNodeID(pick("proxy", mesh.ProxyIngress, mesh.ProxyEgress), name))
			case step == "version":
				w.insights.Described(mesh.NodeID(m, name), insight.Versions{
					MeshDP: insight.AgentVersion{Version: pick("agent", "1.0", "1.1")}, Proxy: insight.ProxyVersion{Version: "1.39"},
				})
			case step == "issued":
				w.insights.Issued(m, name, pick("backend", "ca-1", "ca-2"), time.Now().Add(time.Hour), time.Now())
			case step == "forget":
				w.insights.Forget(m, name)
			case step == "restart":
				w.end()
				w.begin()
			case step == "quiet":
				w.compare(fmt.Sprintf("after step %d", i))
			case !inMesh:
			case step == "dataplane":
				w.put(mesh.Dataplanes, m, name, dataplane())
			case step == "undataplane":
				w.remove(mesh.Dataplanes, m, name)
			case step == "rule":
				w.put(rules, m, name, &rule{})
			case step == "unrule":
				w.remove(rules, m, name)
			case step == "secret":
				w.put(mesh.Secrets, m, name, &mesh.Secret{})
			case step == "external":
				w.put(mesh.ExternalServices, m, name, &mesh.ExternalService{
					Networking: &mesh.ExternalNetworking{Address: pick("address", "x.example:1", "y.example:2")}, Tags: mesh.Tags{mesh.TagService: pick("external", "mail", "web")},
				})
			case step == "unexternal":
				w.remove(mesh.ExternalServices, m, name)
			}
			if rapid.Bool().Draw(rt, "settled") {
				w.now() // otherwise later changes may be counted with this one
			}
		}
		w.compare("at the end")
		w.end()
		w.begin()
		w.compare("after a restart")
	})
}
