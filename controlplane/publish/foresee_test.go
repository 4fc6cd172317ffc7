package publish_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

var errUndone = errors.New("undone")

// foresee returns what a write would make of the connected nodes, and undoes it.
func foresee(t require, db store.Store, l *publish.Loop, limit int, fn func(store.Tx) error) []publish.Foreseen {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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
	for _, f := range foresee(m.t, m.db, m.loop, 100, fn) {
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
		if foretold && (fate.After.Equal(fate.Before) || !maps.Equal(patched(set, fate), holdingOf(is))) {
			m.t.Fatalf("%s has become something else than was foretold:\n%v\n%v", name, patched(set, fate), holdingOf(is))
		}
		if foretold && compared < len(had) { // a client that was closed may still be there
			m.t.Fatalf("%d of %d were compared", compared, len(had))
		}
	}
}

// TestForeseenIsWhatHappens: for random writes to random meshes, what is foretold of every
// connected proxy is what the write then makes of it, and foretelling changes nothing.
func TestForeseenIsWhatHappens(t *testing.T) {
	far := time.Now().Add(time.Hour)
	ids := &identities{node: pair(t, false, far), roots: pair(t, true, far).Certificate}
	pairs := map[string]publish.Pair{"one": pair(t, false, far), "two": pair(t, false, far), "three": pair(t, false, far)}
	samples := samplesOf(t)
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
		m.open()
		defer func() {
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
		names := slices.Sorted(maps.Keys(actions))
		for range rapid.IntRange(1, 12).Draw(rt, "writes") {
			actions[rapid.SampledFrom(names).Draw(rt, "action")](rt)
		}
	})
}
