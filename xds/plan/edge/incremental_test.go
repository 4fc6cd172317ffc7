package edge

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

// driver makes random changes to a control plane. The planner follows its view, in which
// unchanged objects keep their pointers; by these pointers the planner recognises its cells.
type driver struct {
	*world
	rt      *rapid.T
	changes *view.Subscription[*view.Gateway]
	wake    chan struct{}
	// services and upstreams hold what was last written.
	services  map[int]*gateway.Service
	upstreams map[int]*gateway.Upstream
}

func newDriver(rt *rapid.T) *driver {
	d := &driver{world: newWorld(rt), rt: rt, wake: make(chan struct{}, 1), services: map[int]*gateway.Service{}, upstreams: map[int]*gateway.Upstream{}}
	views := view.New(d.store, nil, slog.New(slog.DiscardHandler))
	rt.Cleanup(views.Close)
	scope, err := views.ControlPlane(d.ctx(), model.DefaultControlPlane)
	if err != nil {
		rt.Fatal(err)
	}
	d.changes = scope.Subscribe(d.wake)
	return d
}

// follow waits until the view shows the last write.
func (d *driver) follow() *view.Gateway {
	late := time.After(patience)
	for {
		g := d.changes.Take().State
		if g.Revision() >= d.written {
			return g
		}
		select {
		case <-d.wake:
		case <-late:
			d.rt.Fatalf("the view shows revision %d and not %d", g.Revision(), d.written)
		}
	}
}

// few is the number of objects of each kind.
const few = 3

func pick[T any](d *driver, of ...T) T { return rapid.SampledFrom(of).Draw(d.rt, "pick") }

// offer writes an object. The store may refuse it for a missing reference or a name that is
// taken.
func (d *driver) offer(k *model.Kind, id string, created int64, spec any) {
	if err := d.write(k, id, created, spec); fault.CodeOf(err) == fault.Internal {
		d.rt.Fatalf("put %s %s: %v", k.Name, id, err)
	}
}

func (d *driver) n() int    { return rapid.IntRange(0, few-1).Draw(d.rt, "n") }
func (d *driver) yes() bool { return rapid.Bool().Draw(d.rt, "yes") }

// maybe returns the id of an object of a kind, or no id.
func (d *driver) maybe(kind int) string {
	if d.yes() {
		return ""
	}
	return id(kind, d.n())
}

// service changes one aspect of a service, or starts with a new one. Changing two aspects at
// once would hide that the planner misses one of them.
func (d *driver) service() {
	n := d.n()
	s := *serviceSpec("")
	if old := d.services[n]; old != nil {
		s = *old
	}
	switch pick(d, 0, 1, 2, 3, 4, 5, 6, 7) {
	case 0:
		s.Host = pick(d, "127.0.0.1", "named.test", "pool0.test", "pool1.test")
	case 1:
		s.Port, s.Path = pick(d, 9000, 9001), pick(d, "", "/s")
	case 2:
		s.Protocol, s.ClientCertificate, s.CACertificates, s.TLSVerify = pick(d, "http", "https", "grpc"), "", nil, nil
	case 3:
		s.ConnectTimeout = pick(d, 1000, 2000)
	case 4:
		s.ReadTimeout, s.Retries = pick(d, 1000, 2000), pick(d, 0, 5)
	case 5:
		s.Enabled = !s.Enabled
	default:
		if s.Protocol = "https"; d.yes() {
			s.ClientCertificate = d.maybe(7)
		} else if s.CACertificates = nil; d.yes() {
			s.CACertificates = []string{id(9, d.n())}
		}
		s.TLSVerify = new(d.yes())
	}
	if d.write(gateway.Services, id(1, n), 1, &s) == nil {
		d.services[n] = &s
	}
}

func (d *driver) route() {
	n := d.n()
	r := drawRoute(d.rt, n, [2]int{8000, 8443})
	r.spec.Service = d.maybe(1)
	d.offer(gateway.Routes, id(2, n), r.created, r.spec)
}

// plugin writes a plugin instance of any kind, for any target.
func (d *driver) plugin() {
	p := &gateway.Plugin{Route: d.maybe(2), Service: d.maybe(1), Enabled: pick(d, true, true, false), Protocols: []string{"http", "https"}}
	// The number determines the kind, because two instances of one kind on one target would
	// clash.
	n := d.n()
	var config any
	switch p.Name = []string{gateway.PluginOAuth2, gateway.PluginKeyAuth, gateway.PluginRequestTermination}[n]; p.Name {
	case gateway.PluginOAuth2:
		config = gateway.OAuth2Config{AuthHeaderName: "authorization", PKCE: "lax", Realm: pick(d, "a", "b"), GlobalCredentials: d.yes(), Anonymous: d.maybe(4)}
	case gateway.PluginKeyAuth:
		config = gateway.KeyAuthConfig{KeyNames: []string{pick(d, "apikey", "key")}, KeyInHeader: true, Anonymous: d.maybe(4)}
	default:
		p.Consumer = d.maybe(4)
		config = gateway.TerminationConfig{StatusCode: pick(d, 403, 503), Message: pick(d, "", "no")}
	}
	body, err := json.Marshal(config)
	if err != nil {
		d.rt.Fatal(err)
	}
	p.Config = body
	d.offer(gateway.Plugins, id(3, n), 1, p)
}

// upstream changes one aspect of an upstream.
func (d *driver) upstream() {
	n := d.n()
	u := gateway.Upstream{Name: fmt.Sprintf("pool%d.test", n), Algorithm: gateway.RoundRobin, HashOn: gateway.HashIP, Slots: 100}
	if old := d.upstreams[n]; old != nil {
		u = *old
	}
	switch pick(d, 0, 1, 2, 3, 4) {
	case 0:
		u.Algorithm = pick(d, gateway.RoundRobin, gateway.LeastConnections, gateway.ConsistentHashing)
	case 1:
		u.Slots = pick(d, 100, 1000)
	case 2:
		u.HostHeader = pick(d, "", "host.test")
	case 3:
		u.ClientCertificate = d.maybe(7)
	default:
		u.Healthchecks.Threshold = pick(d, 0.0, 50)
	}
	if d.write(gateway.Upstreams, id(5, n), 1, &u) == nil {
		d.upstreams[n] = &u
	}
}

func (d *driver) target() {
	n := d.n()
	d.offer(gateway.Targets, id(6, n), 1, &gateway.UpstreamTarget{
		Upstream: id(5, d.n()), Target: fmt.Sprintf("%s:8%d", pick(d, "10.0.0.1", "10.0.0.2", "named.test"), n), Weight: pick(d, 0, 1, 5),
	})
}

func (d *driver) certificate() {
	c := &gateway.Certificate{Cert: pick(d, "c", "d"), Key: "k"}
	if d.yes() {
		c.CertAlt, c.KeyAlt = "e", "f"
	}
	d.offer(gateway.Certificates, id(7, d.n()), 1, c)
}

// identity writes a server name, an authority, a consumer or a consumer's key.
func (d *driver) identity() {
	n := d.n()
	switch pick(d, 0, 1, 2, 3) {
	case 0:
		d.offer(gateway.SNIs, id(8, n), 1, &gateway.SNI{Name: pick(d, "", "*.") + fmt.Sprintf("s%d.test", n), Certificate: id(7, d.n())})
	case 1:
		d.offer(gateway.CACertificates, id(9, n), 1, &gateway.CACertificate{Cert: pick(d, "a", "b"), CertDigest: fmt.Sprint(n)})
	case 2:
		d.offer(gateway.Consumers, id(4, n), 1, &gateway.Consumer{Username: fmt.Sprint("u", n), CustomID: pick(d, "", "x") + fmt.Sprint(n)})
	default:
		d.offer(gateway.Keys, id(10, n), 1, &gateway.Key{Consumer: id(4, d.n()), Key: fmt.Sprint("key", n)})
	}
}

func (d *driver) remove() {
	kinds := []*model.Kind{
		nil, gateway.Services, gateway.Routes, gateway.Plugins, gateway.Consumers, gateway.Upstreams, gateway.Targets,
		gateway.Certificates, gateway.SNIs, gateway.CACertificates, gateway.Keys,
	}
	kind := rapid.IntRange(1, len(kinds)-1).Draw(d.rt, "kind")
	d.drop(kinds[kind], id(kind, d.n()))
}

// TestIncrementalEqualsFromNothing randomly edits everything that gateways consist of, and
// compares a planner with memory with a new one.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDriver(rt)
		p := NewPlanner(testParams)
		steps := map[string]func(*rapid.T){}
		for name, step := range map[string]func(){
			"service": d.service, "route": d.route, "plugin": d.plugin, "upstream": d.upstream, "target": d.target,
			"certificate": d.certificate, "identity": d.identity, "remove": d.remove,
			"": func() {
				g := d.follow()
				if err := p.Check(g, p.Plan(g)); err != nil {
					rt.Fatal(err)
				}
			},
		} {
			steps[name] = func(*rapid.T) { step() }
		}
		rt.Repeat(steps)
	})
}

// TestCheckNotices: Check fails for a result that does not fit the state, but not for one in
// which a failed cell was kept.
func TestCheckNotices(t *testing.T) {
	w := newWorld(t)
	manyRoutes(w, 2)
	p := NewPlanner(testParams)
	old := p.Plan(w.state())
	if err := p.Check(w.state(), old); err != nil {
		t.Error(err)
	}
	w.drop(gateway.Routes, id(2, 1))
	if err := p.Check(w.state(), old); err == nil {
		t.Error("a stale result passes")
	}
	old.Failures = []plan.Failure{{Cell: "x", Kept: true}}
	if err := p.Check(w.state(), old); err != nil {
		t.Errorf("what stays as it was is taken for a mistake: %v", err)
	}
}
