package tokencache

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestTableKnowsBetterWhy: an authority that has forgotten a token says unknown. A record
// that is still here knows more: it has expired, or its owner was revoked.
func TestTableKnowsBetterWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*table, *fakeClock, *contract.Record)
		want    contract.Answer
	}{
		"owner revoked": {func(tb *table, _ *fakeClock, r *contract.Record) {
			tb.invalidate(&contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: r.Consumer.ID, Revision: 9})
		}, contract.Revoked},
		"expired": {func(_ *table, clock *fakeClock, _ *contract.Record) { clock.add(time.Hour) }, contract.Expired},
		"neither": {func(*table, *fakeClock, *contract.Record) {}, contract.Unknown},
	} {
		clock := &fakeClock{}
		tb := newTable(1<<20, clock)
		r := testRecord(1, 1)
		r.Expires = clock.Now().millis() + time.Hour.Milliseconds()
		mustAdmit(t, tb, 1, r)
		tc.prepare(tb, clock, r)
		h := hashOf(1)
		if got := tb.remember(0, &h, contract.Unknown, 10, clock.Now().Mono+time.Second); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
		if got := peek(tb, 1); got != tc.want {
			t.Errorf("%s: remembered as %d, want %d", name, got, tc.want)
		}
	}
}
