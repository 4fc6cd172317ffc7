package revoke

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// settles waits until Redis is in order, for longer than any pause.
func (w *world) settles(t *testing.T) {
	t.Helper()
	for range 20 {
		time.Sleep(watchEvery) // virtual time, in which the keeper looks twice
		synctest.Wait()
		if s := w.r.Stats(); s.RedisUp && s.Trusted {
			return
		}
	}
	t.Fatalf("redis is not in order: %+v", w.r.Stats())
}

// TestEpochs: when Redis keeps its epoch, and when it gets another one. Tombstones and
// floors are replayed in every case.
func TestEpochs(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, w *world, redis *scripted)
		same bool
	}{
		{"nothing happened", func(*testing.T, *world, *scripted) {}, true},
		{"its connections were reset", func(_ *testing.T, w *world, _ *scripted) { w.r.keeper.fail() }, true},
		{"it was away", func(_ *testing.T, w *world, redis *scripted) {
			redis.be(gone)
			time.Sleep(time.Minute)
			redis.be(fine)
		}, true},
		{"a revocation was missed", func(t *testing.T, w *world, redis *scripted) {
			name := w.mint("missed", false)
			redis.be(gone)
			if err := w.delete(name); err != nil {
				t.Error(err)
			}
			redis.be(fine)
		}, true},
		{"it refused a record", func(_ *testing.T, w *world, redis *scripted) {
			redis.be(full)
			w.r.Refill(scope, contract.HashToken([]byte("kept")))
			synctest.Wait()
			redis.be(fine)
		}, true},
		{"a record may be written later", func(_ *testing.T, w *world, redis *scripted) {
			redis.be(frozen)
			w.r.Refill(scope, contract.HashToken([]byte("kept")))
			time.Sleep(redisTimeout)
			redis.be(fine)
		}, false},
		{"it was emptied", func(_ *testing.T, _ *world, redis *scripted) { redis.restore(map[string][]byte{}) }, false},
		{"it was emptied, and written to before anybody looked", func(t *testing.T, w *world, redis *scripted) {
			name := w.mint("b", false)
			redis.restore(map[string][]byte{})
			if err := w.delete(name); err != nil {
				t.Error(err)
			}
		}, false},
		{"it went back, and was written to before anybody looked", func(t *testing.T, w *world, redis *scripted) {
			first, second := w.mint("b", false), w.mint("c", false)
			old := redis.snapshot()
			if err := w.delete(first); err != nil {
				t.Error(err)
			}
			redis.restore(old)
			if err := w.delete(second); err != nil {
				t.Error(err)
			}
		}, false},
		{"it has gone back", func(t *testing.T, w *world, redis *scripted) {
			old := redis.snapshot()
			if err := w.delete(w.mint("b", false)); err != nil {
				t.Error(err)
			}
			redis.restore(old)
		}, false},
		{"it is ahead", func(_ *testing.T, w *world, redis *scripted) {
			c := redis.clockNow(w.t)
			c.Position += 7
			redis.put(contract.RedisClockKey, c.Marshal())
		}, false},
		{"its clock is garbage", func(_ *testing.T, _ *world, redis *scripted) {
			redis.put(contract.RedisClockKey, []byte("{"))
		}, false},
		{"it is another server", func(_ *testing.T, _ *world, redis *scripted) {
			redis.mu.Lock()
			defer redis.mu.Unlock()
			redis.id = "run-2"
		}, false},
		{"a restart", func(_ *testing.T, w *world, _ *scripted) { w.close(w.r); w.open(nil) }, true},
		{"a crash", func(_ *testing.T, w *world, _ *scripted) { w.crash(); w.open(nil) }, false},
		{"a restart with a store that has gone back", func(t *testing.T, w *world, redis *scripted) {
			w.close(w.r)
			c := redis.clockNow(t)
			c.Revision += 5
			redis.put(contract.RedisClockKey, c.Marshal())
			w.open(nil)
		}, false},
		{"a restart, and somebody else has written", func(t *testing.T, w *world, redis *scripted) {
			w.close(w.r)
			c := redis.clockNow(t)
			c.Log = "another"
			redis.put(contract.RedisClockKey, c.Marshal())
			w.open(nil)
		}, false},
		{"a restart, and Redis is another one", func(_ *testing.T, w *world, redis *scripted) {
			w.close(w.r)
			redis.mu.Lock()
			redis.id = "run-2"
			redis.mu.Unlock()
			w.open(nil)
		}, false},
		{"a restart, of a release that writes otherwise", func(t *testing.T, w *world, _ *scripted) {
			w.close(w.r)
			former := w.r.keeper.stored
			former.Clean, former.Layout = true, layout-1
			if err := w.r.persistEpoch(t.Context(), former); err != nil {
				t.Error(err)
			}
			w.open(nil)
		}, false},
		{"the row of an older release", func(t *testing.T, w *world, _ *scripted) {
			w.close(w.r)
			if err := w.r.persistEpoch(t.Context(), Epoch{Epoch: w.r.trust.Epoch, Clean: true}); err != nil {
				t.Error(err)
			}
			w.open(nil)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				w.mint("kept", false)
				name := w.mint("gone", false)
				if err := w.delete(name); err != nil {
					t.Fatal(err)
				}
				w.settles(t)
				was := w.trust()
				tt.do(t, w, redis)
				w.settles(t)
				now := w.trust()
				if (now.Epoch == was.Epoch) != tt.same {
					t.Errorf("trusted %+v, then %+v", was, now)
				}
				if e := redis.entry(t, "gone"); e.Revoked == 0 {
					t.Error("the tombstone is not there")
				}
				if c := redis.clockNow(t); c.Epoch != now.Epoch || c.Log != w.r.history.id || c.Position != w.r.history.at {
					t.Errorf("%+v, the log is at %d", c, w.r.history.at)
				}
			})
		})
	}
}

// crash ends a control plane as if it were killed: nothing is finished.
func (w *world) crash() {
	w.r.cancel()
	synctest.Wait()
	w.r.mu.Lock()
	for l := range w.r.links {
		l.end()
	}
	w.r.mu.Unlock()
	w.r.owned.Wait()
}

// A replica is not written to. A server that does not report its identity is trusted
// without a name.
func TestWhoAnswers(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		redis.mu.Lock()
		redis.role, redis.values = "slave", map[string][]byte{}
		redis.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := w.r.Stats(); s.RedisUp || len(redis.snapshot()) != 0 {
			t.Errorf("%+v", s)
		}
		redis.mu.Lock()
		redis.role, redis.id = "", ""
		redis.mu.Unlock()
		w.settles(t)
		if trust := w.trust(); trust.Epoch == 0 || trust.Servers != nil {
			t.Errorf("%+v", trust)
		}
	})
}

// A process ends between commit and publication. The next process has the revocation in its
// log before it welcomes a filter, and in Redis before it trusts Redis again and before it
// writes the clock.
func TestCrashBeforePublication(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		name := w.mint("a", false)
		w.mint("given before", true)
		w.settles(t)
		f, wel := w.pipe("node", contract.Hello{Instance: "i"})
		f.lease()
		at := f.first.To
		_, _ = w.r.Begin()
		revocation, err := w.commit(w.remove(name))
		if err != nil {
			t.Fatal(err)
		}
		creation, err := w.commit(func(tx store.Tx) error {
			res, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: "n", Spec: &gateway.Token{
				Credential: w.app, AccessToken: "given", TokenType: "bearer", ExpiresIn: 7200}})
			if err == nil {
				tx.Announce(res.Key(), store.Created)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.crash()
		redis.be(waiting)
		redis.mu.Lock()
		redis.order = nil
		redis.mu.Unlock()
		w.open(nil)
		g := w.dial("node")
		welcomed := make(chan contract.Welcome, 1)
		go func() { welcomed <- g.hello(contract.Hello{Instance: "i", Log: wel.Log, Applied: at}) }()
		synctest.Wait()
		// Redis is not trusted until it holds what was not published.
		if again := <-welcomed; again.From != 0 || again.Log == wel.Log || again.Trust.Epoch != 0 {
			t.Errorf("%+v", again)
		}
		settled := async(func() error { return w.r.Settle(t.Context()) })
		redis.be(fine)
		redis.open()
		synctest.Wait()
		var revisions []uint64
		for _, i := range g.first.Items {
			revisions = append(revisions, i.Revision)
		}
		if n := len(revisions); n < 2 || revisions[n-2] != revocation.Revision || revisions[n-1] != creation.Revision {
			t.Errorf("told of %v, not of %d and %d", revisions, revocation.Revision, creation.Revision)
		}
		if n := len(redis.order); n == 0 || redis.order[n-1] != contract.RedisClockKey {
			t.Errorf("written: %v", redis.order)
		}
		if redis.entry(t, "a").Revoked != revocation.Revision || redis.entry(t, "given").Record == nil {
			t.Errorf("%+v %+v", redis.entry(t, "a"), redis.entry(t, "given"))
		}
		// It knew a filter, so a lease of the predecessor may last.
		if d, err := took(t, settled); err != nil || d > contract.Lease {
			t.Errorf("%v after %v", err, d)
		}
	})
}

// Redis cannot be written: trust is withdrawn once, and success requires the confirmation
// of every known filter.
func TestTrustIsWithdrawn(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second := w.mint("a", false), w.mint("b", false)
		f, wel := w.pipe("here", contract.Hello{Instance: "i"})
		g, _ := w.pipe("there", contract.Hello{Instance: "j"})
		redis.be(gone)
		done := async(func() error { return w.delete(first) })
		for _, x := range []*fake{f, g} {
			m := x.invalidated()
			change := x.trusted()
			if change.At != m.To+1 || change.Trust.Epoch != 0 {
				t.Errorf("%+v after %+v", change, m)
			}
			if x == f {
				x.ack(change.At)
			} else {
				x.ack(m.To) // the revocation is applied, but Redis is still believed
			}
		}
		stillWaits(t, "revoking", done)
		g.cut()
		time.Sleep(2 * time.Second)
		f.lease() // otherwise its link would end
		_, err := took(t, done)
		says(t, err, "there")
		// The next revocation needs no further withdrawal, and f has confirmed already.
		done = async(func() error { return w.delete(second) })
		m := f.invalidated()
		f.ack(m.To)
		f.lease()
		stillWaits(t, "revoking", done)
		settled := async(func() error { return w.r.Settle(t.Context()) })
		redis.be(fine)
		change := f.trusted()
		if change.At != m.To+1 || change.Trust.Epoch != wel.Trust.Epoch {
			t.Errorf("%+v", change)
		}
		for _, c := range []<-chan error{done, settled} {
			if _, err := took(t, c); err != nil {
				t.Error(err)
			}
		}
		if s := w.r.Stats(); s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A filter that was told to believe Redis again and has not confirmed it may or may not
// believe it. It counts as believing.
func TestTrustOnItsWay(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second := w.mint("a", false), w.mint("b", false)
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		redis.be(gone)
		done := async(func() error { return w.delete(first) })
		f.invalidated()
		f.ack(f.trusted().At)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		redis.be(fine)
		f.trusted() // without an acknowledgement
		f.cut()
		redis.be(gone)
		_, err := took(t, async(func() error { return w.delete(second) }))
		says(t, err, "node")
	})
}

// stand makes another, empty server answer for Redis.
func (s *scripted) stand(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.values = id, map[string][]byte{}
}

// A server that was replaced may still run, and a filter that believed it may still reach
// it. What is in the new server confirms only for filters that have heard of it.
func TestReplacedServer(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second, third := w.mint("a", false), w.mint("b", false), w.mint("c", false)
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.cut()
		redis.stand("run-2")
		w.settles(t)
		_, err := took(t, async(func() error { return w.delete(first) }))
		says(t, err, "node", "replaced")
		w.restart(t) // a restart does not change this
		_, err = took(t, async(func() error { return w.delete(second) }))
		says(t, err, "node")
		f, _ = w.pipe("node", contract.Hello{Instance: "i"})
		if err := w.r.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		f.cut()
		if err := w.delete(third); err != nil {
			t.Errorf("the filter believes the new one: %v", err)
		}
	})
}

// restart ends the control plane in good order, and waits until the next one has put Redis
// in order.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.close(w.r)
	w.open(nil)
	w.settles(t)
	time.Sleep(contract.Lease)
}

// What a predecessor knew of which filter believes which server is kept: a filter that is
// away and believes the present server is not waited for.
func TestRestartWaitsForNobodyWhoBelievesThisServer(t *testing.T) {
	for name, again := range map[string]func(t *testing.T, w *world){
		"restarted": func(t *testing.T, w *world) { w.restart(t) },
		"killed": func(t *testing.T, w *world) {
			w.crash()
			w.open(nil)
			w.settles(t)
			time.Sleep(contract.Lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
				token := w.mint("a", false)
				f, _ := w.pipe("node", contract.Hello{Instance: "i"})
				f.cut()
				w.settles(t)
				again(t, w)
				if err := w.delete(token); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// nobody is the tracker of a Redis that is part of the control plane.
type nobody struct{}

// Put ignores the key.
func (nobody) Put(string, []byte, int64, bool) bool { return true }

// Value has none.
func (nobody) Value(string) []byte { return nil }

// A server that was part of a control plane has ended with it. Another server may still
// run, whatever replaces it.
func TestServerThatEndsWithTheControlPlane(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after Tracker
		waits         bool
	}{
		"both within":      {nobody{}, nobody{}, false},
		"the second alone": {nil, nobody{}, true},
		"the first alone":  {nobody{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(o *Options) { o.Tracker = tt.before }, func(t *testing.T, w *world, redis *scripted) {
				first, second := w.mint("a", false), w.mint("b", false)
				f, _ := w.pipe("node", contract.Hello{Instance: "i"})
				f.cut()
				w.settles(t)
				w.tweak = func(o *Options) { o.Tracker = tt.after }
				redis.stand("run-2")
				w.restart(t)
				_, err := took(t, async(func() error { return w.delete(first) }))
				if !tt.waits {
					if err != nil {
						t.Error(err)
					}
					return
				}
				says(t, err, "node")
				redis.stand("run-3") // run-2 has ended, the first server has not
				w.restart(t)
				_, err = took(t, async(func() error { return w.delete(second) }))
				says(t, err, "node")
			})
		})
	}
}

// The end of a process does not confirm what it has left on its disk: its link may be half
// open, and the withdrawal of trust may never have reached it.
func TestEndedConfirmsNoTrust(t *testing.T) {
	const process = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		token := w.mint("a", false)
		w.pipe("node", contract.Hello{Instance: instance(process, "x")})
		redis.be(gone)
		done := async(func() error { return w.delete(token) })
		synctest.Wait()
		if err := w.r.Ended(Node{ID: "node"}, contract.Ended{Processes: []string{process}}); !errors.Is(err, errNoSuccessor) {
			t.Errorf("%v", err)
		}
		_, err := took(t, done)
		says(t, err, "node")
	})
}

// A goodbye, or a report of the agent, ends the wait of a publication for a filter.
func TestForgottenFiltersConfirm(t *testing.T) {
	const process = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	for name, leave := range map[string]func(t *testing.T, w *world, f *fake){
		"bye": func(_ *testing.T, w *world, f *fake) {
			g, _ := w.pipe("node", contract.Hello{Instance: instance(process, "x")})
			g.send(contract.FrameBye, nil)
		},
		"ended": func(t *testing.T, w *world, _ *fake) {
			if err := w.r.Ended(Node{ID: "another"}, contract.Ended{Processes: []string{process}, Gone: true}); err != nil || w.r.Stats().KnownFilters != 1 {
				t.Errorf("%v, %d known", err, w.r.Stats().KnownFilters)
			}
			if err := w.r.Ended(Node{ID: "node"}, contract.Ended{Processes: []string{process}, Gone: true}); err != nil || w.rows() != 0 {
				t.Errorf("%v, %d rows", err, w.rows())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				token := w.mint("a", false)
				f, _ := w.pipe("node", contract.Hello{Instance: instance(process, "x")})
				f.cut()
				redis.be(gone)
				_, err := took(t, async(func() error { return w.delete(token) }))
				says(t, err, "node")
				settled := async(func() error { return w.r.Settle(t.Context()) })
				stillWaits(t, "settling", settled)
				leave(t, w, f)
				if d, err := took(t, settled); err != nil || d != 0 {
					t.Errorf("%v after %v", err, d)
				}
			})
		})
	}
}

// What is published while Redis is being put in order is in Redis before Redis counts as in
// order.
func TestReplayTakesWhatComesMeanwhile(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second := w.mint("a", false), w.mint("b", false)
		if err := w.delete(first); err != nil {
			t.Fatal(err)
		}
		w.pipe("node", contract.Hello{Instance: "i"}) // reads Redis, and nothing more from its link
		redis.be(waiting)
		w.r.keeper.fail()
		synctest.Wait() // the old tombstone is being replayed
		done := async(func() error { return w.delete(second) })
		stillWaits(t, "revoking", done)
		redis.be(fine)
		redis.open()
		if _, err := took(t, done); err != nil {
			t.Error(err)
		}
		w.settles(t)
		if e := redis.entry(t, "b"); e.Revoked != w.store.Revision() {
			t.Errorf("%+v", e)
		}
		if c := redis.clockNow(t); c.Position != w.r.history.at {
			t.Errorf("%+v, the log is at %d", c, w.r.history.at)
		}
	})
}

// A server that may evict keys that guard records is warned about.
func TestEvictionIsWarnedOf(t *testing.T) {
	for policy, warned := range map[string]bool{"allkeys-lru": true, "noeviction": false, "volatile-lru": false, "": false} {
		var out bytes.Buffer
		virtually(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&out, nil)) }, func(_ *testing.T, w *world, redis *scripted) {
			redis.mu.Lock()
			redis.eviction, redis.id = policy, "run-2"
			redis.mu.Unlock()
			w.settles(t)
		})
		if got := strings.Contains(out.String(), "maxmemory_policy="); got != warned {
			t.Errorf("%q: %s", policy, out.String())
		}
	}
}
