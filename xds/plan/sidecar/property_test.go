package sidecar_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/meshtrafficpermission"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/policy/target"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// pluginID is the plugin instance that policies of the property tests name.
const pluginID = "2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11"

// plugged is a control plane that may be another the next time.
type plugged struct{ g *view.Gateway }

// Gateway implements policy.Outside.
func (p *plugged) Gateway(string) (*view.Gateway, error) { return p.g, nil }

// gateways are states of a control plane: none, without the plugin, and with it in
// several forms.
func gateways(t testing.TB) []*view.Gateway {
	t.Helper()
	out := []*view.Gateway{nil}
	for _, plugin := range []*gateway.Plugin{
		nil,
		{Enabled: true, Config: []byte(`{"auth_header_name":"authorization","global_credentials":true}`)},
		{Enabled: true, Config: []byte(`{"auth_header_name":"x-token","global_credentials":true}`)},
		{Enabled: true, Config: []byte(`{"auth_header_name":"authorization"}`)},
		{Config: []byte(`{"auth_header_name":"authorization","global_credentials":true}`)},
	} {
		db := memstore.New()
		_, err := db.Update(ctx, model.Config, func(tx store.Tx) error {
			if plugin == nil {
				return nil
			}
			plugin.Name = gateway.PluginOAuth2
			_, err := tx.Create(&model.Resource{Kind: gateway.Plugins, Scope: model.DefaultControlPlane, Name: pluginID, Spec: plugin})
			return err
		})
		var g *view.Gateway
		if err == nil {
			err = db.View(ctx, func(r store.Reader) (err error) {
				g, err = view.Load(model.DefaultControlPlane, r)
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		out = append(out, g)
	}
	return out
}

// driver makes random changes to a small mesh.
type driver struct {
	*world
	rt       *rapid.T
	outside  *plugged
	gateways []*view.Gateway
	samples  map[*model.Kind][]policytest.Sample
	joined   map[string]bool
	aspects  aspects
}

// aspects are the mesh as it was written last.
type aspects struct {
	mode, expiration, issuer string
	off, near, passthrough   bool
	// through says that other zones are called through egresses.
	through   bool
	withdrawn uint64
	// traced is the host of one of the tracing backends; there are none if it is empty.
	traced string
	// logged is the file of one of the logging backends; there are none if it is empty.
	logged string
	// scraped is the port at which proxies are scraped; none if it is 0.
	scraped uint32
}

var (
	fewNames    = []string{"a-1", "a-2", "b-1", "b-2", "c-1"}
	fewServices = []string{"a", "b", "c", "d"}
	anyService  = append([]string{mesh.AnyValue}, fewServices...)
	fewPolicies = []string{"x", "y"}
)

func pick[T any](d *driver, of ...T) T { return rapid.SampledFrom(of).Draw(d.rt, "pick") }

func (d *driver) yes() bool { return rapid.Bool().Draw(d.rt, "yes") }

// policy writes one of two policies of a kind.
func (d *driver) policy(k *model.Kind, spec any) { d.put(k, meshName, pick(d, fewPolicies...), spec) }

// connection is between any services. Its sources may ask for tags that proxies of one
// service differ in.
func (d *driver) connection() mesh.Connection {
	c := connection(pick(d, anyService...), pick(d, anyService...))
	if d.yes() {
		return c
	}
	for range pick(d, 1, 2) {
		tags := mesh.Tags{pick(d, "version", mesh.TagZone): pick(d, mesh.AnyValue, "v1", "east")}
		if d.yes() {
			tags[mesh.TagService] = pick(d, anyService...)
		}
		c.Sources = append(c.Sources, mesh.Selector{Match: tags})
	}
	return c
}

// dataplane writes a proxy, of which anything may be new.
func (d *driver) dataplane() {
	spec := dataplane("127.0.0."+pick(d, "1", "2", "3"), pick(d, fewServices...), pick(d, "http", "http", "grpc", "tcp", "http2"),
		pick(d, fewServices...), pick(d, fewServices...))
	in := &spec.Networking.Inbound[0]
	in.Tags["version"], in.Tags[mesh.TagZone], in.Tags["team"] = pick(d, "v1", "v2"), pick(d, "east", "west"), pick(d, "a", "b")
	in.State = pick(d, "", "", mesh.StateNotReady)
	in.ServiceProbe = pick(d, nil, nil, &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}, &mesh.ServiceProbe{Interval: mesh.Of(time.Minute), TCP: &mesh.TCPProbe{}})
	in.ServicePort, in.ServiceAddress = pick(d, uint32(9080), 9081), pick(d, "", "", "127.0.0.9")
	spec.Networking.AdvertisedAddress = pick(d, "", "", "proxy.example.test")
	spec.Networking.Outbound[0].Tags["version"] = pick(d, "v1", "v2")
	if d.yes() {
		spec.Networking.Outbound[0].Tags = mesh.Tags{mesh.TagService: pick(d, fewServices...)}
	}
	if pick(d, 0, 1, 2) == 0 {
		spec.Networking.Outbound[1].Tags = mesh.Tags{mesh.TagService: "door", mesh.TagMesh: pick(d, meshName, "office")}
		if d.yes() {
			spec.Networking.Outbound[1].Tags["version"] = "v1"
		}
	}
	if pick(d, 0, 1, 2) == 0 {
		spec.Networking.Outbound = nil
		spec.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortOutbound: pick(d, uint32(15001), 15002), RedirectPortInbound: pick(d, uint32(0), 15006), IPFamilyMode: pick(d, "", mesh.IPFamilyDual)}
		if d.yes() {
			spec.Networking.TransparentProxying.ReachableServices = []string{pick(d, fewServices...), "c"}
		}
		if d.yes() {
			spec.Networking.TransparentProxying.DirectAccessServices = []string{pick(d, anyService...), "c"}
		}
	}
	if pick(d, 0, 1, 2) == 0 {
		spec.Probes = &mesh.Probes{Port: pick(d, uint32(1234), 5670, 8080, 9000), Endpoints: []mesh.ProbeEndpoint{{InboundPort: pick(d, uint32(8080), 9080, 1), InboundPath: "/healthz", Path: pick(d, "/a", "/b")}}}
	}
	if pick(d, 0, 1, 2) == 0 {
		spec.Networking.Outbound = append(spec.Networking.Outbound, mesh.Outbound{Address: spec.Networking.Address, Port: pick(d, uint32(5670), 1234), Tags: mesh.Tags{mesh.TagService: "a"}})
	}
	if pick(d, 0, 1, 2, 3) == 0 {
		spec = entrance("127.0.0.5" + pick(d, "1", "2"))
		spec.Networking.Gateway.Tags["version"] = pick(d, "v1", "v2")
	}
	if pick(d, 0, 1, 2) == 0 {
		spec.Metrics = &mesh.MetricsBackend{Type: mesh.Prometheus, Conf: map[string]any{"port": pick(d, 1234.0, 8080, -1), "envoy": map[string]any{"usedOnly": d.yes()}}}
	}
	d.put(mesh.Dataplanes, meshName, pick(d, fewNames...), spec)
}

func (d *driver) timeout() {
	span := func() *mesh.Duration { return mesh.Of(time.Duration(pick(d, 1, 2)) * time.Second) }
	d.policy(timeout.Kind, &timeout.Spec{Connection: d.connection(), Conf: &timeout.Conf{
		ConnectTimeout: span(), TCP: &timeout.TCP{IdleTimeout: span()},
		HTTP: &timeout.HTTP{RequestTimeout: span(), StreamIdleTimeout: span()}, GRPC: &timeout.GRPC{MaxStreamDuration: span()},
	}})
}

func (d *driver) retry() {
	n := pick(d, uint32(1), 2)
	d.policy(retry.Kind, &retry.Spec{Connection: d.connection(), Conf: &retry.Conf{
		HTTP: &retry.HTTP{NumRetries: &n}, GRPC: &retry.GRPC{NumRetries: &n}, TCP: &retry.TCP{MaxConnectAttempts: n},
	}})
}

// elsewhere writes or deletes where a service is beyond the mesh.
func (d *driver) elsewhere() {
	name := pick(d, fewPolicies...)
	if there := len(slices.Collect(d.planner.State().Locates(outsideKind, name))) > 0; there && d.yes() {
		d.settle() // it may be gone
		if len(slices.Collect(d.planner.State().Locates(outsideKind, name))) > 0 {
			d.drop(outsideKind, name)
		}
		return
	}
	spec := outside(pick(d, "10.1.1.1:80", "x.example:80", "y.example:81"), pick(d, fewServices...), pick(d, "", rootCA))
	spec.Tags[mesh.TagProtocol], spec.Tags["version"] = pick(d, "http", "tcp"), pick(d, "v1", "v2")
	d.put(outsideKind, meshName, name, spec)
}

// external writes or deletes a service outside the mesh, in clear or with TLS.
func (d *driver) external() {
	name := pick(d, fewPolicies...)
	if pick(d, 0, 1, 2) == 0 {
		d.erase(mesh.ExternalServices, name)
		return
	}
	spec := external(pick(d, "192.0.2.1:80", "[2001:db8::1]:80", "x.example:80", "y.example:81"), pick(d, fewServices...), pick(d, "", rootCA))
	if t := spec.Networking.TLS; t != nil && d.yes() {
		source := pick(d, &mesh.DataSource{InlineString: &clientPEM}, &mesh.DataSource{Secret: "client"})
		t.ClientCert, t.ClientKey = source, source
		if t.CACert = pick(d, t.CACert, nil, &mesh.DataSource{Secret: "ca"}); d.yes() {
			d.put(mesh.Secrets, meshName, pick(d, "client", "ca"), &mesh.Secret{Data: []byte(pick(d, "", clientPEM, rootCA))})
		}
	}
	spec.Tags[mesh.TagProtocol], spec.Tags["version"] = pick(d, "http", "tcp", "grpc"), pick(d, "v1", "v2")
	d.put(mesh.ExternalServices, meshName, name, spec)
}

// route leads requests to versions of a service, or to another service by one of
// several balancers.
func (d *driver) route() {
	switch pick(d, 0, 1, 2) {
	case 0:
		d.policy(trafficroute.Kind, split(pick(d, fewServices...), 90, 10))
		return
	case 1:
		d.policy(trafficroute.Kind, halves(pick(d, fewServices...), pick(d, fewServices...)))
		return
	}
	d.policy(trafficroute.Kind, balanced(pick(d, fewServices...), pick(d, fewServices...), pick(d,
		trafficroute.LoadBalancer{}, trafficroute.LoadBalancer{Random: &struct{}{}}, trafficroute.LoadBalancer{LeastRequest: &trafficroute.LeastRequest{}})))
}

// ref refers to proxies in any way.
func (d *driver) ref() *target.Ref {
	r := &target.Ref{Kind: pick(d, target.Kinds()...)}
	if r.Kind == target.Service || r.Kind == target.ServiceSubset {
		r.Name = pick(d, fewServices...)
	}
	if r.Kind == target.Subset || r.Kind == target.ServiceSubset {
		r.Tags = mesh.Tags{"version": pick(d, "v1", "v2")}
	}
	return r
}

// tokens demands tokens by the plugin of the control plane, or by itself.
func (d *driver) tokens() {
	spec := &meshtokenauth.Spec{TargetRef: d.ref()}
	for range pick(d, 1, 2) {
		demanded := &meshtokenauth.Default{Plugin: &meshtokenauth.Plugin{ID: pluginID}}
		if pick(d, 0, 1, 2) == 0 {
			demanded = &meshtokenauth.Default{Config: &meshtokenauth.Config{GlobalCredentials: true, Realm: pick(d, "r", "s")}}
		}
		spec.From = append(spec.From, target.Item[meshtokenauth.Default]{TargetRef: pick(d, &target.Ref{Kind: target.Mesh}, d.ref()), Default: demanded})
	}
	if pick(d, 0, 1, 2) == 0 {
		spec.TargetRef = &target.Ref{Kind: target.Gateway, Name: pick(d, fewPolicies...), Tags: pick(d, nil, mesh.Tags{"port": "1"})}
	}
	d.policy(meshtokenauth.Kind, &meshtokenauth.Resource{Spec: spec})
}

// permits permits calls to the proxies of a target.
func (d *driver) permits() {
	spec := &meshtrafficpermission.Spec{TargetRef: d.ref()}
	for range pick(d, 1, 2) {
		spec.From = append(spec.From, target.Item[meshtrafficpermission.Conf]{TargetRef: d.ref(), Default: &meshtrafficpermission.Conf{
			Action: pick(d, meshtrafficpermission.Allow, meshtrafficpermission.Deny, meshtrafficpermission.AllowWithShadowDeny),
		}})
	}
	d.policy(meshtrafficpermission.Kind, &meshtrafficpermission.Resource{Spec: spec})
}

// rule writes or deletes a VirtualOutbound.
func (d *driver) rule() {
	name := pick(d, fewPolicies...)
	if pick(d, 0, 1, 2) == 0 {
		d.erase(mesh.VirtualOutbounds, name)
		return
	}
	d.put(mesh.VirtualOutbounds, meshName, name, virtualOutbound(
		pick(d, "{{.s}}.mesh", "{{.v}}.{{.s}}.mesh", "one.example"), pick(d, "80", "81"), mesh.Tags{mesh.TagService: pick(d, anyService...)}))
}

// gateway writes or deletes a MeshGateway.
func (d *driver) gateway() {
	name := pick(d, fewPolicies...)
	if pick(d, 0, 1, 2, 3) == 0 {
		d.erase(mesh.MeshGateways, name)
		return
	}
	match := mesh.Tags{mesh.TagService: pick(d, "edge", mesh.AnyValue)}
	if d.yes() {
		match["version"] = pick(d, "v1", mesh.AnyValue)
	}
	g := &mesh.MeshGateway{Selectors: []mesh.Selector{{Match: match}}, Conf: &mesh.MeshGatewayConf{}}
	secured := &mesh.GatewayTLS{Mode: mesh.TLSTerminate, Certificates: []mesh.DataSource{{Secret: pick(d, "server", "missing")}}}
	for i, host := range []string{"", "a.example", "*.example"} {
		l := mesh.GatewayListener{Port: pick(d, uint32(80), 1234, 5670), Protocol: mesh.ListenerHTTP, Hostname: host, Tags: mesh.Tags{"port": fmt.Sprint(i)}, CrossMesh: pick(d, false, false, true)}
		if d.yes() {
			g.Conf.Listeners = append(g.Conf.Listeners, l)
		}
		l.CrossMesh = false
		if l.Port, l.Protocol, l.TLS = 443, mesh.ListenerHTTPS, secured; d.yes() {
			g.Conf.Listeners = append(g.Conf.Listeners, l)
		}
		if l.Port, l.Protocol, l.TLS = 444, mesh.ListenerTLS, pick(d, secured, &mesh.GatewayTLS{Mode: mesh.TLSPassthrough}); d.yes() {
			g.Conf.Listeners = append(g.Conf.Listeners, l)
		}
	}
	g.Conf.Listeners = append(g.Conf.Listeners, mesh.GatewayListener{Port: 81, Protocol: mesh.ListenerTCP, Resources: &mesh.GatewayResources{ConnectionLimit: pick(d, uint32(0), 5)}})
	d.put(mesh.MeshGateways, meshName, name, g)
}

// gatewayRoute writes or deletes a MeshGatewayRoute.
func (d *driver) gatewayRoute() {
	name := pick(d, fewPolicies...)
	if pick(d, 0, 1, 2, 3) == 0 {
		d.erase(mesh.MeshGatewayRoutes, name)
		return
	}
	match := mesh.Tags{mesh.TagService: "edge"}
	if d.yes() {
		match["port"] = pick(d, "0", "1")
	}
	backend := func() mesh.GatewayBackend {
		b := mesh.GatewayBackend{Weight: pick(d, uint32(0), 1), Destination: mesh.Tags{mesh.TagService: pick(d, fewServices...)}}
		if d.yes() {
			b.Destination["version"] = pick(d, "v1", "v2")
		}
		return b
	}
	rule := mesh.HTTPGatewayRule{
		Matches:  []mesh.GatewayMatch{{Path: &mesh.GatewayPathMatch{Match: mesh.MatchPrefix, Value: pick(d, "/", "/a")}}},
		Backends: []mesh.GatewayBackend{backend(), backend()}, Filters: []mesh.GatewayFilter{{Rewrite: &mesh.GatewayRewrite{HostToBackendHostname: true}}},
	}
	if mirrored := backend(); d.yes() {
		rule.Filters = append(rule.Filters, mesh.GatewayFilter{Mirror: &mesh.GatewayMirror{Backend: &mirrored, Percentage: new(50.0)}})
	}
	r := &mesh.MeshGatewayRoute{Selectors: []mesh.Selector{{Match: match}}, Conf: &mesh.MeshGatewayRouteConf{}}
	if d.yes() {
		r.Conf.TCP = &mesh.TCPGatewayRoute{Rules: []mesh.TCPGatewayRule{{Backends: []mesh.GatewayBackend{backend(), backend()}}}}
	} else {
		r.Conf.HTTP = &mesh.HTTPGatewayRoute{Hostnames: pick(d, nil, []string{"a.example"}, []string{"b.example", "*.example"}), Rules: []mesh.HTTPGatewayRule{rule}}
	}
	d.put(mesh.MeshGatewayRoutes, meshName, name, r)
}

// certificate exchanges what gateways present, for another one or for what is none.
func (d *driver) certificate() {
	if pick(d, 0, 1, 2) == 0 {
		d.erase(mesh.Secrets, "server")
		return
	}
	d.put(mesh.Secrets, meshName, "server", &mesh.Secret{Data: []byte(pick(d, clientPEM, clientPEM, rootCA))})
}

// address stores or deletes the address of a name, as it would be or another one.
func (d *driver) address() {
	host := pick(d, "a.mesh", "b.mesh", "v1.a.mesh", "one.example")
	if pick(d, 0, 1, 2) == 0 {
		d.erase(mesh.Addresses, host)
		return
	}
	at := mesh.FirstAddress(host)
	if d.yes() {
		at = mesh.NextAddress(at)
	}
	d.put(mesh.Addresses, meshName, host, &mesh.Address{Address: at.String()})
}

// erase deletes a resource if it exists.
func (d *driver) erase(k *model.Kind, name string) {
	err := d.db.View(ctx, func(r store.Reader) error { _, err := r.Get(k, meshName, name); return err })
	if err == nil {
		d.drop(k, name)
	}
}

// mesh changes one aspect of the mesh: a change of another would hide that it is
// missed.
func (d *driver) mesh() {
	switch a := &d.aspects; pick(d, 0, 1, 2, 3, 4, 5, 6, 7, 8) {
	case 0:
		a.mode = pick(d, mesh.ModeStrict, mesh.ModePermissive)
	case 1:
		a.expiration = pick(d, "", "2h")
	case 2:
		a.off = !a.off
	case 3:
		a.near = !a.near
	case 4:
		a.traced = pick(d, "", "x.example", "127.0.0.1")
	case 5:
		a.logged = pick(d, "", "/logs/a.log", "/logs/b.log")
	case 6:
		a.scraped = pick(d, uint32(0), 5670, 8080, 10001, 15001, 18080)
	case 7:
		a.through = !a.through
	default:
		a.passthrough = !a.passthrough
	}
	m := mtls(d.aspects.mode)
	m.MTLS.Backends[0].DPCert = &mesh.DPCert{Rotation: &mesh.Rotation{Expiration: d.aspects.expiration}}
	if d.aspects.off {
		m.MTLS.EnabledBackend = ""
	}
	m.Routing = &mesh.Routing{LocalityAwareLoadBalancing: d.aspects.near, ZoneEgress: d.aspects.through}
	m.Networking = &mesh.Outbounds{}
	m.Networking.Outbound = &struct {
		Passthrough *bool `json:"passthrough,omitempty"`
	}{new(d.aspects.passthrough)}
	if d.aspects.traced != "" {
		m.Tracing = policytest.Mesh().Tracing
		m.Tracing.Backends[0].Conf["url"] = "http://" + d.aspects.traced + ":9411/api/v2/spans"
	}
	if d.aspects.logged != "" {
		m.Logging = policytest.Mesh().Logging
		m.Logging.Backends[0].Conf["path"] = d.aspects.logged
	}
	if port := d.aspects.scraped; port != 0 {
		scraped(m, map[string]any{"port": float64(port), "skipMTLS": d.yes()})
	}
	d.put(mesh.Meshes, "", meshName, m)
}

// zones changes what there is of other zones, or the egresses that lead there.
func (d *driver) zones() {
	k := pick(d, mesh.ZoneIngresses, mesh.ZoneEgresses)
	name := pick(d, fewPolicies...)
	exists := d.db.View(ctx, func(r store.Reader) error { _, err := r.Get(k, "", name); return err }) == nil
	switch {
	case exists && d.yes():
		d.dropIn("", k, name)
	case k == mesh.ZoneIngresses:
		d.put(k, "", name, ingressOf(pick(d, "", "north"), pick(d, "10.0.0.8", "10.0.0.9"), instancesOf(pick(d, fewServices...), pick(d, uint32(1), 2), "v1")))
	default:
		d.put(k, "", name, &mesh.ZoneEgress{Zone: pick(d, "", "north"), Networking: &mesh.ZoneEgressNetworking{Address: pick(d, "10.0.1.1", "10.0.1.2", "egress.example"), Port: 10002}})
	}
}

// crossing changes what the mesh knows of another one, or what others may call in it.
func (d *driver) crossing() {
	of := pick(d, meshName, "office", "third")
	exists := d.db.View(ctx, func(r store.Reader) error { _, err := r.Get(mesh.Crossings, "", of); return err }) == nil
	if exists && pick(d, 0, 1, 2) == 0 {
		d.dropIn("", mesh.Crossings, of)
		return
	}
	c := crossingOf(of, pick(d, "", rootCA, "other"))
	c.Withdrawn = pick(d, uint64(0), 1)
	if d.yes() {
		l := &mesh.GatewayListener{Port: pick(d, uint32(80), 81), Hostname: pick(d, "", "a.example", "b.example")}
		c.Add("door", l, pick(d, nil, &mesh.CrossEndpoint{Address: pick(d, "10.0.3.1", "door.example")}, &mesh.CrossEndpoint{Address: "10.0.3.2", Tags: mesh.Tags{"version": "v1"}}))
	}
	d.put(mesh.Crossings, "", of, c)
}

// trust changes who signs, or how often a root was withdrawn.
func (d *driver) trust() {
	if d.yes() {
		d.aspects.issuer = pick(d, "r1", "r2")
	} else {
		d.aspects.withdrawn++
	}
	b := trust(d.aspects.issuer)
	b.Withdrawn = d.aspects.withdrawn
	d.put(mesh.Trusts, meshName, meshName, b)
}

// remove deletes a policy of any kind, those that a mesh begins with too.
func (d *driver) remove() {
	k := pick(d, all.Kinds()...)
	if names := slices.Sorted(func(yield func(string) bool) {
		for p := range d.state().Policies(k) {
			if !yield(p.Name) {
				return
			}
		}
	}); len(names) > 0 {
		d.drop(k, pick(d, names...))
	}
}

func (d *driver) join() {
	d.settle()
	name := pick(d, fewNames...)
	d.joined[name] = d.planner.Join(name)
}

func (d *driver) again() {
	d.restart()
	for name := range d.joined {
		d.joined[name] = d.planner.Join(name)
	}
}

func (d *driver) gone() {
	name := pick(d, fewNames...)
	if _, ok := d.state().Dataplane(name); ok && !d.joined[name] {
		d.drop(mesh.Dataplanes, name)
	}
}

// steps are all changes, by what they are called in reports.
func (d *driver) steps() map[string]func(*rapid.T) {
	steps := map[string]func(){
		"dataplane": d.dataplane, "no dataplane": d.gone, "timeout": d.timeout, "retry": d.retry, "route": d.route, "tokens": d.tokens, "permits": d.permits,
		"elsewhere": d.elsewhere, "external": d.external, "mesh": d.mesh, "zones": d.zones, "crossing": d.crossing, "trust": d.trust, "no policy": d.remove, "rule": d.rule, "address": d.address, "gateway": d.gateway, "gateway route": d.gatewayRoute, "gateway certificate": d.certificate, "join": d.join, "restart": d.again,
		"gateway limit": func() {
			spec := &ratelimit.Spec{Connection: connection("edge", pick(d, anyService...)), Conf: &ratelimit.Conf{HTTP: &ratelimit.HTTP{Requests: pick(d, uint32(1), 2), Interval: mesh.Of(time.Second)}}}
			if d.yes() {
				spec.Sources[0].Match["port"] = pick(d, "0", "1")
			}
			d.policy(ratelimit.Kind, spec)
		},
		"control plane": func() { d.outside.g = pick(d, d.gateways...); d.planner.Outside() },
		"leave":         func() { name := pick(d, fewNames...); d.planner.Leave(name); delete(d.joined, name) },
		"secured":       func() { d.planner.Secured(pick(d, fewNames...), d.yes()) },
		"bare":          func() { d.planner.Bare(pick(d, fewNames...), d.yes()) },
		"": func() {
			if d.yes() {
				d.settle()
			}
		},
	}
	for k := range d.samples {
		steps[k.Document.Type] = func() { d.sampled(k) }
	}
	out := map[string]func(*rapid.T){}
	for name := range maps.Keys(steps) {
		out[name] = func(*rapid.T) { steps[name]() }
	}
	return out
}

func newDriver(t testing.TB, rt *rapid.T, gs []*view.Gateway, samples map[*model.Kind][]policytest.Sample) *driver {
	d := &driver{world: newWorldBeyond(t), rt: rt, outside: &plugged{}, gateways: gs, samples: samples, joined: map[string]bool{}, aspects: aspects{mode: mesh.ModeStrict, issuer: "r1"}}
	d.world.t, d.world.outside = rt, d.outside
	d.together = func() []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(d.joined)), func(name string) bool { return !d.joined[name] })
	}
	d.restart()
	// It begins with proxies under mutual TLS, so that most changes matter at once.
	for i, name := range fewNames[:3] {
		d.put(mesh.Dataplanes, meshName, name, dataplane(fmt.Sprintf("127.0.0.%d", i+1), fewServices[i], "http", "a", "b"))
	}
	d.put(mesh.Meshes, "", meshName, mtls(d.aspects.mode))
	d.settle()
	for _, name := range fewNames[:3] {
		d.joined[name] = d.planner.Join(name)
	}
	d.settle()
	return d
}

// TestIncrementalEqualsFromNothing drives random changes through one planner; the
// harness holds every batch against a plan from nothing, and what proxies share
// against a plan of each alone.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	gs, samples := gateways(t), samplesOf(t)
	few.UnderRace(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		d := newDriver(t, rt, gs, samples)
		rt.Repeat(d.steps())
		d.settle()
	})
}
