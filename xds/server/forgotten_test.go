package server

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// A proxy that refused a listener still runs its previous version. If the listener is removed
// while its correction waits behind clusters, the removal must be sent: nothing else would
// ever remove the old version.
func TestRefusedListenerThatGoesBeforeItsCorrectionIsRemoved(t *testing.T) {
	s := newSession("n", false, Limits{}.withDefaults(true), &diffs{})
	revision := uint64(0)
	publish := func(listener string) {
		revision++
		rs := []*resource.Resource{resource.New(resource.Cluster, "c", fmt.Append(nil, revision))}
		if listener != "" {
			rs = append(rs, resource.New(resource.Listener, "l", []byte(listener)))
		}
		s.renew(snapshot.State{Set: resource.NewSet(rs, nil), Revision: revision, Version: revision})
	}
	receive := func(r request) {
		t.Helper()
		if _, err := s.receive(r); err != nil {
			t.Fatal(err)
		}
	}
	var clusters []*response
	// send returns the responses with listeners and stores those with clusters.
	send := func() (out []*response) {
		for r := s.next(); r != nil; r = s.next() {
			if r.typ == resource.Cluster {
				clusters = append(clusters, r)
			} else {
				out = append(out, r)
			}
		}
		return out
	}
	publish("1")
	receive(request{url: resource.Cluster, subscribe: []string{"*"}})
	receive(request{url: resource.Listener, subscribe: []string{"*"}})
	for range 3 { // a refused response is repeated once
		for _, r := range send() {
			receive(request{url: r.typ, nonce: r.nonce, refused: string(r.add[0].Body) == "2", text: "l: no"})
		}
		publish("2")
	}
	for range s.window(resource.Cluster) { // warming, so they stay unanswered
		publish("2")
		send()
	}
	publish("3")
	if got := send(); len(got) > 0 {
		t.Fatalf("a listener is sent ahead of its clusters: %v", got[0])
	}
	publish("")
	for _, r := range clusters {
		receive(request{url: r.typ, nonce: r.nonce})
	}
	if got := send(); len(got) != 1 || !slices.Equal(got[0].remove, []string{"l"}) {
		t.Errorf("the listener is not removed: %v", got)
	}
}
