package revoke

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// spoil makes rows undecodable, while no process uses the store.
func (j *jumping) spoil(set, where string, args ...any) {
	j.t.Helper()
	db, err := sql.Open("sqlite", j.file)
	if err != nil {
		j.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	done, err := db.ExecContext(j.t.Context(), "UPDATE resources SET "+set+" WHERE "+where, args...)
	if err != nil {
		j.t.Fatal(err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		j.t.Fatalf("%d rows, %v", n, err)
	}
}

// unread counts the rows of a kind that cannot be decoded.
func (j *jumping) unread(k *model.Kind) (n int) {
	j.t.Helper()
	if err := j.store.View(j.t.Context(), func(r store.Reader) error {
		rows, err := store.ListAll(r, k, store.Query{})
		for _, row := range rows {
			if store.IsUnread(row) {
				n++
			}
		}
		return err
	}); err != nil {
		j.t.Fatal(err)
	}
	return n
}

// TestUndecodableRowsStopNothing: a control plane starts on a store with a row of this package
// that cannot be decoded. Nothing that was revoked is accepted, revocations succeed, and what
// is written again can be read.
func TestUndecodableRowsStopNothing(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				name := j.mint("a", false)
				j.use("a")
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				f.keep()
				if err := j.revoke(j.remove(name), "a"); err != nil {
					t.Fatal(err)
				}
				j.close(j.r)
				j.spoil("spec = ?", "kind = ?", []byte(`{"seen":"late","until":[]`), k.Name)
				j.open(nil)
				j.rest()
				again, _ := j.pipe("node", contract.Hello{Instance: "i"})
				again.keep()
				j.rest()
				if err := j.revoke(j.touchApp()); err != nil {
					t.Error(err)
				}
				// Redis loses everything: what was revoked comes from the store.
				j.redis.restore(map[string][]byte{})
				j.rest()
				if e := j.redis.entry(t, "a"); e.Revoked == 0 {
					t.Errorf("the revoked token is %+v", e)
				}
				j.restart(0)
				if j.wrong != nil {
					t.Error(j.wrong)
				}
				if n := j.unread(k); n > 0 && k != tombstones && k != readers {
					t.Errorf("%d rows still cannot be read", n)
				}
			})
		})
	}
}

// TestUndecodableTombstoneIsReplaced: what cannot be decoded is revoked, at the revision of its
// row, and revoking it once more writes the row anew.
func TestUndecodableTombstoneIsReplaced(t *testing.T) {
	jumps(t, false, func(j *jumping) {
		j.must(j.touchApp())
		was := j.store.Revision()
		j.close(j.r)
		j.spoil("spec = x'00'", "kind = ?", tombstones.Name)
		j.open(nil)
		j.rest()
		if f := j.redis.floor(t, contract.RedisCredentialKey(scope, j.app)); f != int(was) {
			t.Errorf("the floor is %d, not %d", f, was)
		}
		j.must(j.touchApp())
		if n := j.unread(tombstones); n != 0 {
			t.Errorf("%d rows", n)
		}
		j.must(j.touch(gateway.Consumers, j.owner))
	})
}

// TestUnnamedTombstoneVoidsRedis: if not even the name says what was revoked, no record of
// before counts.
func TestUnnamedTombstoneVoidsRedis(t *testing.T) {
	jumps(t, false, func(j *jumping) {
		j.must(j.touchApp())
		j.mint("a", false)
		before := j.r.trust.Epoch
		j.close(j.r)
		j.spoil("spec = x'00', name = 'nothing'", "kind = ?", tombstones.Name)
		j.open(nil)
		j.rest()
		if now := j.r.trust.Epoch; now == before || now == 0 {
			t.Errorf("epoch %d, and %d before", now, before)
		}
	})
}

// TestNamesOfTombstones: the name of a row says what its tombstone is about.
func TestNamesOfTombstones(t *testing.T) {
	hash := strings.Repeat("ab", len(contract.Hash{}))
	for _, want := range []*Tombstone{
		{Subject: contract.SubjectToken, Scope: "s", Token: hash},
		{Subject: contract.SubjectCredential, Scope: "s", ID: "i:d"},
		{Subject: contract.SubjectConsumer, Scope: "s", ID: "id"},
		{Subject: subjectScope, ID: "group"},
	} {
		got, ok := tombstoneOf(want.name())
		if !ok || got.name() != want.name() || got.Subject != want.Subject {
			t.Errorf("%q: %+v", want.name(), got)
		}
	}
	for _, name := range []string{"", "token:" + hash, "token:s:abc", "consumer::id", "consumer:s:", "scope:", "else:s:id"} {
		if got, ok := tombstoneOf(name); ok {
			t.Errorf("%q: %+v", name, got)
		}
	}
}
