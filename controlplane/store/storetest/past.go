package storetest

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
)

// OpenTimed opens an empty store with a retention and two clocks, which is closed at the
// end of the test: one that stamps, and one that says what is over.
type OpenTimed func(t *testing.T, keep store.Retention, now, past func() time.Time) store.Store

// RunPast holds a store against a clock that jumps ahead: what is written is stamped with
// it, and nothing ends by it.
func RunPast(t *testing.T, open OpenTimed) {
	past := time.Unix(1_700_000_000, 0)
	ahead := 48 * time.Hour
	s := open(t, store.Retention{Age: time.Hour}, func() time.Time { return past.Add(ahead) }, func() time.Time { return past })
	write(t, s, Box, "s", "a", "ann")
	write(t, s, Box, "s", "b", "ann")
	ends := past.Add(time.Hour)
	create(t, s, res(Person, "p", Item{Ends: ends.UnixMilli()}))
	if got := get(t, s, Person, "p"); got == nil || !got.Modified.Equal(past.Add(ahead)) {
		t.Errorf("%+v", got)
	}
	if page, _ := records(t, s, store.RecordQuery{}); len(page) != 2 {
		t.Errorf("records %v", page)
	}
	past, ahead = ends, 0
	if err := s.View(t.Context(), func(r store.Reader) error {
		_, err := r.Get(Person, "s", "p")
		wantCode(t, err, fault.NotFound)
		return nil
	}); err != nil {
		t.Error(err)
	}
}
