package revoke

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// A token that was changed exists, and so does its record. After a connection to Redis
// broke without a loss, the log is replayed. If the store fails to return the record just
// then, the tombstone replaces it, and the record is written again when the store works.
func TestTombstoneOfAGoodTokenIsReplaced(t *testing.T) {
	for name, trouble := range map[string]func(context.Context) error{
		"a slow store":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"a store's error": func(context.Context) error { return errors.New("disk I/O error") },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				name := w.mint("a", false)
				w.must(w.touch(gateway.Tokens, name))
				synctest.Wait()
				if redis.entry(t, "a").Record == nil {
					t.Fatal("no record at first")
				}
				epoch := w.trust().Epoch
				w.source.be(trouble)
				redis.be(gone)
				time.Sleep(2 * watchEvery)
				redis.be(fine)
				w.settles(t)
				if redis.entry(t, "a").Record != nil {
					t.Error("the record was not replaced")
				}
				w.source.be(nil)
				time.Sleep(storeTimeout + 2*inUseRetry)
				if redis.entry(t, "a").Record == nil {
					t.Error("the tombstone of a good token stays")
				}
				if w.trust().Epoch != epoch {
					t.Error("another epoch was drawn")
				}
			})
		})
	}
}

// The same holds for the change itself.
func TestChangeOfATokenThatCannotBeReadIsMended(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		name := w.mint("a", false)
		w.source.be(func(context.Context) error { return errors.New("disk I/O error") })
		w.must(w.touch(gateway.Tokens, name))
		if redis.entry(t, "a").Record != nil {
			t.Error("the old record stands")
		}
		w.source.be(nil)
		time.Sleep(2 * inUseRetry)
		if redis.entry(t, "a").Record == nil {
			t.Error("the tombstone of a good token stays")
		}
	})
}
