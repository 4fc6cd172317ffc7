package revoke

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// A key that was made by a clock that was ahead ends no rotation: the next key follows it,
// signs a day later, and no process signs with an older key again.
func TestRecordKeyOfAClockThatWasAhead(t *testing.T) {
	right := time.UnixMilli(1_700_000_000_000)
	for name, before := range map[string]bool{"the first key": false, "a later key": true} {
		t.Run(name, func(t *testing.T) {
			s, now := memstore.New(), right
			t.Cleanup(func() { _ = s.Close() })
			renewed := func() *signer {
				k := &signer{store: s, now: func() time.Time { return now }}
				if _, err := k.renew(t.Context()); err != nil {
					t.Fatal(err)
				}
				return k
			}
			if before {
				renewed()
			}
			now = right.Add(365 * 24 * time.Hour)
			renewed()
			now = right
			k := renewed()
			made := len(k.public())
			if before && made != 3 || !before && made != 2 {
				t.Fatalf("%d keys when the clock is right", made)
			}
			if again := renewed(); len(again.public()) != made {
				t.Errorf("one more key for the same clock: %d", len(again.public()))
			}
			now = now.Add(recordKeyLead)
			if i := signsWith(k); i != made-1 {
				t.Errorf("key %d of %d signs a day later", i+1, made)
			}
			now = now.Add(recordKeyLife)
			if k := renewed(); len(k.public()) != made+1 {
				t.Errorf("%d keys a month later, want %d", len(k.public()), made+1)
			}
		})
	}
}

// signsWith returns which key signs now.
func signsWith(k *signer) int {
	keys := k.keys.Load()
	signing := keys.signing(k.now())
	for i := range keys.Keys {
		if signing == &keys.Keys[i] {
			return i
		}
	}
	return -1
}
