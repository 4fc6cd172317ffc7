package server

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// searched is a session whose proxy refuses route tables without a name, if they are of the first
// state or are the bad one.
type searched struct {
	*session
	out []*response
}

func (s *searched) publish(version int) {
	var rs []*resource.Resource
	for i := range 800 {
		rs = append(rs, resource.New(resource.Route, fmt.Sprintf("r%03d", i), fmt.Append(nil, version)))
	}
	s.renew(snapshot.State{Set: resource.NewSet(rs, nil), Revision: uint64(version), Version: uint64(version)})
}

// answer answers the next response, and reports whether there was one.
func (s *searched) answer(t *testing.T) bool {
	t.Helper()
	for r := s.next(); r != nil; r = s.next() {
		s.out = append(s.out, r)
	}
	if len(s.out) == 0 {
		return false
	}
	q := request{url: resource.Route, nonce: s.out[0].nonce}
	for _, r := range s.out[0].add {
		if string(r.Body) == "1" || r.Name == "r777" {
			q.refused, q.text = true, "no"
		}
	}
	s.out = s.out[1:]
	if _, err := s.receive(q); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestPartsOfAnOlderSearchTakePartInTheNewest: a state that comes when the search of the one before
// has spent all that it may is searched as well as any other.
func TestPartsOfAnOlderSearchTakePartInTheNewest(t *testing.T) {
	for _, after := range []int{0, 100, 240, 250, 255, 10_000} {
		s := &searched{session: newSession("n", false, Limits{}.withDefaults(true), &diffs{})}
		s.publish(1)
		if _, err := s.receive(request{url: resource.Route, subscribe: []string{"*"}}); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < after && s.answer(t); i++ {
		}
		s.publish(2)
		for s.answer(t) {
		}
		blamed := 0
		for _, x := range s.rejections() {
			blamed += len(x.Resources)
		}
		if blamed != 1 {
			t.Errorf("after %d answers: %d are blamed", after, blamed)
		}
	}
}
