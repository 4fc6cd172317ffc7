package delivery

import (
	"net/http"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// without returns a list without some of it.
func without(list []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return slices.Contains(some, id) })
}

// TestOneThatIsRefused: of a batch that is refused for what it is, the events that are refused alone are
// given up, and no others. They are kept.
func TestOneThatIsRefused(t *testing.T) {
	for name, bad := range map[string][]string{
		"one of many":            {"p-77"},
		"the first":              {"p-0"},
		"several apart":          {"p-3", "p-90", "p-299"},
		"neighbours":             {"p-50", "p-51", "p-52"},
		"the last of a batch":    {"p-199", "p-200"},
		"as many as can be told": {"p-10", "p-11", "p-12", "p-13", "p-14", "p-15", "p-16", "p-17"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := newReceiver(t)
			r.refuses = map[string]bool{}
			for _, id := range bad {
				r.refuses[id] = true
			}
			w.hook("p", r, true)
			all := w.happen("p", 0, 301)
			w.start()
			until(t, "the last", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 301) })
			if got := r.events(); !slices.Equal(got, without(all, bad...)) {
				t.Errorf("%d events arrived: %v", len(got), got)
			}
			until(t, "the count", func() bool {
				s := w.engine.Stats()
				return s.GivenUp == uint64(len(bad)) && s.Delivered == uint64(301-len(bad))
			})
			_ = w.s.View(t.Context(), func(r store.Reader) error {
				if n, err := r.Count(cloud.Events, store.Query{Scope: "p"}); n != 301 || err != nil {
					t.Errorf("%d events are kept, %v", n, err)
				}
				return nil
			})
			if d := w.progress("p"); d.Failed {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestRefusesEverything: nothing is given up for a receiver that refuses everything, as one does whose own
// settings are wrong: it has failed.
func TestRefusesEverything(t *testing.T) {
	for _, status := range []int{400, 413, 422} {
		w := newWorld(t)
		r := newReceiver(t)
		w.hook("p", r, true)
		stop := w.start()
		want := w.happen("p", 0, 1)
		until(t, "the first", func() bool { return len(r.events()) == 1 }) // it was in order before
		r.mu.Lock()
		r.answers = slices.Repeat([]int{status}, 1000)
		r.mu.Unlock()
		want = append(want, w.happen("p", 1, 300)...)
		<-w.held
		if d := w.progress("p"); !d.Failed || d.Code != status || d.Cursor != cloud.EventName("p", 1) {
			t.Errorf("%d: %+v", status, d)
		}
		if s := w.engine.Stats(); s.GivenUp != 0 || s.Turns != 1 {
			t.Errorf("%d: %+v", status, s)
		}
		r.mu.Lock()
		r.answers = nil
		r.mu.Unlock()
		w.resume()
		until(t, "the rest", func() bool { return len(r.events()) == len(want) })
		if got := r.events(); !slices.Equal(got, want) {
			t.Errorf("%d: %v arrived", status, got)
		}
		stop()
	}
}

// TestTheOnlyOneIsRefused: an event that is refused stays while there is no other by which to tell what
// is wrong.
func TestTheOnlyOneIsRefused(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	r.refuses = map[string]bool{"p-0": true}
	w.hook("p", r, true)
	w.start()
	w.happen("p", 0, 1)
	<-w.held
	if d := w.progress("p"); !d.Failed || d.Code != http.StatusBadRequest || d.Cursor != cloud.EventName("p", 0) {
		t.Errorf("%+v", d)
	}
	w.happen("p", 1, 2)
	w.resume()
	until(t, "the other", func() bool { return slices.Equal(r.events(), []string{"p-1"}) })
	until(t, "the end", func() bool { d := w.progress("p"); return !d.Failed && d.Cursor == cloud.EventName("p", 2) })
	until(t, "the count", func() bool { return w.engine.Stats().GivenUp == 1 })
}

// TestUnauthorized: what is refused for who sends it stays.
func TestUnauthorized(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 401)
	w.hook("p", r, true)
	want := w.happen("p", 0, 3)
	w.start()
	<-w.held
	if d := w.progress("p"); !d.Failed || d.Code != http.StatusUnauthorized || r.requests() != 1 {
		t.Errorf("%+v after %d requests", d, r.requests())
	}
	w.resume()
	until(t, "all", func() bool { return slices.Equal(r.events(), want) })
}

// TestBreaksMeanwhile: a receiver that begins to refuse everything while a batch is halved has taken others
// before, which proves something for one event at most.
func TestBreaksMeanwhile(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, append([]int{400, 400, 200}, slices.Repeat([]int{400}, 100)...)...)
	w.hook("p", r, true)
	w.happen("p", 0, 300)
	w.start()
	<-w.held
	if s := w.engine.Stats(); s.GivenUp > 1 || s.Delivered != 50 {
		t.Errorf("%+v", s)
	}
	if d := w.progress("p"); !d.Failed {
		t.Errorf("%+v", d)
	}
}
