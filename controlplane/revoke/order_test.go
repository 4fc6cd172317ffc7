package revoke

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

func (w *world) remove(name string) func(store.Tx) error {
	return func(tx store.Tx) error { return tx.Delete(gateway.Tokens, scope, name, 0) }
}

// commitOnly removes a token. The returned function publishes the commit.
func (w *world) commitOnly(name string) (c store.Commit, publish func() error) {
	w.t.Helper()
	end, _ := w.r.Begin()
	c, err := w.commit(w.remove(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return c, func() error { return end(w.t.Context(), c) }
}

// Two revocations are published in another order than they were committed, while Redis is
// slow. A filter that has acknowledged only one of them and lost its link gets exactly the
// other one.
func TestOrderOfPositions(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second := w.mint("a", false), w.mint("b", false)
		f, wel := w.pipe("node", contract.Hello{Instance: "i"})
		f.lease()
		synctest.Wait() // what the new filter needs is in Redis
		redis.be(waiting)
		before, publishFirst := w.commitOnly(first)
		after, publishSecond := w.commitOnly(second)
		later := async(publishSecond)
		synctest.Wait() // it is being written to Redis
		earlier := async(publishFirst)
		synctest.Wait()
		redis.be(fine)
		redis.open()
		m := f.invalidated()
		if len(m.Items) != 1 || m.Items[0].Revision != after.Revision || m.From != f.first.To {
			t.Fatalf("%+v after %+v", m, f.first)
		}
		f.ack(m.To)
		f.cut()
		g, again := w.pipe("node", contract.Hello{Instance: "i", Log: wel.Log, Applied: m.To})
		if again.From != m.To {
			t.Fatalf("%+v", again)
		}
		rest := g.invalidated()
		if len(rest.Items) != 1 || rest.Items[0].Revision != before.Revision || rest.From != m.To || rest.To != m.To+1 {
			t.Errorf("resumed with %+v", rest)
		}
		g.ack(rest.To)
		for _, c := range []<-chan error{later, earlier} {
			if _, err := took(t, c); err != nil {
				t.Error(err)
			}
		}
	})
}

// A filter of another log, or one that claims more than there is, starts anew.
func TestResume(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		if err := w.delete(w.mint("a", false)); err != nil {
			t.Fatal(err)
		}
		f, wel := w.pipe("node", contract.Hello{Instance: "i"})
		at := f.first.To
		for _, tt := range []struct {
			log     contract.LogID
			applied contract.Position
			want    contract.Position
		}{{wel.Log, at, at}, {wel.Log, at + 1, 0}, {"another", at, 0}, {"", 0, 0}, {wel.Log, 0, 0}} {
			_, got := w.pipe("node", contract.Hello{Instance: "i", Log: tt.log, Applied: tt.applied})
			if got.From != tt.want || got.Log != wel.Log {
				t.Errorf("%+v: welcomed with %+v", tt, got)
			}
		}
	})
}

// A caller that finds a token gone waits like the caller that removed it, both while a link
// is frozen and while the other commit is not yet published.
func TestSettleWaits(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		name := w.mint("a", false)
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.lease()
		_, publish := w.commitOnly(name)
		second := async(func() error { return w.r.Settle(t.Context()) })
		stillWaits(t, "settling before the publication", second)
		first := async(publish)
		m := f.invalidated()
		stillWaits(t, "settling without an acknowledgement", second)
		third := async(func() error { return w.r.Settle(t.Context()) })
		stillWaits(t, "settling without an acknowledgement", third)
		f.ack(m.To)
		for _, c := range []<-chan error{first, second, third} {
			if d, err := took(t, c); err != nil || d != 0 {
				t.Errorf("%v after %v", err, d)
			}
		}
	})
}

// A write that never publishes is waited for until the caller's patience ends. An abandoned
// write is not waited for any more.
func TestSettleAfterAbandoning(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		_, abandon := w.r.Begin()
		waiting := async(func() error { return w.r.Settle(t.Context()) })
		d, err := took(t, waiting)
		if says(t, err, "another write"); d != patience {
			t.Errorf("after %v", d)
		}
		abandon()
		if err := w.r.Settle(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// hostedElsewhere makes a service of another control plane.
func (w *world) hostedElsewhere(tx store.Tx) error {
	_, err := tx.Create(&model.Resource{Kind: gateway.Services, Scope: "also", Name: "s", Spec: &gateway.Service{}})
	return err
}

// removeWithElsewhere removes that service with a token.
func (w *world) removeWithElsewhere(name string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return errors.Join(w.remove(name)(tx), tx.Delete(gateway.Services, "also", "s", 0))
	}
}

// Whoever looks for something in one control plane waits for no write in another one, once it
// is known that it is one. A write that took away something of both is waited for by both.
func TestSettleWaitsForNoOtherWrite(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		name := w.mint("a", false)
		w.must(w.hostedElsewhere)
		publish, _ := w.r.Begin()
		c, err := w.commit(w.removeWithElsewhere(name))
		if err != nil {
			t.Fatal(err)
		}
		settle := func(scope string) <-chan error {
			return async(func() error { return w.r.Settle(t.Context(), scope) })
		}
		uncertain := settle("other")
		stillWaits(t, "before it is known whom it concerns", uncertain)
		redis.be(waiting)
		done := async(func() error { return publish(t.Context(), c) })
		if d, err := took(t, uncertain); err != nil || d != 0 {
			t.Errorf("another control plane waits %v: %v", d, err)
		}
		own, also := settle(scope), settle("also")
		stillWaits(t, "the same control plane", own)
		stillWaits(t, "what went with it", also)
		redis.be(fine)
		redis.open()
		for _, c := range []<-chan error{done, own, also} {
			if d, err := took(t, c); err != nil || d != 0 {
				t.Errorf("%v after %v", err, d)
			}
		}
	})
}

// A service that is gone took with it a token of another control plane. Whoever finds that it
// is gone waits until a filter that may remember the token has acknowledged that.
func TestSettleWhereSomethingElseWent(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		name := w.mint("a", false)
		w.must(w.hostedElsewhere)
		if err := w.write(w.removeWithElsewhere(name)); err != nil {
			t.Fatal(err)
		}
		about := matterIn([]string{"also"})
		if latest, _ := w.r.revocations(&about); len(latest) != 1 {
			t.Errorf("%+v", latest)
		}
	})
}

// A panic between the commit and its publication costs its caller an answer, and no filter the
// revocation. Nobody waits for the write afterwards.
func TestPanicBeforePublication(t *testing.T) {
	var trouble atomic.Bool
	virtually(t, func(o *Options) {
		o.Resolver = breaking{scopes.Each{}, &trouble}
	}, func(t *testing.T, w *world, redis *scripted) {
		f, _ := w.pipe("node", contract.Hello{Instance: "i"}) // it is asked whether its scope changes
		f.cut()
		name := w.mint("a", false)
		w.must(w.hostedElsewhere)
		publish, _ := w.r.Begin()
		c, err := w.commit(w.removeWithElsewhere(name))
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			trouble.Store(true)
			_ = publish(t.Context(), c)
		}()
		trouble.Store(false)
		if d, err := took(t, async(func() error { return w.r.Settle(t.Context(), scope) })); err != nil || d != 0 {
			t.Errorf("%v after %v", err, d)
		}
		if e := redis.entry(t, "a"); e.Revoked != c.Revision {
			t.Errorf("%+v", e)
		}
	})
}

// breaking is a resolver that panics while there is trouble.
type breaking struct {
	scopes.Resolver
	trouble *atomic.Bool
}

// Shapes implements [scopes.Resolver].
func (b breaking) Shapes(scope string, key model.Key) bool {
	if b.trouble.Load() {
		panic("trouble")
	}
	return b.Resolver.Shapes(scope, key)
}

// A revocation that was answered 503 stays unconfirmed for a caller that repeats it, until
// what it waits for has happened.
func TestSettleAfterRefusal(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		name := w.mint("a", false)
		f, wel := w.pipe("gateway-1", contract.Hello{Instance: "i"})
		f.cut()
		redis.be(gone)
		_, err := took(t, async(func() error { return w.delete(name) }))
		says(t, err, "Redis could not be written", "gateway-1")
		_, err = took(t, async(func() error { return w.r.Settle(t.Context()) }))
		says(t, err, "gateway-1")
		if s := w.r.Stats(); s.Pending != 1 || s.Unconfirmed != 1 || s.Trusted {
			t.Errorf("%+v", s)
		}
		repeated := async(func() error { return w.r.Settle(t.Context()) })
		stillWaits(t, "settling", repeated)
		// The filter returns, is told that Redis is not trusted, and confirms it.
		g := w.dial("gateway-1")
		g.hello(contract.Hello{Instance: "i", Log: wel.Log, Applied: f.first.To})
		m := g.invalidated()
		stillWaits(t, "settling", repeated)
		g.ack(m.To)
		if _, err := took(t, repeated); err != nil {
			t.Error(err)
		}
		if s := w.r.Stats(); s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Every caller is answered within its patience, whatever is frozen.
func TestPatience(t *testing.T) {
	for _, mood := range []mood{fine, gone, frozen, full} {
		virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
			names := []string{w.mint("a", false), w.mint("b", false)}
			f, _ := w.pipe("frozen gateway", contract.Hello{Instance: "i"})
			f.lease() // from here on it neither reads nor closes its link
			redis.be(mood)
			var calls []<-chan error
			for _, name := range names {
				calls = append(calls, async(func() error { return w.delete(name) }))
			}
			begun := time.Now()
			synctest.Wait()
			calls = append(calls, async(func() error { return w.r.Settle(t.Context()) }))
			for _, c := range calls {
				err := <-c
				if d := time.Since(begun); d > patience {
					t.Errorf("redis %d: answered after %v", mood, d)
				}
				if mood == fine && err != nil {
					t.Errorf("its lease is over: %v", err)
				} else if mood != fine {
					says(t, err, "frozen gateway")
				}
			}
		})
	}
}

// A creation never fails, and promises nothing.
func TestCreationIsNoRevocation(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.cut()
		redis.be(gone)
		w.mint("given", true)
		if s := w.r.Stats(); !s.Trusted || s.Pending != 0 || s.Revocations != 0 {
			t.Errorf("%+v", s)
		}
		if err := w.r.Settle(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A transaction function that runs twice, or fails, publishes what was committed, once.
func TestStageRunsTwice(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		name := w.mint("a", false)
		publish, _ := w.r.Begin()
		var c store.Commit
		for _, last := range []bool{false, true} {
			var err error
			c, err = w.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
				if err := tx.Delete(gateway.Tokens, scope, name, 0); err != nil {
					return err
				}
				res, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: "n", Spec: &gateway.Token{
					Credential: w.app, AccessToken: "a", TokenType: "bearer", ExpiresIn: 7200}})
				if err != nil {
					return err
				}
				tx.Announce(res.Key(), store.Created)
				if err := w.r.Stage(tx); err != nil {
					return err
				}
				if !last {
					return context.Canceled
				}
				return nil
			})
			if last != (err == nil) {
				t.Fatal(err)
			}
		}
		if err := publish(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		if n := len(f.first.Items); n == 0 || f.first.Items[n-1].Revision != c.Revision {
			t.Errorf("%+v", f.first)
		}
	})
}

// A commit that is not published because the control plane stops does not answer the
// callers that wait for it.
func TestSettleWhileStopping(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		name := w.mint("a", false)
		_, publish := w.commitOnly(name)
		settled := async(func() error { return w.r.Settle(t.Context()) })
		synctest.Wait()
		w.r.calls.wait(t.Context()) // as Close begins
		says(t, publish(), "stopping")
		stillWaits(t, "settling", settled)
		w.close(w.r)
		says(t, <-settled, "stopping")
	})
}

// A revocation may be published after a later commit has made a token with the same value.
// It must leave the record of that token in Redis: filters that answer from memory would
// not notice that the record is missing.
func TestLateRevocationLeavesANewerToken(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		_, late := w.commitOnly(w.mint("a", false))
		w.mint("a", true)
		w.settles(t)
		if redis.entry(t, "a").Record == nil {
			t.Fatal("the new token is not in Redis")
		}
		if err := late(); err != nil {
			t.Fatal(err)
		}
		w.settles(t)
		if redis.entry(t, "a").Record == nil {
			t.Error("the new token is in Redis no more")
		}
	})
}
