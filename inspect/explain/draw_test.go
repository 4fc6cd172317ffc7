package explain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/meshtrafficpermission"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/policy/target"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

var (
	services = []string{"a", "b", "c"}
	versions = []string{"v1", "v2"}
	teams    = []string{"", "red", "blue"}
	paths    = []string{"/", "/api", "/api/users", "/apix", "/old/thing", "/exact", "/exact/", "/Api", "/api?x=1"}
	methods  = []string{"GET", "POST", "DELETE"}
)

// drawing draws a world.
type drawing struct {
	*rand.Rand
	w    *world
	host string
}

func one[T any](d *drawing, of []T) T { return of[d.IntN(len(of))] }

func (d *drawing) chance(percent int) bool { return d.IntN(100) < percent }

// address is the address of a dataplane of the world.
func (d *drawing) address(i int) string { return fmt.Sprintf("%s.%d", d.host, i+1) }

// dataplanes draws two to five of them, which call all services.
func (d *drawing) dataplanes() {
	for i := range 2 + d.IntN(4) {
		n := &mesh.Networking{Address: d.address(i)}
		for k := range 1 + d.IntN(2) {
			tags := mesh.Tags{mesh.TagService: one(d, services), "version": one(d, versions)}
			if team := one(d, teams); team != "" {
				tags["team"] = team
			}
			if d.chance(80) {
				tags[mesh.TagProtocol] = mesh.ProtocolHTTP
			}
			if d.chance(30) {
				tags[mesh.TagZone] = one(d, versions)
			}
			in := mesh.Inbound{Port: uint32(8080 + k), ServicePort: uint32(9080 + k), ServiceAddress: n.Address, Tags: tags}
			if d.chance(10) {
				in.State = mesh.StateNotReady
			}
			n.Inbound = append(n.Inbound, in)
		}
		for k, s := range services {
			tags := service(s)
			if d.chance(20) {
				tags["version"] = one(d, versions)
			}
			n.Outbound = append(n.Outbound, mesh.Outbound{Address: n.Address, Port: uint32(10001 + k), Tags: tags})
		}
		name := fmt.Sprintf("p%d", i)
		d.w.put(mesh.Dataplanes, d.w.name, name, &mesh.Dataplane{Networking: n})
		d.w.joined = append(d.w.joined, name)
		if d.chance(50) {
			d.w.secured = append(d.w.secured, name)
		}
	}
}

// security draws the mode of mutual TLS, the routing, and who may call whom.
func (d *drawing) security(roots []byte) {
	switch d.IntN(4) {
	case 0:
	case 1:
		d.w.under(mesh.ModePermissive, roots)
	default:
		d.w.under(mesh.ModeStrict, roots)
	}
	if d.chance(60) {
		d.w.drop(trafficpermission.Kind, "allow-all-"+d.w.name)
	}
	for i := range d.IntN(4) {
		d.w.put(trafficpermission.Kind, d.w.name, fmt.Sprintf("permit-%d", i), &trafficpermission.Spec{Connection: d.connection()})
	}
	if d.chance(40) {
		d.w.put(meshtrafficpermission.Kind, d.w.name, "rules", &meshtrafficpermission.Resource{Spec: &meshtrafficpermission.Spec{
			TargetRef: d.ref(), From: d.judgements(),
		}})
	}
	if d.chance(25) {
		var from []target.Item[meshtokenauth.Default]
		for range 1 + d.IntN(2) {
			from = append(from, target.Item[meshtokenauth.Default]{TargetRef: d.ref(), Default: &meshtokenauth.Default{
				Config: &meshtokenauth.Config{GlobalCredentials: true, Realm: "demo"},
			}})
		}
		d.w.put(meshtokenauth.Kind, d.w.name, "tokens", &meshtokenauth.Resource{Spec: &meshtokenauth.Spec{TargetRef: d.ref(), From: from}})
	}
}

func (d *drawing) judgements() (out []target.Item[meshtrafficpermission.Conf]) {
	for range 1 + d.IntN(3) {
		out = append(out, target.Item[meshtrafficpermission.Conf]{TargetRef: d.ref(), Default: &meshtrafficpermission.Conf{
			Action: one(d, []meshtrafficpermission.Action{meshtrafficpermission.Allow, meshtrafficpermission.Deny, meshtrafficpermission.AllowWithShadowDeny}),
		}})
	}
	return out
}

func (d *drawing) ref() *target.Ref {
	switch d.IntN(4) {
	case 0:
		return &target.Ref{Kind: target.Mesh}
	case 1:
		return &target.Ref{Kind: target.Subset, Tags: mesh.Tags{"version": one(d, versions)}}
	case 2:
		return &target.Ref{Kind: target.ServiceSubset, Name: one(d, services), Tags: mesh.Tags{"team": one(d, teams[1:])}}
	}
	return &target.Ref{Kind: target.Service, Name: one(d, services)}
}

// connection draws whom a policy is about.
func (d *drawing) connection() mesh.Connection {
	c := mesh.Connection{Destinations: []mesh.Selector{{Match: service(one(d, append(services, mesh.AnyValue)))}}}
	for range 1 + d.IntN(2) {
		tags := service(one(d, append(services, mesh.AnyValue)))
		if d.chance(30) {
			tags["team"] = one(d, []string{"red", "blue", mesh.AnyValue})
		}
		if d.chance(20) {
			tags["version"] = one(d, versions)
		}
		c.Sources = append(c.Sources, mesh.Selector{Match: tags})
	}
	return c
}

// traffic draws routes, faults, limits and retries.
func (d *drawing) traffic() {
	if d.chance(50) {
		d.w.drop(retry.Kind, "retry-all-"+d.w.name)
	}
	if d.chance(10) {
		d.w.drop(trafficroute.Kind, "route-all-"+d.w.name)
	}
	for i := range d.IntN(3) {
		d.w.put(trafficroute.Kind, d.w.name, fmt.Sprintf("route-%d", i), &trafficroute.Spec{Connection: mesh.Connection{
			Sources:      []mesh.Selector{{Match: service(one(d, append(services, mesh.AnyValue)))}},
			Destinations: []mesh.Selector{{Match: service(one(d, services))}},
		}, Conf: d.route()})
	}
	for i := range d.IntN(3) {
		d.w.put(faultinjection.Kind, d.w.name, fmt.Sprintf("fault-%d", i), &faultinjection.Spec{Connection: d.connection(), Conf: d.fault()})
	}
	for i := range d.IntN(3) {
		n := &ratelimit.HTTP{Requests: uint32(1 + d.IntN(3)), Interval: mesh.Of(time.Hour)}
		if d.chance(30) {
			n.OnRateLimit = &ratelimit.OnRateLimit{Status: new(uint32(409))}
		}
		d.w.put(ratelimit.Kind, d.w.name, fmt.Sprintf("limit-%d", i), &ratelimit.Spec{Connection: d.connection(), Conf: &ratelimit.Conf{HTTP: n}})
	}
}

func (d *drawing) fault() *faultinjection.Conf {
	share := one(d, []float64{0, 100, 100, 50})
	c := &faultinjection.Conf{Abort: &faultinjection.Abort{Percentage: &share, HTTPStatus: new(one(d, []uint32{418, 503}))}}
	if d.chance(30) {
		c.Delay = &faultinjection.Delay{Percentage: new(100.0), Value: mesh.Of(time.Millisecond)}
	}
	return c
}

func (d *drawing) to() mesh.Tags {
	tags := service(one(d, services))
	if d.chance(40) {
		tags["version"] = one(d, versions)
	}
	return tags
}

func (d *drawing) split() (out []trafficroute.Split) {
	for range 1 + d.IntN(3) {
		out = append(out, trafficroute.Split{Weight: new(uint32(d.IntN(3))), Destination: d.to()})
	}
	out[0].Weight = new(uint32(1))
	return out
}

func (d *drawing) route() *trafficroute.Conf {
	c := &trafficroute.Conf{}
	rules := d.IntN(4)
	switch {
	case rules > 0 && d.chance(20): // nothing else is routed
	case d.chance(50):
		c.Split = d.split()
	default:
		c.Destination = d.to()
	}
	for range rules {
		r := trafficroute.Rule{Match: &trafficroute.Match{}}
		if d.chance(60) {
			r.Match.Path = d.text(paths[1:7], "/(api|old)/.+")
		}
		if d.chance(40) || r.Match.Path == nil {
			r.Match.Method = d.text(methods, "G.T|P.*")
		}
		if d.chance(30) {
			r.Match.Headers = map[string]trafficroute.Text{"x-kind": *d.text([]string{"one", "two"}, "t.*")}
		}
		if d.chance(50) {
			r.Destination = d.to()
		} else {
			r.Split = d.split()
		}
		if r.Match.Path != nil && r.Match.Path.Prefix != nil && d.chance(30) {
			r.Modify = &trafficroute.Modify{Path: &trafficroute.Path{RewritePrefix: new("/new")}}
		}
		if d.chance(20) {
			r.Modify = &trafficroute.Modify{RequestHeaders: &trafficroute.Headers{Add: []trafficroute.Header{{Name: "authorization", Value: "Bearer x"}}}}
		}
		c.HTTP = append(c.HTTP, r)
	}
	return c
}

func (d *drawing) text(of []string, pattern string) *trafficroute.Text {
	switch s := one(d, of); d.IntN(3) {
	case 0:
		return &trafficroute.Text{Exact: &s}
	case 1:
		return &trafficroute.Text{Prefix: &s}
	}
	return &trafficroute.Text{Regex: &pattern}
}

// question draws a request.
func (d *drawing) question() (q explain.Question, port int) {
	at := d.IntN(len(services))
	q = explain.Question{Source: one(d, d.w.joined), Destination: services[at], Path: one(d, paths), Method: one(d, methods)}
	if d.chance(30) {
		q.Destination = fmt.Sprintf("%s:%d", d.address(slices.Index(d.w.joined, q.Source)), 10001+at)
	}
	if d.chance(40) {
		q.Headers = append(q.Headers, interpret.Header{Name: "x-kind", Value: one(d, []string{"one", "two", "three"})})
	}
	return q, 10001 + at
}

// drawn makes a world from a seed. host are the first three bytes of its addresses.
func drawn(w *world, seed uint64, host string, roots []byte) *drawing {
	d := &drawing{rand.New(rand.NewPCG(seed, 0)), w, host}
	if d.chance(20) {
		w.put(mesh.Meshes, "", w.name, &mesh.Mesh{Routing: &mesh.Routing{LocalityAwareLoadBalancing: true}})
	}
	d.dataplanes()
	d.security(roots)
	d.traffic()
	w.plan()
	return d
}
