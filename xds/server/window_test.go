package server

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// A proxy that answers slowly has at most a window of unanswered responses of a type, whatever
// is published meanwhile. After its answers it gets the latest state in one response, without
// the states in between.
func TestWindowHoldsBeforeAndAfterAnswers(t *testing.T) {
	limits := Limits{}.withDefaults(true)
	if limits.Window != 4 || limits.ClusterWindow != 8 {
		t.Errorf("windows of %d and %d", limits.Window, limits.ClusterWindow)
	}
	for _, url := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		t.Run(string(url), func(t *testing.T) {
			s := newSession("n", false, limits, &diffs{})
			revision := uint64(0)
			publish := func() *resource.Resource {
				revision++
				r := resource.New(url, "x", fmt.Append(nil, revision))
				s.renew(snapshot.State{Set: resource.NewSet([]*resource.Resource{r}, nil), Revision: revision, Version: revision})
				return r
			}
			publish()
			if _, err := s.receive(request{url: url, subscribe: []string{"*"}}); err != nil {
				t.Fatal(err)
			}
			var open []*response
			send := func() {
				for r := s.next(); r != nil; r = s.next() {
					open = append(open, r)
				}
			}
			for range 50 {
				publish()
				send()
				if len(open) > s.window(url) {
					t.Fatalf("%d responses are unanswered", len(open))
				}
			}
			if len(open) != s.window(url) {
				t.Fatalf("%d responses are unanswered, the window has room for %d", len(open), s.window(url))
			}
			last := publish()
			before := len(open)
			for i := 0; i < len(open); i++ { // answers come one by one
				if _, err := s.receive(request{url: url, nonce: open[i].nonce}); err != nil {
					t.Fatal(err)
				}
				send()
				if unanswered := len(open) - i - 1; unanswered > s.window(url) {
					t.Fatalf("%d responses are unanswered after %d answers", unanswered, i+1)
				}
			}
			if n := len(open) - before; n != 1 || open[before].add[0] != last {
				t.Fatalf("%d responses after the answers", n)
			}
		})
	}
}

// If a response is refused after one of its resources was overtaken, its other resources are
// sent again at once. The overtaken resource may have been the reason for the refusal, and the
// others may not have been applied.
func TestRefusalOfAnOvertakenResponse(t *testing.T) {
	s := newSession("n", false, Limits{}.withDefaults(true), &diffs{})
	table := func(bad string, revision uint64) {
		var rs []*resource.Resource
		for _, x := range [][2]string{{"a", "1"}, {"b", "1"}, {"bad", bad}} {
			rs = append(rs, resource.New(resource.Route, x[0], []byte(x[1])))
		}
		s.renew(snapshot.State{Set: resource.NewSet(rs, nil), Revision: revision, Version: revision})
	}
	names := func(r *response) (out []string) {
		if r == nil {
			return nil
		}
		for _, x := range r.add {
			out = append(out, x.Name)
		}
		return out
	}
	receive := func(r request) {
		t.Helper()
		r.url = resource.Route
		if _, err := s.receive(r); err != nil {
			t.Fatal(err)
		}
	}
	table("1", 1)
	receive(request{subscribe: []string{"*"}})
	first := s.next()
	table("2", 2)
	second := s.next()
	if fmt.Sprint(names(first), names(second)) != "[a b bad] [bad]" || s.next() != nil {
		t.Fatalf("sent %v, then %v", names(first), names(second))
	}
	receive(request{nonce: first.nonce, refused: true, text: "bad: no"})
	if got := s.rejections(); len(got) > 0 {
		t.Errorf("what is tried again stands refused: %+v", got)
	}
	again := s.next()
	if s.next() != nil {
		t.Fatal("more is sent than what was refused")
	}
	receive(request{nonce: second.nonce})
	if _, confirmed := s.confirmed(); confirmed {
		t.Error("confirmed before what is tried again is answered")
	}
	if fmt.Sprint(names(again)) != "[a b]" {
		t.Fatalf("after the refusal %v is sent", names(again))
	}
	// A response that was refused without having been overtaken is not repeated.
	receive(request{nonce: again.nonce, refused: true, text: "a: no"})
	if r := s.next(); r != nil {
		t.Fatalf("%v is repeated", names(r))
	}
}
