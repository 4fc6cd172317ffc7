package revoke

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Frames on a link that its filter has replaced confirm nothing that the filter was told on
// the new link, however late they are read.
func TestReplacedLinkConfirmsNothing(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		token := w.mint("a", false)
		w.pipe("node", contract.Hello{Instance: "i"})
		var old *link
		for l := range w.r.links {
			old = l
		}
		g, _ := w.pipe("node", contract.Hello{Instance: "i"})
		redis.be(gone)
		done := async(func() error { return w.delete(token) })
		g.invalidated()
		at := g.trusted().At
		_ = old.ack(contract.Ack{Applied: at, Durable: at}) // in a frame that was read before
		stillWaits(t, "a revocation that was confirmed on a former link", done)
		g.ack(at)
		if _, err := took(t, done); err != nil {
			t.Errorf("confirmed on the link that it has: %v", err)
		}
	})
}

// A filter has one link. A goodbye on it also counts for the links that the filter has
// given up, so no revocation waits for a half-open one.
func TestReplacedLinkIsEnded(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		w.pipe("node", contract.Hello{Instance: "i"})
		g, _ := w.pipe("node", contract.Hello{Instance: "i"})
		synctest.Wait()
		if s := w.r.Stats(); s.Links != 1 || s.KnownFilters != 1 {
			t.Errorf("%+v", s)
		}
		g.lease()
		g.send(contract.FrameBye, nil)
		synctest.Wait()
		if s := w.r.Stats(); s.Links != 0 || s.KnownFilters != 0 {
			t.Errorf("after the goodbye: %+v", s)
		}
	})
}

// A hello that waits for its welcome gives way to a later hello of the same filter, which
// has given up the first link.
func TestReplacedLinkIsNotWelcomed(t *testing.T) {
	var planned chan struct{}
	plan := func(o *Options) {
		planned = make(chan struct{})
		o.Planned = func(ctx context.Context, _ Node) {
			select {
			case <-planned:
			case <-ctx.Done():
			}
		}
	}
	virtually(t, plan, func(t *testing.T, w *world, _ *scripted) {
		f := w.dial("node")
		body, err := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: "i"})
		if err != nil {
			t.Fatal(err)
		}
		f.send(contract.FrameHello, body)
		synctest.Wait() // it has its place
		go func() {
			synctest.Wait()
			close(planned)
		}()
		g, _ := w.pipe("node", contract.Hello{Instance: "i"})
		_ = f.conn.SetReadDeadline(time.Now().Add(contract.Lease)) // fails on a closed connection, as it should be
		if kind, _, err := contract.ReadFrame(f.in); err == nil {
			t.Errorf("frame of type %d on the link that was given up", kind)
		}
		g.lease()
	})
}
