package server_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// TestMeant: a refusal without names is about everything in its response.
func TestMeant(t *testing.T) {
	names := []string{"a", "a-b", "c"}
	for text, want := range map[string][]string{
		"Error adding/updating listener(s) a-b: port in use": {"a-b"},
		"cluster(s) a: x, c: y":                              {"a", "c"},
		"Proto constraint validation failed":                 names,
	} {
		if d := cmp.Diff(want, server.Meant(text, names)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

// answered reports whether there is a proxy, which has answered everything.
func answered(p snapshot.Progress) bool {
	return len(p.Waiting) == 0 && len(p.Acknowledged)+len(p.Rejected) > 0
}

// unnamed returns a client that refuses every response with one of these clusters, and names
// none. It counts the responses with clusters.
func unnamed(relay bool, count *int, bad ...string) xdstest.Options {
	return xdstest.Options{Relay: relay, Reject: func(u resource.TypeURL, names []string) string {
		if u != resource.Cluster {
			return ""
		}
		*count++
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(bad, n) }) {
			return "it cannot be decoded"
		}
		return ""
	}}
}

// refusedAlone returns what is refused by responses with one resource, by name.
func refusedAlone(t *testing.T, all []snapshot.Rejection) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, x := range all {
		if len(x.Resources) != 1 {
			t.Errorf("%q is about %d", x.Error, len(x.Resources))
			continue
		}
		out[x.Resources[0]] = x.Error
	}
	return out
}

// TestBadOnesOfAHundredAreFound: nobody says which of a hundred clusters are bad. The bad ones
// are found, all others arrive, and the bad bytes are not sent again.
func TestBadOnesOfAHundredAreFound(t *testing.T) {
	for name, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
		t.Run(name, func(t *testing.T) {
			r, count := setup(t, nil), 0
			c := r.dial(t, unnamed(relay, &count, "c17", "c42"))
			world := large(false)
			r.publish(world...)
			p := r.waitFor(t, answered)
			want := map[string]string{"c17": "c17: it cannot be decoded", "c42": "c42: it cannot be decoded"}
			if d := cmp.Diff(want, refusedAlone(t, p.Rejected)); d != "" {
				t.Error(d)
			}
			var good []*resource.Resource
			for _, x := range world {
				if x.Name != "c17" && x.Name != "c42" {
					good = append(good, x)
				}
			}
			c.WaitFor(t, "everything else", func(v xdstest.View) bool { return holdsAll(v, good, "") })
			if count > 1+2*2*7 {
				t.Errorf("it took %d responses", count)
			}
			n := len(c.Messages())
			changed := append(slices.Clone(world), xdstest.Cluster("new", s), xdstest.Endpoints("new", 1))
			if p := r.settle(t, r.publish(changed...)); len(p.Rejected) != 2 {
				t.Errorf("progress %+v", p)
			}
			for _, m := range sent(c, n) {
				if m.Type == resource.Cluster && !slices.Equal(m.Names, []string{"new"}) {
					t.Errorf("sent %v once more", m.Names)
				}
			}
		})
	}
}

// TestTheSearchEnds: a proxy that refuses everything costs a bounded number of responses, and
// all that it refused counts as refused.
func TestTheSearchEnds(t *testing.T) {
	r, count := setup(t, nil), 0
	var world []*resource.Resource
	var names []string
	for i := range 400 {
		names = append(names, fmt.Sprintf("c%03d", i))
		world = append(world, xdstest.Cluster(names[i], s))
	}
	r.publish(world...)
	r.dial(t, unnamed(true, &count, names...))
	p := r.waitFor(t, answered)
	var refused []string
	for _, x := range p.Rejected {
		refused = append(refused, x.Resources...)
	}
	slices.Sort(refused)
	if !slices.Equal(refused, names) {
		t.Errorf("%d of %d count as refused", len(refused), len(names))
	}
	if count != 257 {
		t.Errorf("%d responses", count)
	}
}

// TestARefusalIsOfTheRevisionThatWasSentFirst: while the bad one is being looked for, a newer
// revision comes. What is then refused is refused for the older one, too, and what came since is
// not refused with it.
func TestARefusalIsOfTheRevisionThatWasSentFirst(t *testing.T) {
	r := setup(t, nil)
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := r.dial(t, xdstest.Options{Relay: true, Reject: func(u resource.TypeURL, names []string) string {
		if u != resource.Cluster || !slices.Contains(names, "bad") {
			return ""
		}
		once.Do(func() { close(reached); <-goOn })
		if slices.Contains(names, "late") {
			t.Error("what came later is sent with what is looked at")
		}
		return "it cannot be decoded"
	}})
	r.publish(endA, endB)
	r.waitFor(t, answered)
	world := []*resource.Resource{clusterA, clusterB, xdstest.Cluster("bad", s), endA, endB}
	first := r.publish(world...)
	<-reached
	newer := r.publish(append(world, xdstest.Cluster("late", s))...)
	close(goOn)
	p := r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == newer && answered(p) })
	if d := cmp.Diff(map[string]string{"bad": "bad: it cannot be decoded"}, refusedAlone(t, p.Rejected)); d != "" || p.Rejected[0].Revision != first {
		t.Errorf("progress %+v: %s", p, d)
	}
	c.Request(resource.Cluster).Equals(t, clusterA, clusterB, xdstest.Cluster("late", s))
}
