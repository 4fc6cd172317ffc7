package revoke

import (
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// creation is the content of a transaction that creates a token.
func (w *world) creation(name, value string) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: name, Spec: &gateway.Token{
			Credential: w.app, AccessToken: value, TokenType: "bearer", ExpiresIn: 7200}})
		return err
	}
}

// committed does the part of a write before its publication.
func (w *world) committed(fn func(store.Tx) error) store.Commit {
	w.t.Helper()
	c, err := w.commit(fn)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) published(commits ...store.Commit) {
	w.t.Helper()
	for _, c := range commits {
		if err := w.r.Publish(w.t.Context(), c); err != nil {
			w.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// The record of a token that was just created is made of its row: the store is not read for
// the token, and not for its owners, whose floors are in Redis all the same.
func TestRecordsOfNewTokensAreMadeOfTheirRows(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.source.owner = w.owner
		w.must(w.touch(gateway.Applications, w.app))
		w.mint("a", false)
		w.source.hook = func() { t.Error("the store was read for a token") }
		before := w.source.makes
		w.mint("b", false)
		if n := w.source.makes - before; n != 1 {
			t.Errorf("%d records were made of rows", n)
		}
		a, b := redis.entry(t, "a").Record, redis.entry(t, "b").Record
		if a == nil || b == nil || b.Revision != w.store.Revision() || b.Until < a.Until || b.Epoch != a.Epoch {
			t.Errorf("%+v after %+v", b, a)
		}
		if f := redis.floor(t, contract.RedisCredentialKey(scope, w.app)); uint64(f) != w.store.Revision() {
			t.Errorf("floor %d at revision %d", f, w.store.Revision())
		}
		w.source.hook = nil
	})
}

// What was revoked after a token was created, and is published before the creation, stands:
// the record that the creation asks for is not written over it.
func TestRefillOverwritesNoTombstone(t *testing.T) {
	credential := func(w *world) string { return contract.RedisCredentialKey(scope, w.app) }
	for name, revoke := range map[string]func(*world, string) func(store.Tx) error{
		"the token is deleted":       func(w *world, token string) func(store.Tx) error { return w.remove(token) },
		"its application is changed": func(w *world, _ string) func(store.Tx) error { return w.touch(gateway.Applications, w.app) },
		"its application is deleted": func(w *world, _ string) func(store.Tx) error {
			return func(tx store.Tx) error { return tx.Delete(gateway.Applications, scope, w.app, 0) }
		},
		"another token is deleted":    func(w *world, _ string) func(store.Tx) error { return w.remove("other") },
		"another value takes its row": func(w *world, token string) func(store.Tx) error { return w.changed(token, "next") },
	} {
		for _, order := range []string{"before", "behind"} {
			t.Run(name+", published "+order+" the creation", func(t *testing.T) {
				virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
					w.must(w.creation("other", "other"))
					token := uuid.NewString()
					created := w.committed(w.creation(token, "a"))
					revoked := w.committed(revoke(w, token))
					if order == "before" {
						w.published(revoked, created)
					} else {
						w.published(created, revoked)
					}
					e := redis.entry(t, "a")
					switch name {
					case "the token is deleted", "another value takes its row":
						if e.Record != nil || e.Revoked != revoked.Revision {
							t.Errorf("%+v, revoked at %d", e, revoked.Revision)
						}
					case "its application is changed", "its application is deleted":
						if f := redis.floor(t, credential(w)); uint64(f) != revoked.Revision || (e.Record != nil && e.Record.Revision < revoked.Revision && name == "its application is deleted" && order == "before") {
							t.Errorf("floor %d, revoked at %d; %+v", f, revoked.Revision, e.Record)
						}
					default:
						if e.Record == nil {
							t.Errorf("%+v", e)
						}
					}
				})
			})
		}
	}
}

// changed gives a token another value.
func (w *world) changed(name, value string) func(store.Tx) error {
	return func(tx store.Tx) error {
		res, err := tx.Get(gateway.Tokens, scope, name)
		if err != nil {
			return err
		}
		spec := *res.Spec.(*gateway.Token)
		spec.AccessToken = value
		_, err = tx.Update(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: name, Spec: &spec}, 0)
		return err
	}
}

// A token that the commit which created it has changed or deleted again is none, or another
// one, whatever its row was at first.
func TestRowsThatTheirCommitChanges(t *testing.T) {
	for name, then := range map[string]func(*world) func(store.Tx) error{
		"deleted": func(w *world) func(store.Tx) error { return w.remove("t") },
		"changed": func(w *world) func(store.Tx) error { return w.changed("t", "next") },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				commit := w.committed(func(tx store.Tx) error {
					if err := w.creation("t", "a")(tx); err != nil {
						return err
					}
					return then(w)(tx)
				})
				// Its own tombstone may be written before its record, or after.
				_, _, made := w.r.published(commit)
				for _, m := range made {
					if m.row != nil {
						t.Errorf("a record would be made of %+v", m.row.Spec)
					}
				}
				w.published(commit)
				if e := redis.entry(t, "a"); e.Record != nil {
					t.Errorf("%+v", e)
				}
				if e := redis.entry(t, "next"); (e.Record != nil) != (name == "changed") {
					t.Errorf("the next value: %+v", e)
				}
			})
		})
	}
}

// lagging is a store that says its newest revision later than readers see it.
type lagging struct {
	store.Store
	lag uint64
}

// Revision implements [store.Store].
func (l *lagging) Revision() uint64 { return l.Store.Revision() - l.lag }

// A revocation that is committed, while the store does not say so yet, is published after
// the record of the token, and stands.
func TestRevisionThatIsNotToldYet(t *testing.T) {
	late := &lagging{}
	virtually(t, func(o *Options) { late.Store, o.Store = o.Store, late }, func(t *testing.T, w *world, redis *scripted) {
		w.mint("a", false)
		created := w.committed(w.creation("t", "b"))
		revoked := w.committed(w.remove("t"))
		late.lag = 1
		w.published(created)
		late.lag = 0
		w.published(revoked)
		if e := redis.entry(t, "b"); e.Record != nil || e.Revoked != revoked.Revision {
			t.Errorf("%+v, revoked at %d", e, revoked.Revision)
		}
	})
}
