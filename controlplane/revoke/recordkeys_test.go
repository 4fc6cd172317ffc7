package revoke

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

const accepting = contract.AcceptHeader + ": " + contract.AcceptLevel2 + "\r\n"

func (f *fake) ask(plugin string) {
	f.t.Helper()
	f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 1, Token: contract.HashToken([]byte("a")), Plugin: plugin}).Encode())
}

func (f *fake) level2() contract.Level2 {
	f.t.Helper()
	var m contract.Level2
	if err := contract.DecodeJSON(f.expect(contract.FrameLevel2), &m); err != nil {
		f.t.Fatal(err)
	}
	return m
}

// The keys that the control plane tells to filters verify what it writes to Redis, for the
// token in question and for no other.
func TestRecordsInRedisAreSigned(t *testing.T) {
	t.Parallel()
	c := client(t, miniredis.RunT(t).Addr())
	w := newWorld(t, c)
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	w.mint("a", false)
	hash := contract.HashToken([]byte("a"))
	w.r.Refill(scope, hash)
	until(t, "record written", func() bool { return entryOf(t, c, "a").Record != nil })
	data, err := c.Get(context.Background(), contract.RedisRecordKey(scope, hash)).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	f, _ := w.connectAccepting(contract.Hello{Instance: "i"}, accepting)
	f.ask("plugin")
	f.expect(contract.FrameResult)
	m := f.level2()
	if err := contract.Verify(m.Keys, scope, hash, data); err != nil || len(m.Keys) != 1 {
		t.Errorf("%d keys, %v", len(m.Keys), err)
	}
	if contract.Verify(m.Keys, scope, contract.HashToken([]byte("b")), data) == nil {
		t.Error("good for another token, too")
	}
}

// Only a node that checks tokens is told about Redis: because of its configuration, or
// after its first allowed question. Filters that do not know the message do not get it.
func TestOnlyNodesThatCheckTokensHearOfRedis(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		w.mint("a", false)
		f, _ := w.connectAccepting(contract.Hello{Instance: "without a chain"}, accepting)
		for range 3 {
			f.ask("other")
			f.expect(contract.FrameResult) // and nothing else
		}
		f.ask("plugin")
		f.expect(contract.FrameResult)
		if m := f.level2(); m.Redis == nil || m.Redis.URL != "redis://reader@here" || len(m.Keys) == 0 {
			t.Errorf("told %+v", m)
		}
		f.ask("plugin")
		f.expect(contract.FrameResult)
		f.lease() // it was told only once

		old, _ := w.connect("of an older release")
		old.ask("plugin")
		old.expect(contract.FrameResult)
		old.lease()

		w.checks = func(n Node) bool { return n.ID == "node" }
		w.open(nil)
		g, _ := w.connectAccepting(contract.Hello{Instance: "with a chain"}, accepting)
		if m := g.level2(); m.Redis == nil {
			t.Errorf("told %+v", m)
		}
	})
}

// A new key is told to filters before it signs. The old keys stay known, and a restart
// changes nothing.
func TestRecordKeysRotate(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	open := func() *signer {
		k := &signer{store: s, now: func() time.Time { return now }}
		if _, err := k.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := open()
	hash, rec := contract.HashToken([]byte("a")), &contract.Record{Version: 1, Plane: scope, Credential: contract.Credential{ID: "c"}}
	sign := func() []byte {
		data, err := k.sign(rec, hash)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := k.public()
	if contract.Verify(first, scope, hash, sign()) != nil {
		t.Fatal("the first key does not sign")
	}
	if diff := cmp.Diff(first, open().public()); diff != "" {
		t.Errorf("a restart changes the keys: %s", diff)
	}
	for round := range 2 * maxRecordKeys {
		now = now.Add(recordKeyLife)
		before := k.public()
		changed, err := k.renew(t.Context())
		if err != nil || !changed {
			t.Fatalf("round %d: %v %v", round, changed, err)
		}
		if contract.Verify(before, scope, hash, sign()) != nil {
			t.Fatalf("round %d: a key signs that filters may not know", round)
		}
		now = now.Add(recordKeyLead)
		old := sign()
		if contract.Verify(before, scope, hash, old) == nil || contract.Verify(k.public(), scope, hash, old) != nil {
			t.Fatalf("round %d: the new key does not sign when its time has come", round)
		}
		if n := len(k.public()); n > maxRecordKeys {
			t.Fatalf("%d keys", n)
		}
		if again, err := k.renew(t.Context()); err != nil || again {
			t.Fatalf("round %d: renewed twice (%v)", round, err)
		}
	}
}

// Filters are told of a new key at once.
func TestNewRecordKeyIsTold(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		f, _ := w.connectAccepting(contract.Hello{Instance: "i"}, accepting)
		f.ask("plugin")
		f.expect(contract.FrameResult)
		before := f.level2()
		at := time.Now().Add(recordKeyLife)
		w.r.signer.now = func() time.Time { return at }
		w.r.renewKeysOnce()
		if m := f.level2(); len(m.Keys) != len(before.Keys)+1 || m.Keys[0].ID != before.Keys[0].ID {
			t.Errorf("told %+v after %+v", m, before)
		}
	})
}
