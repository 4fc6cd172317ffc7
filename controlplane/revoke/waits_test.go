package revoke

import (
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// heard records the reports to Options.Waits, in order.
type heard struct {
	mu  sync.Mutex
	all []Waits
}

func (h *heard) tweak(o *Options) {
	o.Waits = func(w Waits) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, w)
	}
}

// last returns the last report, or the zero value.
func (h *heard) last() (w Waits) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.all); n > 0 {
		w = h.all[n-1]
	}
	return w
}

// listening runs jumps with a recorder of waits.
func listening(t *testing.T, fn func(j *jumping, h *heard)) {
	t.Helper()
	jumps(t, false, func(j *jumping) {
		h := &heard{}
		j.tweak = h.tweak
		fn(j, h)
	})
}

// keep renews the lease of a filter and confirms what it is told, until its link ends.
func (f *fake) keep() {
	done := make(chan struct{})
	f.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for {
			kind, body, err := contract.ReadFrame(f.in)
			if err != nil {
				return
			}
			var at contract.Position
			switch kind {
			case contract.FrameInvalidate:
				m, err := contract.DecodeInvalidate(body)
				if err != nil {
					return
				}
				at = m.To
			case contract.FrameTrust:
				var m contract.TrustChange
				if contract.DecodeJSON(body, &m) != nil {
					return
				}
				at = m.At
			default:
				continue
			}
			if contract.WriteFrame(f.conn, contract.FrameAck, contract.Ack{Applied: at, Durable: at}.Encode()) != nil {
				return
			}
		}
	}()
	renewing := make(chan struct{})
	f.t.Cleanup(func() { _ = f.conn.Close(); <-renewing })
	go func() {
		defer close(renewing)
		for n := uint64(2); ; n++ {
			if contract.WriteFrame(f.conn, contract.FrameRenew, contract.EncodeNumber(n)) != nil {
				return
			}
			time.Sleep(contract.Lease / 4)
		}
	}()
}

// Filters of a backup that are away are reported soon after the leases of the former
// process have ended, before any revocation. The report is withdrawn when an operator
// declares them gone or the last of them is back.
func TestWaitsOfARestoredStore(t *testing.T) {
	for name, end := range map[string]func(j *jumping){
		"gone for good": func(j *jumping) {
			if err := j.r.Gone("node"); err != nil {
				j.t.Error(err)
			}
		},
		"linked again": func(j *jumping) {
			f, _ := j.pipe("node", contract.Hello{Instance: "i"})
			f.keep()
		},
	} {
		t.Run(name, func(t *testing.T) {
			listening(t, func(j *jumping, h *heard) {
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				f.cut()
				j.restored(time.Hour, 0, nil)
				here, _ := j.pipe("other", contract.Hello{Instance: "i"})
				here.keep()
				time.Sleep(waitsTold - time.Millisecond)
				if w := h.last(); w.Any() {
					t.Errorf("before the first lease is over: %+v", w)
				}
				time.Sleep(time.Millisecond)
				if w, want := h.last(), (Waits{Former: true, Filters: 1, Known: 2, Away: "node"}); w != want {
					t.Errorf("told %+v, want %+v", w, want)
				}
				says(t, j.revoke(j.touchApp()), "1 of 2 gateways", "node")
				end(j)
				time.Sleep(time.Second)
				if w := h.last(); w.Any() {
					t.Errorf("it is over: %+v", w)
				}
				if err := j.revoke(j.touchApp()); err != nil {
					t.Error(err)
				}
				if len(h.all) != 2 {
					t.Errorf("told %+v", h.all)
				}
			})
		})
	}
}

// A Redis that is away matters only if a filter may read it that is not linked: a linked
// filter does without. A wait that is over within a lease is not reported.
func TestWaitsOfARedisThatIsAway(t *testing.T) {
	h := &heard{}
	virtually(t, h.tweak, func(t *testing.T, w *world, redis *scripted) {
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.keep()
		time.Sleep(watchEvery)
		redis.be(gone)
		time.Sleep(time.Minute) // all filters are linked
		redis.be(fine)
		time.Sleep(time.Minute)
		lost, _ := w.pipe("lost", contract.Hello{Instance: "i"})
		lost.cut()
		redis.be(gone)
		time.Sleep(watchEvery + contract.Lease/2)
		redis.be(fine)
		time.Sleep(time.Minute)
		if h.last(); len(h.all) > 0 {
			t.Errorf("told %+v", h.all)
		}
		redis.be(gone)
		time.Sleep(time.Minute)
		if w, want := h.last(), (Waits{Filters: 1, Known: 2, Away: "lost"}); w != want {
			t.Errorf("told %+v, want %+v", w, want)
		}
		redis.be(fine)
		time.Sleep(2 * maxBackoff)
		if w := h.last(); w.Any() || len(h.all) != 2 {
			t.Errorf("told %+v", h.all)
		}
	})
}

// While Redis is away, a filter is waited for from the moment its link breaks. So is a
// filter that links and confirms nothing.
func TestWaitsThatBeginWhileRedisIsAway(t *testing.T) {
	for name, tt := range map[string]struct {
		begin func(w *world, f *fake)
		want  Waits
	}{
		"its link breaks": {
			func(_ *world, f *fake) { f.cut(); time.Sleep(waitsTold) },
			Waits{Filters: 1, Known: 1, Away: "node"},
		},
		"one comes and confirms nothing": {
			func(w *world, _ *fake) {
				if err := w.write(w.touch(gateway.Applications, w.app)); err != nil { // this withdraws the trust
					w.t.Error(err)
				}
				mute := w.dial("mute")
				w.t.Cleanup(func() { _ = mute.conn.Close() })
				body, err := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: "i"})
				if err != nil {
					w.t.Fatal(err)
				}
				mute.send(contract.FrameHello, body)
				go func() { _, _ = io.Copy(io.Discard, mute.conn) }()
				for n := range uint64(10) {
					mute.send(contract.FrameRenew, contract.EncodeNumber(n+1))
					time.Sleep(time.Second)
				}
			},
			Waits{Filters: 1, Known: 2, Linked: "mute"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &heard{}
			virtually(t, h.tweak, func(t *testing.T, w *world, redis *scripted) {
				f, _ := w.pipe("node", contract.Hello{Instance: "i"})
				f.keep()
				redis.be(gone)
				time.Sleep(time.Minute)
				if w := h.last(); w.Any() {
					t.Errorf("before: %+v", w)
				}
				tt.begin(w, f)
				if w := h.last(); w != tt.want {
					t.Errorf("told %+v, want %+v", w, tt.want)
				}
			})
		})
	}
}

// A linked filter that does not confirm what it was told about another Redis is waited for
// like one that is away, and reported as linked.
func TestWaitsOfALinkedFilter(t *testing.T) {
	h := &heard{}
	virtually(t, h.tweak, func(t *testing.T, w *world, redis *scripted) {
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		t.Cleanup(func() { _ = f.conn.Close() })
		lease := func(d time.Duration) {
			for n := range uint64(d / time.Second) {
				f.send(contract.FrameRenew, contract.EncodeNumber(n+1))
				time.Sleep(time.Second)
			}
		}
		frames := make(chan contract.TrustChange, 8)
		go func() {
			for {
				kind, body, err := contract.ReadFrame(f.in)
				if err != nil {
					return
				}
				var m contract.TrustChange
				if kind == contract.FrameTrust && contract.DecodeJSON(body, &m) == nil {
					frames <- m
				}
			}
		}()
		lease(2 * time.Second)
		redis.stand("run-2")
		lease(2 * contract.Lease)
		if w, want := h.last(), (Waits{Former: true, Filters: 1, Known: 1, Linked: "node"}); w != want {
			t.Errorf("told %+v, want %+v", w, want)
		}
		var at contract.Position
		for len(frames) > 0 {
			at = (<-frames).At
		}
		f.ack(at)
		lease(time.Second)
		if w := h.last(); w.Any() {
			t.Errorf("it has confirmed: %+v", w)
		}
	})
}

// A process without Redis waits for filters that were told of a Redis. A process that
// remembers no filters waits for Redis to be put in order. Both are reported.
func TestWaitsWithoutRedis(t *testing.T) {
	listening(t, func(j *jumping, h *heard) {
		f, _ := j.pipe("node", contract.Hello{Instance: "i"})
		j.rest()
		f.cut()
		j.crash()
		j.remote = nil
		j.open(nil)
		time.Sleep(waitsTold)
		if w, want := h.last(), (Waits{Former: true, None: true, Filters: 1, Known: 1, Away: "node"}); w != want {
			t.Errorf("told %+v, want %+v", w, want)
		}
	})
	// It does not wait for filters that it does not remember: no Redis will be put in
	// order.
	listening(t, func(j *jumping, h *heard) {
		j.remote = nil
		j.restored(time.Hour, 0, nil)
		time.Sleep(waitsTold)
		if w := h.last(); w.Any() {
			t.Errorf("told %+v", w)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		redis := inMood(gone)
		w := &world{t: t, virtual: true, remote: redis, fresh: true, tweak: h.tweak}
		w.store = w.openStore()
		t.Cleanup(func() { w.store.Close() })
		w.source = &source{store: w.store}
		w.open(nil)
		time.Sleep(waitsTold)
		if w := h.last(); !w.Strangers {
			t.Errorf("told %+v", w)
		}
		redis.be(fine)
		time.Sleep(2 * maxBackoff)
		if w := h.last(); w.Any() || !slices.ContainsFunc(h.all, func(w Waits) bool { return w.Strangers }) {
			t.Errorf("told %+v", h.all)
		}
	})
}

// A new store without Redis does not wait, although it remembers no filters.
func TestNewStoreWithoutRedisWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		w := &world{t: t, virtual: true, fresh: true, tweak: h.tweak}
		w.init(nil)
		time.Sleep(waitsTold)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, w := range h.all {
			if w.Any() {
				t.Errorf("told %+v", w)
			}
		}
	})
}
