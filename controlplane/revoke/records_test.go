package revoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// A new token is in Redis when the call that issues it returns, with the floors of its
// owners, and with the full life of a record.
func TestCreatedTokensAreInRedis(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		for value, announce := range map[string]bool{"minted": false, "given": true} {
			w.mint(value, announce)
			r := redis.entry(t, value).Record
			if r == nil || r.Epoch != w.trust().Epoch || r.Until != time.Now().Add(contract.RecordLife).UnixMilli() {
				t.Errorf("%s: %+v", value, r)
			}
			if f := redis.floor(t, contract.RedisCredentialKey(scope, w.app)); f != 0 {
				t.Errorf("%s: floor %d", value, f)
			}
		}
		// A Redis that does not answer costs its timeout, but no error.
		redis.be(frozen)
		begun := time.Now()
		w.mint("cold", false)
		if d := time.Since(begun); d > redisTimeout {
			t.Errorf("issued after %v", d)
		}
		redis.be(gone)
		time.Sleep(time.Minute)
		begun = time.Now()
		w.mint("dead", false)
		if d := time.Since(begun); d != 0 {
			t.Errorf("issued after %v", d)
		}
	})
}

// touch changes an owner, which voids its records.
func (w *world) touch(kind *model.Kind, name string) func(store.Tx) error {
	return func(tx store.Tx) error {
		old, err := tx.Get(kind, scope, name)
		if err != nil {
			return err
		}
		_, err = tx.Update(old, 0)
		return err
	}
}

// The floor of an owner rises with each revocation, and a token's record that is written
// afterwards never lowers it.
func TestFloorsAreNotLowered(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.mint("a", false)
		for _, owner := range []struct {
			kind *model.Kind
			name string
			key  string
		}{
			{gateway.Applications, w.app, contract.RedisCredentialKey(scope, w.app)},
			{gateway.Consumers, w.owner, contract.RedisConsumerKey(scope, w.owner)},
		} {
			w.source.owner = w.owner
			w.must(w.touch(owner.kind, owner.name))
			want := int(w.store.Revision())
			if f := redis.floor(t, owner.key); f != want {
				t.Errorf("floor %d, want %d", f, want)
			}
			w.mint(fmt.Sprint("after ", owner.name), false)
			if f := redis.floor(t, owner.key); f != want {
				t.Errorf("floor %d after a new record, want %d", f, want)
			}
			if r := redis.entry(t, "after "+owner.name).Record; r == nil || r.Revision < uint64(want) {
				t.Errorf("%+v", r)
			}
			// Redis loses everything. The floor comes back with the log, and with the
			// record from the store.
			redis.restore(map[string][]byte{})
			w.settles(t)
			w.r.Refill(scope, contract.HashToken([]byte("a")))
			synctest.Wait()
			if f := redis.floor(t, owner.key); f != want {
				t.Errorf("floor %d after a loss, want %d", f, want)
			}
		}
	})
}

// A publication that comes after that of a later commit does not lower the floor that the
// later one has raised.
func TestLatePublicationLowersNoFloor(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.mint("a", false)
		late, err := w.commit(w.touch(gateway.Applications, w.app))
		if err != nil {
			t.Fatal(err)
		}
		w.must(w.touch(gateway.Applications, w.app))
		want := int(w.store.Revision())
		if err := w.r.Publish(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		if f := redis.floor(t, contract.RedisCredentialKey(scope, w.app)); f != want {
			t.Errorf("floor %d, want %d", f, want)
		}
	})
}

// The record of a token that was created again survives the replay of its old tombstone,
// also after a restart.
func TestCreatedAgain(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		if err := w.delete(w.mint("a", false)); err != nil {
			t.Fatal(err)
		}
		if e := redis.entry(t, "a"); e.Revoked == 0 {
			t.Fatalf("%+v", e)
		}
		name := w.mint("a", true)
		check := func(when string) {
			t.Helper()
			if e := redis.entry(t, "a"); e.Record == nil {
				t.Errorf("%s: %+v", when, e)
			}
		}
		check("created")
		w.r.keeper.fail()
		w.settles(t)
		check("replayed")
		w.close(w.r)
		w.open(nil)
		w.settles(t)
		check("restarted")
		w.must(w.touch(gateway.Tokens, name))
		check("changed")
		if err := w.delete(name); err != nil {
			t.Fatal(err)
		}
		w.r.keeper.fail()
		w.settles(t)
		if e := redis.entry(t, "a"); e.Revoked == 0 {
			t.Errorf("deleted: %+v", e)
		}
	})
}

// A token that was revoked and created again while Redis was away is not left with the
// record of before: a filter that is out of reach believes what stands there, under the
// same epoch, as soon as the revocation is confirmed. A store that does not give the new
// record just then leaves a tombstone.
func TestCreatedAgainWhileRedisWasAway(t *testing.T) {
	for name, trouble := range map[string]func(context.Context) error{
		"with a store that answers": nil,
		"with a store that fails":   func(context.Context) error { return errors.New("disk I/O error") },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				m := newModelFilter("node", redis)
				m.trust, m.seen = w.trust(), time.Now()
				old := w.mint("a", false)
				read := func() *contract.Record { return m.fromRedis(contract.HashToken([]byte("a"))) }
				before := read()
				if before == nil {
					t.Fatal("no record at first")
				}
				redis.be(gone)
				_ = w.delete(old)
				w.mint("a", true)
				w.source.be(trouble)
				redis.be(fine)
				w.settles(t)
				if w.trust().Epoch != m.trust.Epoch {
					t.Fatal("another epoch was drawn, so this shows nothing")
				}
				after := read()
				if after != nil && after.Revision <= before.Revision {
					t.Errorf("the record of revision %d is believed, that of before is of %d", after.Revision, before.Revision)
				}
				if (after != nil) != (trouble == nil) {
					t.Errorf("found %+v", after)
				}
			})
		})
	}
}

// A floor that got no answer may arrive after one that was written since, also when
// the process that wrote it was killed. It makes no record count that is void, and
// costs nobody the records that are written afterwards.
func TestLateFloor(t *testing.T) {
	for name, goOn := range map[string]func(w *world){
		"of this process":           func(*world) {},
		"of one that was killed":    func(w *world) { w.crash(); w.open(nil) },
		"of one that was restarted": func(w *world) { w.close(w.r); w.open(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				w.mint("a", false)
				redis.be(frozen)
				w.must(w.touch(gateway.Applications, w.app)) // its floor is on its way
				goOn(w)
				redis.be(fine)
				w.settles(t)
				m := newModelFilter("node", redis) // out of reach, and believes what is there
				m.trust, m.seen = w.trust(), time.Now()
				accepts := func(token string) bool { return m.fromRedis(contract.HashToken([]byte(token))) != nil }
				w.mint("b", false)
				if !accepts("b") {
					t.Fatal("no record although nothing was revoked since")
				}
				w.must(w.touch(gateway.Applications, w.app))
				redis.thaw()
				if m.trust = w.trust(); accepts("a") || accepts("b") {
					t.Error("a late floor made a record count that is void")
				}
				w.mint("c", false)
				if !accepts("c") {
					t.Error("no record of what was issued since")
				}
			})
		})
	}
}

// The tokens that a filter holds are written to Redis batch by batch and not all at once,
// and only for nodes that may ask.
func TestInUse(t *testing.T) {
	virtually(t, func(o *Options) {
		o.ChecksTokens = func(n Node) bool { return n.ID == "gateway" }
	}, func(t *testing.T, w *world, redis *scripted) {
		var hashes []contract.Hash
		for i := range contract.MaxInUse {
			value := fmt.Sprint("t", i)
			w.mint(value, false)
			hashes = append(hashes, contract.HashToken([]byte(value)))
		}
		redis.restore(map[string][]byte{})
		w.settles(t)
		records := func() (n int) {
			for _, h := range hashes {
				if redis.get(contract.RedisRecordKey(scope, h)) != nil {
					n++
				}
			}
			return n
		}
		batch := (&contract.InUse{Number: 7, Tokens: hashes}).Encode()
		stranger, _ := w.pipe("stranger", contract.Hello{Instance: "s"})
		stranger.send(contract.FrameInUse, batch)
		stranger.expect(contract.FrameRefilled)
		if n := records(); n != 0 {
			t.Fatalf("%d records for a node that may not ask", n)
		}
		f, _ := w.pipe("gateway", contract.Hello{Instance: "i"})
		begun := time.Now()
		f.send(contract.FrameInUse, batch)
		if n, err := contract.DecodeNumber(f.expect(contract.FrameRefilled)); err != nil || n != 7 {
			t.Errorf("%d %v", n, err)
		}
		if n := records(); n != len(hashes) {
			t.Errorf("%d records of %d", n, len(hashes))
		}
		if d := time.Since(begun); d < (contract.MaxInUse/refillBatch-1)*inUsePause {
			t.Errorf("all at once, in %v", d)
		}
		// Only one batch at a time is allowed.
		redis.be(waiting)
		f.send(contract.FrameInUse, batch)
		synctest.Wait()
		f.send(contract.FrameInUse, batch)
		if kind, _, err := contract.ReadFrame(f.in); err == nil {
			t.Errorf("frame of type %d, want the end", kind)
		}
		redis.be(fine)
		redis.open()
	})
}

// ServeEnded accepts a report from a client with the node's token, within bounds.
func TestServeEnded(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		process := strings.Repeat("A", 26)
		w.pass("n", instance(process, "x"))
		w.pass("n", instance(strings.Repeat("B", 26), "x"))
		post := func(method, token, body string) int {
			req := httptest.NewRequest(method, contract.EndedPath, strings.NewReader(body))
			req.Header.Set(contract.NodeHeader, "n")
			req.Header.Set("Authorization", "Bearer "+token)
			rec := httptest.NewRecorder()
			w.r.ServeEnded(rec, req)
			return rec.Code
		}
		many := `{"processes":["` + strings.Repeat(process+`","`, contract.MaxEnded) + process + `"]}`
		good, gone := `{"processes":["`+process+`"],"successor":"`+strings.Repeat("C", 26)+`"}`, `{"processes":["`+process+`"],"gone":true}`
		for _, tt := range []struct {
			method, token, body string
			want                int
		}{
			{"POST", "", good, 401}, {"POST", "bad", good, 401}, {"GET", "good", good, 405}, {"POST", "good", "", 400},
			{"POST", "good", many, 400}, {"POST", "good", `{"processes":["x"]}`, 400}, {"POST", "good", good + good, 400},
			{"POST", "good", `{"processes":["` + process + `"],"successor":"` + process + `"}`, 400}, {"POST", "good", `{"successor":"x"}`, 400},
			{"POST", "good", `{"more":1}`, 400}, {"POST", "good", `{"processes":["` + strings.Repeat("x", maxEndedBody) + `"]}`, 400},
		} {
			if got := post(tt.method, tt.token, tt.body); got != tt.want {
				t.Errorf("%s %s %.40s: %d, want %d", tt.method, tt.token, tt.body, got, tt.want)
			}
		}
		// The filter of process B is of another run directory. The process that starts where A
		// was may believe what A believed, and it is not known yet.
		if got := post("POST", "good", good); got != http.StatusTooEarly {
			t.Errorf("without a successor: %d", got)
		}
		if n, known := w.rows(), w.r.Stats().KnownFilters; n != 2 || known != 2 {
			t.Errorf("%d rows, %d known", n, known)
		}
		for range 2 { // a repeated report is accepted as well
			if got := post("POST", "good", gone); got != http.StatusNoContent {
				t.Errorf("status %d", got)
			}
		}
		if n, known := w.rows(), w.r.Stats().KnownFilters; n != 1 || known != 1 {
			t.Errorf("%d rows, %d known", n, known)
		}
	})
}

// A record of the old state that was read before a revocation, and is written after it, does
// not replace the tombstone, nor lower the floor. The revocation does not wait for the read.
func TestRefillUndoesNoRevocation(t *testing.T) {
	for what, revoke := range map[string]func(w *world, token string) error{
		"a token": func(w *world, token string) error { return w.delete(token) },
		"an application": func(w *world, _ string) error {
			return w.write(w.touch(gateway.Applications, w.app))
		},
	} {
		t.Run(what, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				name := w.mint("a", false)
				read, release := make(chan struct{}), make(chan struct{})
				w.source.mu.Lock()
				w.source.hook = func() { close(read); <-release }
				w.source.mu.Unlock()
				w.r.Refill(scope, contract.HashToken([]byte("a")))
				<-read // the old state
				took, err := took(t, async(func() error { return revoke(w, name) }))
				if err != nil || took != 0 {
					t.Fatalf("after %v: %v", took, err)
				}
				revoked := w.store.Revision()
				gone := redis.entry(t, "a").Revoked != 0
				close(release)
				synctest.Wait()
				if gone && (redis.entry(t, "a").Revoked != revoked || redis.entry(t, "a").Record != nil) {
					t.Errorf("the tombstone of %d is %+v", revoked, redis.entry(t, "a"))
				}
				if f := redis.floor(t, contract.RedisCredentialKey(scope, w.app)); !gone && f != int(revoked) {
					t.Errorf("the floor of %d is %d", revoked, f)
				}
				time.Sleep(2 * inUseRetry) // what could not be written then is written
				if rec := redis.entry(t, "a").Record; !gone && (rec == nil || rec.Revision < revoked) {
					t.Errorf("the record is %+v", rec)
				}
				if c := redis.clockNow(t); c.Revision != revoked || c.Position != w.r.history.at {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// Of what was read under another epoch nothing is written.
func TestRefillOfAnotherEpochIsRepeated(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, redis *scripted, slow *slowStore) {
		w.mint("a", false)
		const took = 1500 * time.Millisecond
		slow.take(took)
		w.r.Refill(scope, contract.HashToken([]byte("a")))
		time.Sleep(took + took/6) // the record is made, and its floors are being read
		slow.take(0)
		before := w.trust().Epoch
		redis.restore(map[string][]byte{})
		w.settles(t)
		if w.trust().Epoch == before {
			t.Fatal("no new epoch")
		}
		redis.mu.Lock()
		from := len(redis.order)
		redis.mu.Unlock()
		time.Sleep(2 * took)
		redis.mu.Lock()
		writes := slices.Clone(redis.order[from:])
		redis.mu.Unlock()
		n := 0
		for _, key := range writes {
			if key == contract.RedisRecordKey(scope, contract.HashToken([]byte("a"))) {
				n++
			}
		}
		if rec := redis.entry(t, "a").Record; n != 1 || rec == nil || rec.Epoch != w.trust().Epoch {
			t.Errorf("written %d times, at last %+v", n, rec)
		}
	})
}
