package server

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"pgregory.net/rapid"
)

// work describes what a type has to do.
type work struct {
	Pending, Gone []string
	Known         map[string]string
}

func workOf(s *session, t *typed) work {
	var w work
	for _, r := range s.pending(t) {
		w.Pending = append(w.Pending, r.Name+" "+r.Version)
	}
	w.Gone = s.gone(t)
	w.Known = map[string]string{}
	for name, k := range t.known {
		w.Known[name] = k.version
	}
	return w
}

// sameAsWalk checks that looking at the moved names finds the same work as a walk over all
// names.
func sameAsWalk(t *rapid.T, s *session) {
	for _, x := range s.types {
		if !x.asked || x.walk {
			continue
		}
		known := maps.Clone(x.known)
		got := workOf(s, x)
		x.known, x.walk = known, true
		moved := x.moved
		x.moved = map[string]struct{}{}
		if d := cmp.Diff(workOf(s, x), got); d != "" {
			t.Fatalf("%s (-walk +moved):\n%s", x.url, d)
		}
		x.walk, x.moved = false, moved
	}
}

// turns implements the operations of TestMovedNamesAreAllThereIsToDo.
type turns struct {
	s   *session
	set map[resource.TypeURL]*resource.Table
	rev uint64
}

var names = rapid.SampledFrom([]string{"a", "b", "c", "d"})

func urls(t *rapid.T) resource.TypeURL {
	return rapid.SampledFrom(resource.Types[:4]).Draw(t, "type")
}

func (m *turns) Publish(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "types") {
		url := urls(t)
		var put []*resource.Resource
		for _, n := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(t, "put") {
			body := strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "body"))
			put = append(put, resource.New(url, n, []byte(body)))
		}
		m.set[url] = m.set[url].With(put, rapid.SliceOfN(names, 0, 2).Draw(t, "drop"))
	}
	m.rev++
	m.s.renew(snapshot.State{Set: resource.Assemble(m.set, nil), Revision: m.rev, Version: m.rev})
}

func (m *turns) Ask(t *rapid.T) {
	sub, unsub := rapid.SliceOfN(names, 0, 2).Draw(t, "subscribe"), rapid.SliceOfN(names, 0, 2).Draw(t, "unsubscribe")
	if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
		sub = append(sub, "*")
	}
	if _, err := m.s.receive(request{url: urls(t), subscribe: sub, unsubscribe: unsub}); err != nil {
		t.Fatal(err)
	}
}

func (m *turns) Send(*rapid.T) { m.s.next() }

func (m *turns) Answer(t *rapid.T) {
	x := m.s.types[urls(t)]
	if len(x.out) == 0 {
		return
	}
	i := rapid.IntRange(0, len(x.out)-1).Draw(t, "which")
	r := request{url: x.url, nonce: x.out[i].nonce, refused: rapid.IntRange(0, 4).Draw(t, "refused") == 0}
	for name := range x.names {
		r.subscribe = append(r.subscribe, name)
	}
	slices.Sort(r.subscribe)
	if !m.s.sotw {
		r.subscribe = nil
	}
	if _, err := m.s.receive(r); err != nil {
		t.Fatal(err)
	}
	m.s.confirmed()
}

func (m *turns) Settle(*rapid.T) { drain(m.s) }

func (m *turns) Check(t *rapid.T) { sameAsWalk(t, m.s) }

// A session looks only at the names that moved. Whatever happens on a stream, a walk over all
// names must find no further work.
func TestMovedNamesAreAllThereIsToDo(t *testing.T) {
	for _, vectors := range []bool{false, true} {
		t.Run("vectors "+strconv.FormatBool(vectors), rapid.MakeCheck(func(t *rapid.T) {
			m := &turns{s: newSession("n", vectors, Limits{}.withDefaults(true), &diffs{}), set: map[resource.TypeURL]*resource.Table{}}
			// Start at rest: only then does the session look at moved names alone.
			m.Publish(t)
			for _, url := range resource.Types[:4] {
				sub := rapid.SampledFrom([][]string{nil, {"*"}, {"a", "b"}, {"a", "*"}}).Draw(t, "first")
				if _, err := m.s.receive(request{url: url, subscribe: sub}); err != nil {
					t.Fatal(err)
				}
			}
			m.Settle(t)
			t.Repeat(map[string]func(*rapid.T){
				"publish": m.Publish, "publish more": m.Publish, "ask": m.Ask, "send": m.Send,
				"answer": m.Answer, "settle": m.Settle, "": m.Check,
			})
		}))
	}
}

func TestManyMovedNamesAreWalkedOver(t *testing.T) {
	var rs []*resource.Resource
	for i := range 3 * maxMoved {
		rs = append(rs, resource.New(resource.Route, strconv.Itoa(i), []byte("x")))
	}
	s := newSession("n", false, Limits{}.withDefaults(true), &diffs{})
	s.renew(snapshot.State{Revision: 1, Version: 1})
	if _, err := s.receive(request{url: resource.Route, subscribe: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	drain(s)
	s.renew(snapshot.State{Set: resource.NewSet(rs, nil), Revision: 2, Version: 2})
	if r := s.next(); r == nil || len(r.add) != len(rs) {
		t.Fatalf("sent %+v", r)
	}
	s.renew(snapshot.State{Revision: 3, Version: 3})
	if r := s.next(); r == nil || len(r.remove) != len(rs) {
		t.Fatalf("sent %+v", r)
	}
}
