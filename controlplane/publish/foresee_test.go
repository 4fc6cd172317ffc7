package publish_test

import (
	"context"
	"errors"
	"maps"
	"slices"
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
	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/resource"
)

var errUndone = errors.New("undone")

// foresee returns what a write would make of the connected nodes, and undoes it.
func foresee(t require, db store.Store, l *publish.Loop, limit int, fn func(store.Tx) error) []publish.Foreseen {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var im *publish.Imagination
		var late []string
		_, err := db.Update(ctx, model.Config, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			im, late = l.Imagine(view.DraftOf(tx), nil)
			return errUndone
		})
		if !errors.Is(err, errUndone) {
			t.Fatal(err)
		}
		if len(late) == 0 {
			out, err := l.Foresee(ctx, im, limit)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if err := l.Reached(ctx, db.Revision(), late); err != nil {
			t.Fatal(err)
		}
	}
}

// require is what tests of both kinds have.
type require interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// holding are the versions of everything that a set has, by type and name.
type holding map[[2]string]string

func holdingOf(s *resource.Set) holding {
	out := holding{}
	for _, t := range resource.Types {
		for r := range s.Each(t) {
			out[[2]string{string(t), r.Name}] = r.Version
		}
	}
	for _, name := range s.Secrets() {
		generation, _ := s.Generation(name)
		out[[2]string{"secret", name}] = "generation " + generation
	}
	return out
}

// patched is what a node has after a fate that is foretold: what it had, with the difference.
func patched(had *resource.Set, fate publish.Fate) holding {
	out, before, after := holdingOf(had), holdingOf(fate.Before), holdingOf(fate.After)
	for name := range before {
		if _, stays := after[name]; !stays {
			delete(out, name)
		}
	}
	for name, version := range after {
		if before[name] != version {
			out[name] = version
		}
	}
	return out
}

// foretell foresees a write, makes it, and compares what has become of each connected node.
func (m *machine) foretell(fn func(store.Tx) error) {
	m.t.Helper()
	m.foretold = nil
	defer func() { m.foretold = m.foretell }()
	m.settle()
	had := map[string]*resource.Set{}
	for name := range m.clients {
		had[name] = m.snaps.Get(mesh.NodeID(meshName, name))
	}
	revision := m.db.Revision()
	fates, compared := map[string]publish.Fate{}, 0
	seen := foresee(m.t, m.db, m.loop, 100, fn)
	for _, f := range seen {
		compared += f.Compared
		for _, x := range f.Fates {
			fates[x.Node] = x
		}
	}
	if m.db.Revision() != revision {
		m.t.Fatal("a rehearsal used a revision")
	}
	// In a PERMISSIVE mesh, what callers confirm changes what they have at any time.
	permissive := m.permissive || m.wasPermissive
	m.wasPermissive = m.permissive
	for name, set := range had {
		if !permissive && m.snaps.Get(mesh.NodeID(meshName, name)) != set {
			m.t.Fatalf("a rehearsal changed what %s has", name)
		}
	}
	m.write(fn)
	m.settle()
	m.troubled(seen, permissive)
	for name, set := range had {
		node := mesh.NodeID(meshName, name)
		is := m.snaps.Get(node)
		fate, foretold := fates[node]
		if permissive || m.clients[name] == nil { // or its dataplane was deleted
			continue
		}
		if !foretold && !is.Equal(set) {
			m.t.Fatalf("nobody foresaw that %s changes: %v", name, set)
		}
		if fate.Uncertain {
			m.uncertain++
			continue
		}
		if foretold && (fate.After.Equal(fate.Before) || !maps.Equal(patched(set, fate), holdingOf(is))) {
			m.t.Fatalf("%s has become something else than was foretold:\n%v\n%v", name, patched(set, fate), holdingOf(is))
		}
		if foretold && compared < len(had) { // a client that was closed may still be there
			m.t.Fatalf("%d of %d were compared", compared, len(had))
		}
	}
}

// troubled compares the problems that were foretold of a mesh with those that there are. New ones
// that only lead nowhere are foretold, and no others of that sort.
func (m *machine) troubled(seen []publish.Foreseen, permissive bool) {
	m.t.Helper()
	for _, f := range seen {
		if f.Mesh == nil || permissive || slices.ContainsFunc(f.Fates, func(x publish.Fate) bool { return x.Uncertain }) {
			continue
		}
		told := troubles(func(yield func(publish.Failure)) {
			for _, x := range f.Failures {
				if !x.Awaited {
					m.kept = m.kept || x.Kept
					yield(x.Failure)
				}
			}
		})
		is := troubles(func(yield func(publish.Failure)) {
			for name := range m.clients {
				for _, x := range m.loop.FailuresOf(f.Scope, name) {
					if !x.Awaited {
						yield(publish.Failure{Failure: x})
					}
				}
			}
		})
		if diff := cmp.Diff(is, told); diff != "" {
			m.t.Fatalf("other problems were foretold (-is +foretold):\n%s", diff)
		}
	}
}

// spoiling are the policies of the program, but that no cluster can be made for which the circuit
// breaker named broken is chosen.
func spoiling() []*policy.Policy {
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == circuitbreaker.Kind {
			spoils := *p
			spoils.Cluster = func(d *draft.Cluster, s *policy.Selection) error {
				if s.Policies[0].Name == "broken" {
					return errors.New("a mistake")
				}
				return p.Cluster(d, s)
			}
			policies[i] = &spoils
		}
	}
	return policies
}

// TestForeseenIsWhatHappens: for random writes to random meshes, what is foretold of every
// connected proxy is what the write then makes of it, and foretelling changes nothing. Where a
// proxy keeps what cannot be made, it may be said that nobody knows.
func TestForeseenIsWhatHappens(t *testing.T) {
	far := time.Now().Add(time.Hour)
	ids := &identities{node: pair(t, false, far), roots: pair(t, true, far).Certificate}
	pairs := map[string]publish.Pair{"one": pair(t, false, far), "two": pair(t, false, far), "three": pair(t, false, far)}
	samples, uncertain, kept := samplesOf(t), 0, false
	few.UnderRace(t, 50) // with fewer, what must be seen once may not be
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{t: rt, ids: ids, pairs: pairs, samples: samples, clients: map[string]*proxyClient{}, away: map[string]*proxyClient{}, db: memstore.New()}
		m.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
		for _, d := range all.Defaults() {
			m.put(d.Kind, meshName, d.Prefix+meshName, d.Spec())
		}
		m.put(mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: "one", Roots: ids.roots})
		for _, name := range []string{"a-1", "a-2", "b-1", "c-1"} {
			m.put(mesh.Dataplanes, meshName, name, dataplane("127.0.0.1", name[:1], "http", "a", "b"))
		}
		m.policies = spoiling()
		m.open()
		defer func() {
			uncertain, kept = uncertain+m.uncertain, kept || m.kept
			m.close()
			m.must(m.db.Close())
		}()
		for _, name := range []string{"a-1", "a-2", "b-1", "c-1"} {
			m.connect(name)
		}
		m.foretold = m.foretell
		actions := m.actions()
		for _, name := range []string{"disconnect", "refuse", "accept", "restart"} {
			delete(actions, name)
		}
		actions["broken"] = func(rt *rapid.T) {
			m.put(circuitbreaker.Kind, meshName, "broken", breaker(mesh.AnyValue, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "destination"), 1))
		}
		actions["mended"] = func(*rapid.T) { m.drop(circuitbreaker.Kind, "broken") }
		actions["nowhere"] = func(rt *rapid.T) { // an outbound that cannot be made, and was stored in some other way
			name := rapid.SampledFrom([]string{"a-1", "a-2", "b-1", "c-1"}).Draw(rt, "of")
			d := dataplane("127.0.0.1", name[:1], "http", "a", "b")
			d.Networking.Outbound[rapid.IntRange(0, 1).Draw(rt, "outbound")].Address = "no address"
			m.put(mesh.Dataplanes, meshName, name, d)
		}
		names := slices.Sorted(maps.Keys(actions))
		for range rapid.IntRange(1, 12).Draw(rt, "writes") {
			actions[rapid.SampledFrom(names).Draw(rt, "action")](rt)
		}
	})
	if uncertain == 0 || !kept {
		t.Errorf("%d fates were uncertain; something was kept: %t", uncertain, kept)
	}
}
