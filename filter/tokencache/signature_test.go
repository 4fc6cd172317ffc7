package tokencache

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

var otherKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))

// put writes what an attacker with a writing user could.
func (s *fakeStore) put(t *testing.T, token int, make func() ([]byte, error)) {
	t.Helper()
	b, err := make()
	if err != nil {
		t.Fatal(err)
	}
	s.set(contract.RedisRecordKey(testPlane, hashOf(token)), b)
}

// Whoever writes Redis cannot make a token good: what no known key has signed for
// this very token is absent, and the control plane is asked.
func TestForgedRecordsAreAbsent(t *testing.T) {
	good := func() *contract.Record { return storable(testRecord(1, 5)) }
	for name, forge := range map[string]func() ([]byte, error){
		"unsigned":         func() ([]byte, error) { return good().Marshal() },
		"of another key":   func() ([]byte, error) { return good().Sign(hashOf(1), otherKey) },
		"of another token": func() ([]byte, error) { return good().Sign(hashOf(2), testKey) },
		"changed after it": func() ([]byte, error) {
			b, err := good().Sign(hashOf(1), testKey)
			return append(b, ' '), err
		},
		"with a torn header": func() ([]byte, error) { b, err := good().Sign(hashOf(1), testKey); return b[1:], err },
	} {
		inWorld(t, worldConfig{}, func(w *world) {
			w.store.putClock(0)
			w.store.putFloors(testRecord(1, 5))
			w.store.put(t, 1, forge)
			w.control.introspect = func(*contract.Introspect) *contract.Result {
				return &contract.Result{Answer: contract.Unknown, Revision: 5}
			}
			l := w.live()
			w.want(name, w.resolve(1), contract.Unknown)
			if s := w.cache.Stats(); s.L2Hits != 0 || s.L2Foreign+s.L2Untrusted != 1 || w.control.asked.Load() != 1 {
				t.Errorf("%s: %+v, %d introspections", name, s, w.control.asked.Load())
			}
			w.control.down.Store(true)
			_ = l.conn.Close()
			w.advance(contract.Lease)
			w.want(name+", without a link", w.resolve(1), contract.Unavailable)
		})
	}
}

// An old record that was good once, put back after its revocation, is refused by
// every filter that has a link: the floor is newer than what was signed.
func TestReplayOfASignedRecord(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.store.putClock(0)
		w.store.putRecord(t, 1, testRecord(1, 5))
		l := w.live()
		w.want("before", w.resolve(1), contract.Found)
		l.invalidate(1, tokenGone(1, 6))
		l.expectAck(1)
		w.store.putRecord(t, 1, testRecord(1, 5)) // no tombstone, and a clock of the attacker's
		w.store.putClock(1 << 40)
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 6}
		}
		w.want("replayed", w.resolve(1), contract.Unknown)
	})
}

// A record of a key that the filter has not been told of yet costs an
// introspection and no refusal; told of it, the filter reads Redis again. The old
// key stays good beside it.
func TestRotationOfRecordKeysRefusesNobody(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.store.putClock(0)
		w.control.introspect = func(q *contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Found, Revision: 5, Record: testRecord(1, 5)}
		}
		l := w.live()
		for token := range 4 {
			w.store.putFloors(testRecord(token, 5))
		}
		w.store.put(t, 1, func() ([]byte, error) { return storable(testRecord(1, 5)).Sign(hashOf(1), otherKey) })
		w.want("unknown key", w.resolve(1), contract.Found)
		if asked := w.control.asked.Load(); asked != 1 {
			t.Fatalf("%d introspections", asked)
		}
		l.json(contract.FrameLevel2, contract.Level2{Keys: testKeys(otherKey)})
		synctest.Wait()
		for token, key := range map[int]ed25519.PrivateKey{2: otherKey, 3: testKey} {
			w.store.put(t, token, func() ([]byte, error) { return storable(testRecord(token, 5)).Sign(hashOf(token), key) })
			w.want("known key", w.resolve(token), contract.Found)
		}
		if s := w.cache.Stats(); s.L2Hits != 2 || w.control.asked.Load() != 1 {
			t.Errorf("%d hits of Redis, %d introspections", s.L2Hits, w.control.asked.Load())
		}
	})
}

// A filter whose settings name no Redis uses the one that the control plane names
// on the link, and remembers it for a start without a control plane. Another
// control plane's is not used.
func TestSecondLevelFromTheLink(t *testing.T) {
	dir := t.TempDir()
	cert, ca := testCertificate(t, dir)
	path := filepath.Join(dir, "settings.json")
	write := func(address string) {
		s := contract.Settings{Cache: contract.CacheSettings{MaxBytes: 4 << 20}, ControlPlane: &contract.ControlPlaneSettings{
			Address: address, CAFile: ca, TokenFile: filepath.Join(dir, "token"), Node: "cp/default/1"}}
		data, err := json.Marshal(s)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, token: filepath.Join(dir, "token"), store: &fakeStore{values: map[string][]byte{}}}
	w.control = &fakeControl{t: t, cert: cert, links: make(chan *fakeLink, 64), auto: true}
	w.writeToken("secret")
	w.store.putClock(0)
	w.store.putRecord(t, 1, testRecord(1, 5))
	urls := make(chan string, 16)
	open := func() *Cache {
		c, err := Open(Options{
			Path: path, Logger: slog.New(slog.DiscardHandler), DialLink: w.control.dial,
			openStore: func(s *contract.RedisSettings, _ []string) (store, error) { urls <- s.URL; return w.store, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	write("localhost:5678")
	c := open()
	l := w.control.accept()
	l.welcome()
	l.json(contract.FrameLevel2, contract.Level2{Redis: &contract.RedisSettings{URL: "redis://told"}, Keys: testKeys(testKey)})
	l.trust(1, testTrust) // acknowledged after the frame before it
	l.expectAck(1)
	if got := <-urls; got != "redis://told" {
		t.Errorf("uses %s", got)
	}
	w.control.down.Store(true)
	_ = l.conn.Close()
	unlinked(t, c)
	c.Close() // without a goodbye
	info, err := os.Stat(filepath.Join(dir, level2File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}

	w.cache = open()
	if got := <-urls; got != "redis://told" {
		t.Errorf("remembers %s", got)
	}
	answer := make(chan contract.Answer, 1)
	w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
	if a := <-answer; a != contract.Found {
		t.Errorf("without a control plane: answer %d", a)
	}
	w.cache.Close()

	write("localhost:5679")
	w.cache = open()
	if w.cache.config.Load().l2 != nil || len(w.cache.config.Load().settings.RecordKeys) != 0 {
		t.Error("another control plane's Redis is used")
	}
	w.cache.Close()
}

// BenchmarkFill is one look-up that Redis answers and that fills L1, signed and
// not.
func BenchmarkFill(b *testing.B) {
	for _, signed := range []bool{false, true} {
		b.Run(map[bool]string{false: "unsigned", true: "signed"}[signed], func(b *testing.B) {
			c := leasedCache(4 << 20)
			st := &fakeStore{values: map[string][]byte{}}
			st.putClock(0)
			c.lastLease.Store(new(c.clock.Now()))
			c.opts.RedisTimeout = time.Minute
			cfg := &config{settings: &contract.Settings{ControlPlane: &contract.ControlPlaneSettings{}}, l2: &level2{store: st, servers: testTrust.Servers, breaker: breaker{clock: c.clock}}}
			if signed {
				cfg.verifier = &verifier{keys: testKeys(testKey)}
			}
			r := storable(testRecord(1, 5))
			st.putFloors(r)
			data, err := r.Sign(hashOf(1), testKey)
			if err != nil {
				b.Fatal(err)
			}
			st.set(contract.RedisRecordKey(testPlane, hashOf(1)), data)
			hash := hashOf(1)
			b.ReportAllocs()
			place := -1
			for b.Loop() {
				if signed && place < 0 && cfg.verifier.seen != nil {
					place = slices.IndexFunc(cfg.verifier.seen, func(d [32]byte) bool { return d != [32]byte{} })
				}
				if place >= 0 {
					cfg.verifier.seen[place] = [32]byte{} // each fill is the first of its record
				}
				got, out := c.readL2(context.Background(), cfg, c.standing.Load(), hash, unhurried{c})
				if out != l2Found {
					b.Fatal(out)
				}
				if _, ok := c.accept(cfg, c.standing.Load(), &hash, got, got.Until); !ok {
					b.Fatal("not admitted")
				}
			}
		})
	}
}
