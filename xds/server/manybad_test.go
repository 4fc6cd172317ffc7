package server_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// clusters returns clusters and their names.
func clusters(n int) (rs []*resource.Resource, names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("c%03d", i))
		rs = append(rs, xdstest.Cluster(names[i], s))
	}
	return rs, names
}

// undecodable refuses every response with clusters, and names none.
func undecodable(u resource.TypeURL, _ []string) string {
	if u == resource.Cluster {
		return "it cannot be decoded"
	}
	return ""
}

// allRefused waits until there is an answer to everything, and checks what counts as refused.
func allRefused(t *testing.T, r *rig, names []string) {
	t.Helper()
	var refused []string
	for _, x := range r.waitFor(t, answered).Rejected {
		refused = append(refused, x.Resources...)
	}
	slices.Sort(refused)
	if !slices.Equal(refused, names) {
		t.Errorf("%d of %d count as refused", len(refused), len(names))
	}
}

// TestTheSearchEndsNoStream: a proxy that refuses a large number of clusters answers more often than
// it may ask for so many. It says all that it refuses on its first stream.
func TestTheSearchEndsNoStream(t *testing.T) {
	r := setup(t, func(c *server.Config) { c.Limits.Burst, c.Limits.Rate = 300, 1 })
	rs, names := clusters(800)
	r.publish(rs...)
	r.dial(t, xdstest.Options{Relay: true, Reject: undecodable})
	allRefused(t, r, names)
}

// TestResponsesOfAStateShareASearch: a state that takes several responses, each of which is
// refused, causes no more responses than one that takes one. The next state is searched anew.
func TestResponsesOfAStateShareASearch(t *testing.T) {
	r := setup(t, func(c *server.Config) { c.Limits.MessageBytes = 16 << 10 })
	rs, names := clusters(800)
	r.publish(rs...)
	var count atomic.Int64
	r.dial(t, xdstest.Options{Relay: true, Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Cluster {
			count.Add(1)
		}
		return undecodable(u, names)
	}})
	allRefused(t, r, names)
	size := 0
	for _, x := range rs {
		size += len(x.Body) + len(x.Name) + len(x.Version) + len(x.Type) + 32
	}
	whole := int64(size/(12<<10) + 1) // responses before the first is refused, at most
	if n := count.Load(); whole < 4 || n > whole+256 {
		t.Errorf("%d responses, %d of them with parts of the state", n, whole)
	}
	count.Store(0)
	more, other := clusters(802)
	r.publish(append(rs, more[800:]...)...)
	r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == r.rev && answered(p) })
	allRefused(t, r, other)
	if n := count.Load(); n != 3 {
		t.Errorf("%d responses with two clusters more", n)
	}
}

// tally counts what observers are told of responses.
type tally struct {
	server.Nobody
	sent, answers atomic.Int64
}

func (c *tally) Sent(server.Event)         { c.sent.Add(1) }
func (c *tally) Acknowledged(server.Event) { c.answers.Add(1) }
func (c *tally) Rejected(server.Event)     { c.answers.Add(1) }

// TestTheSearchFillsNoLog: refusals of the search are logged no more often than others, and
// observers hear of each, so that everything that was sent has an answer.
func TestTheSearchFillsNoLog(t *testing.T) {
	told, out := &tally{}, &lockedBuffer{}
	r := setup(t, func(c *server.Config) { c.Observer, c.Log = told, slog.New(slog.NewTextHandler(out, nil)) })
	rs, names := clusters(400)
	r.publish(rs...)
	r.dial(t, xdstest.Options{Relay: true, Reject: undecodable})
	allRefused(t, r, names)
	if sent, answers := told.sent.Load(), told.answers.Load(); sent < 257 || sent != answers {
		t.Errorf("%d responses, %d answers", sent, answers)
	}
	if n := strings.Count(out.String(), "configuration_"); n == 0 || n > 20 {
		t.Errorf("%d lines", n)
	}
}
