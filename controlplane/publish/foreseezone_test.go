package publish_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

// inbox and outbox are the proxies of the zone, and caller is a proxy of a mesh.
const inbox, outbox, caller = "zone/ingress/x", "zone/egress/x", "one.web"

// rehearsed is a zone of which everything is foretold before it happens.
type rehearsed struct {
	*rapid.T
	ctx  context.Context
	db   store.Store
	loop *publish.Loop
	out  *recorder
	seen *foretold
}

// foretold counts what was foretold.
type foretold struct {
	fates, failures, gone map[string]int
	nothing               int
}

// rehearse opens a zone with two meshes, and connects a proxy of each type.
func rehearse(rt *rapid.T, roots []byte, seen *foretold) (z *rehearsed, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	log, db := slog.New(slog.DiscardHandler), memstore.New()
	views := view.New(db, append(all.Kinds(), sidecar.LocatingKinds()...), log)
	z = &rehearsed{rt, ctx, db, nil, &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}, seen}
	z.loop = publish.New(publish.Options{Views: views, Publisher: z.out, Policies: faulty(), Latest: db.Revision, Log: log, Check: true})
	var work sync.WaitGroup
	work.Go(func() { _ = z.loop.Run(ctx) })
	end = func() {
		cancel()
		work.Wait()
		views.Close()
		_ = db.Close()
	}
	z.write(func(tx store.Tx) error {
		for _, name := range []string{"one", "two"} {
			if err := errors.Join(
				stored(tx, mesh.Meshes, "", name, through(true, name == "one")),
				stored(tx, mesh.Trusts, name, name, &mesh.Trust{Backend: "ca", Issuer: "first", Roots: roots}),
				stored(tx, mesh.Dataplanes, name, "a-1", zonal("a")),
				stored(tx, mesh.ExternalServices, name, "mail", outside("mail", "http", "mail.example:80")),
				stored(tx, trafficpermission.Kind, name, "all", allowing(mesh.AnyValue, mesh.AnyValue)),
			); err != nil {
				return err
			}
		}
		return errors.Join(
			stored(tx, mesh.Dataplanes, "one", "web", dataplane("10.0.0.8", "web", "http", "a", "far", "mail")),
			stored(tx, mesh.ZoneIngresses, "", "x", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}}),
			stored(tx, mesh.ZoneEgresses, "", "x", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 2}}),
		)
	})
	for _, node := range []string{inbox, outbox, caller} {
		release, err := z.loop.Connect(ctx, node, false)
		if err != nil {
			rt.Fatal(err)
		}
		cancelled := end
		end = func() { release(); cancelled() }
	}
	return z, end
}

// stored writes a resource in a transaction.
func stored(tx store.Tx, k *model.Kind, scope, name string, spec any) error {
	r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
	if _, err := tx.Get(k, scope, name); err == nil {
		_, err = tx.Update(r, 0)
		return err
	}
	_, err := tx.Create(r)
	return err
}

func (z *rehearsed) write(fn func(store.Tx) error) {
	z.Helper()
	c, err := z.db.Update(z.ctx, model.Config, fn)
	if err == nil {
		err = z.loop.Settled(z.ctx, c.Revision)
	}
	if err != nil {
		z.Fatal(err)
	}
}

// foretell foresees a write, makes it, and compares what has become of each node.
func (z *rehearsed) foretell(fn func(store.Tx) error) {
	z.Helper()
	had, failed, absent := map[string]*resource.Set{}, z.failures(), z.absent()
	for _, node := range []string{inbox, outbox, caller} {
		had[node] = z.out.set(node)
	}
	fates, seen := map[string]publish.Fate{}, foresee(z, z.db, z.loop, 10, fn)
	var zone *publish.Foreseen
	for i := range seen {
		if seen[i].Scope == publish.ZoneScope {
			zone = &seen[i]
		}
		for _, x := range seen[i].Fates {
			fates[x.Node] = x
		}
	}
	for node, set := range had {
		if z.out.set(node) != set {
			z.Fatalf("a rehearsal changed what %s has", node)
		}
	}
	z.write(fn)
	for node, set := range had {
		is := z.out.set(node)
		fate, told := fates[node]
		switch {
		case fate.Uncertain && node == caller:
		case !told && !is.Equal(set):
			z.Fatalf("nobody foresaw that %s changes", node)
		case told && (fate.Held != set || fate.After.Equal(fate.Before) || !maps.Equal(patched(set, fate), holdingOf(is))):
			z.Fatalf("%s has become something else than was foretold:\n%v\n%v", node, patched(set, fate), holdingOf(is))
		}
		if told {
			z.seen.fates[node]++
		}
	}
	z.compare(zone, failed)
	z.turnedAway(zone, absent)
}

// compare compares what was foretold of the zone with what is wrong with it, and before was. Where
// nothing was foretold, the same is wrong.
func (z *rehearsed) compare(zone *publish.Foreseen, before map[string][]string) {
	z.Helper()
	is := z.failures()
	if zone == nil {
		z.seen.nothing++
		if diff := cmp.Diff(before, is); diff != "" {
			z.Fatalf("nobody foresaw other problems:\n%s", diff)
		}
		return
	}
	told, there := map[string]bool{}, map[string]bool{} // with whether it is there already
	for _, x := range zone.Failures {
		z.seen.failures[x.Cell]++
		told[textOf(x.Failure)] = x.Already
	}
	for name, texts := range is {
		for _, text := range texts {
			already, known := there[text]
			there[text] = (already || !known) && slices.Contains(before[name], text)
		}
	}
	if diff := cmp.Diff(there, told); diff != "" {
		z.Fatalf("other problems were foretold (-is +foretold):\n%s", diff)
	}
	if zone.Compared != 2 || zone.Omitted != 0 {
		z.Fatalf("%d proxies were compared, %d omitted", zone.Compared, zone.Omitted)
	}
}

func textOf(f publish.Failure) string {
	return troubles(func(yield func(publish.Failure)) { yield(f) })[0]
}

// turnedAway compares the proxies that were to be deleted with those that were.
func (z *rehearsed) turnedAway(zone *publish.Foreseen, before []string) {
	z.Helper()
	var told []string
	if zone != nil {
		told = zone.Gone
	}
	is := slices.DeleteFunc(z.absent(), func(name string) bool { return slices.Contains(before, name) })
	if !slices.Equal(told, is) {
		z.Fatalf("%v were to be deleted, and %v were", told, is)
	}
	for _, name := range is {
		z.seen.gone[name]++
	}
}

// failures are those of the proxies that exist.
func (z *rehearsed) failures() map[string][]string {
	gone, out := z.absent(), map[string][]string{}
	for _, proxyType := range mesh.ZoneProxies {
		name := publish.ZoneProxy(proxyType, "x")
		if slices.Contains(gone, name) {
			continue
		}
		out[name] = troubles(func(yield func(publish.Failure)) {
			for _, x := range z.loop.FailuresOf(publish.ZoneScope, name) {
				yield(publish.Failure{Failure: x})
			}
		})
	}
	return out
}

// absent lists the proxies of the zone that are connected and do not exist.
func (z *rehearsed) absent() (out []string) {
	if err := z.db.View(z.ctx, func(r store.Reader) error {
		for _, proxyType := range mesh.ZoneProxies {
			if _, err := r.Get(mesh.ZoneKind(proxyType), "", "x"); err != nil {
				out = append(out, publish.ZoneProxy(proxyType, "x"))
			}
		}
		return nil
	}); err != nil {
		z.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// faulty are the policies of the program, but that no inbound can be made for which the fault named
// broken is chosen.
func faulty() []*policy.Policy {
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == faultinjection.Kind {
			spoils := *p
			spoils.InboundRoutes = func(d *draft.Routes, s *policy.Selection) error {
				if slices.ContainsFunc(s.Policies, func(p *view.Policy) bool { return p.Name == "broken" }) {
					return errors.New("a mistake")
				}
				return p.InboundRoutes(d, s)
			}
			policies[i] = &spoils
		}
	}
	return policies
}

// TestForeseenOfZones: the same for an ingress and an egress, which cannot listen everywhere, come
// and go, and for which some services cannot be made as configured.
func TestForeseenOfZones(t *testing.T) {
	roots := pair(t, true, time.Now().Add(time.Hour)).Certificate
	seen := &foretold{fates: map[string]int{}, failures: map[string]int{}, gone: map[string]int{}}
	rapid.Check(t, func(rt *rapid.T) {
		z, end := rehearse(rt, roots, seen)
		defer end()
		for range rapid.IntRange(1, 12).Draw(rt, "writes") {
			writes := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) written { return anyOfZone(rt, roots) }), 1, 3).Draw(rt, "of")
			z.foretell(func(tx store.Tx) error {
				for _, w := range writes {
					if err := w.in(tx); err != nil {
						return err
					}
				}
				return nil
			})
		}
		// Chance seldom has both listen at one place. Every run ends with that.
		z.foretell(func(tx store.Tx) error {
			return errors.Join(
				stored(tx, mesh.ZoneIngresses, "", "x", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}}),
				stored(tx, mesh.ZoneEgresses, "", "x", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 1}}),
			)
		})
		// Nor is one often where it cannot listen.
		z.foretell(func(tx store.Tx) error {
			return stored(tx, mesh.ZoneIngresses, "", "x", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "x.example", Port: 1}})
		})
	})
	for _, node := range []string{inbox, outbox, caller} {
		if seen.fates[node] == 0 {
			t.Errorf("nothing becomes of %s", node)
		}
	}
	if len(seen.failures) < 4 || seen.failures["listener"] == 0 || len(seen.gone) == 0 || seen.nothing == 0 {
		t.Errorf("foretold was %+v", seen)
	}
}

// written is a write of one resource, or its deletion if there is no spec.
type written struct {
	kind        *model.Kind
	scope, name string
	spec        any
}

func (w written) in(tx store.Tx) error {
	if w.spec != nil {
		return stored(tx, w.kind, w.scope, w.name, w.spec)
	}
	if _, err := tx.Get(w.kind, w.scope, w.name); err != nil {
		return nil //nolint:nilerr // there is nothing to delete
	}
	return tx.Delete(w.kind, w.scope, w.name, 0)
}

func through(mtls, egress bool) *mesh.Mesh {
	m := &mesh.Mesh{Routing: &mesh.Routing{ZoneEgress: egress}}
	if mtls {
		m.MTLS = &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}
	}
	return m
}

func outside(service, protocol, address string) *mesh.ExternalService {
	return &mesh.ExternalService{Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: protocol}, Networking: &mesh.ExternalNetworking{Address: address}}
}

func allowing(from, to string) *trafficpermission.Spec {
	return &trafficpermission.Spec{Connection: between(from, to)}
}

func aborting(to string, status uint32) *faultinjection.Spec {
	share := 50.0
	return &faultinjection.Spec{Connection: between(mesh.AnyValue, to), Conf: &faultinjection.Conf{Abort: &faultinjection.Abort{Percentage: &share, HTTPStatus: &status}}}
}
