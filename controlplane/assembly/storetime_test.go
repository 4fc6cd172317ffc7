package assembly

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/filter/contract"
)

// timed opens the store of a directory, with at as the wall clock of the process.
func timed(t *testing.T, dir string, at func() time.Time) *ControlPlane {
	t.Helper()
	cp, _ := stateOf(t, dir)
	cp.clocks = newClocks(cp.ready.conditions, steady.New(func() (time.Time, time.Duration) { return at(), 0 }))
	if err := cp.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cp
}

// revokes runs the owner of revocations on the store of a control plane, and closes it.
func revokes(t *testing.T, cp *ControlPlane) {
	t.Helper()
	r, err := revoke.New(t.Context(), revoke.Options{
		Store: cp.store, Source: cp.tokenSource(), Auth: linkAuthenticator{cp}, Allowed: func(revoke.Node, string) bool { return false },
		Log: cp.Log, Now: cp.clocks.wall.Now, Clock: cp.clocks.wall,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a predecessor knew of the time must be known as soon as the store is open, because the
// store drops rows a moment later.
func TestTimeIsKnownBeforeRowsEnd(t *testing.T) {
	dir, base := t.TempDir(), time.Now().Truncate(time.Millisecond)
	cp := timed(t, dir, func() time.Time { return base })
	revokes(t, cp)
	cp.closers.run(t.Context())
	for _, ahead := range []time.Duration{8 * time.Minute, 16 * time.Minute} {
		cp = timed(t, dir, func() time.Time { return base.Add(ahead) })
		want := time.Duration(0)
		if ahead > steady.Apart {
			want = ahead // the process may really have been away for so long
		}
		if got := cp.clocks.wall.Earliest().Sub(base); got != want {
			t.Errorf("%v ahead: the earliest time is %v ahead, want %v", ahead, got, want)
		}
		cp.closers.run(t.Context())
	}
}

// keyUntil stores a key "k" that ends at a time, and its consumer.
func keyUntil(t *testing.T, cp *ControlPlane, end time.Time) {
	t.Helper()
	const scope = model.DefaultControlPlane
	if _, err := cp.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range []*model.Resource{
			{Kind: gateway.Consumers, Scope: scope, Name: "c", Spec: &gateway.Consumer{Username: "c"}},
			{Kind: gateway.Keys, Scope: scope, Name: "k", Spec: &gateway.Key{Consumer: "c", Key: "k", DropAt: end.UnixMilli()}},
		} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A token ends for those who ask for it when its row ends, and not before.
func TestTokensEndWhenTheirRowsDo(t *testing.T) {
	at := time.Now().Add(-3 * time.Hour)
	cp := timed(t, t.TempDir(), func() time.Time { return at })
	defer cp.closers.run(context.WithoutCancel(t.Context()))
	keyUntil(t, cp, at.Add(time.Hour))
	at = at.Add(3 * time.Hour) // the clock is set, and nobody knows which time is right
	rec, answer, _, err := cp.tokenSource().Record(t.Context(), model.DefaultControlPlane, contract.HashKey([]byte("k")))
	if rec == nil || answer != contract.Found || err != nil {
		t.Errorf("%v, %v, %v", rec, answer, err)
	}
}

// A process that starts with an empty store, where another process may have run before,
// assumes that unknown gateways exist until Redis was put in order. This holds in memory and
// with a new database, wherever its key is. A successor on the same store knows no more.
func TestForgottenStores(t *testing.T) {
	dir := t.TempDir()
	lose := func(*ControlPlane) {
		for _, end := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(filepath.Join(dir, "meshgate.db"+end))
		}
	}
	another := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, seal.RootSize))
	for _, tt := range []struct {
		name   string
		change func(cp *ControlPlane)
		used   bool // by a process that put Redis in order
		want   int
	}{
		{"new", func(*ControlPlane) {}, false, 1},
		{"there", func(*ControlPlane) {}, true, 1},
		{"in order", func(*ControlPlane) {}, false, 0},
		{"lost", lose, false, 1},
		{"lost, whose key is a setting", func(cp *ControlPlane) {
			lose(cp)
			_ = os.Remove(cp.cfg.Store.Encryption.KeyFile)
			cp.cfg.Store.Encryption.Key = another
		}, false, 1},
		{"there, whose key is a setting", func(cp *ControlPlane) { cp.cfg.Store.Encryption.Key = another }, true, 1},
		{"in memory", func(cp *ControlPlane) { cp.cfg.Store.Type = "memory" }, true, 1},
		{"in memory again", func(cp *ControlPlane) { cp.cfg.Store.Type = "memory" }, false, 1},
	} {
		cp, _ := stateOf(t, dir)
		tt.change(cp)
		if err := cp.openStore(t.Context()); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if pending := unconfirmed(t, cp); pending != tt.want {
			t.Errorf("%s: %d revocations are unconfirmed, want %d", tt.name, pending, tt.want)
		}
		if tt.used {
			ordered(t, cp)
		}
		cp.closers.run(t.Context())
	}
}

// unconfirmed returns how many revocations wait for confirmation when a process on a store
// cannot reach its Redis.
func unconfirmed(t *testing.T, cp *ControlPlane) int {
	t.Helper()
	client, err := revoke.Open(contract.RedisSettings{URL: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() // it was never connected
	r, err := revoke.New(t.Context(), revoke.Options{
		Store: cp.store, Source: cp.tokenSource(), Auth: linkAuthenticator{cp}, Allowed: func(revoke.Node, string) bool { return false },
		Redis: client, Log: cp.Log, Now: cp.clocks.wall.Now, Clock: cp.clocks.wall,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := r.Stats().Pending
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return n
}

// ordered stores what a process leaves behind that has put Redis in order.
func ordered(t *testing.T, cp *ControlPlane) {
	t.Helper()
	if _, err := cp.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: epochKind(), Name: "redis", Spec: &revoke.Epoch{Epoch: 7, Log: "former", Told: true, Clean: true}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
