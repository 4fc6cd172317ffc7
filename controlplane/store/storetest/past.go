package storetest

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
)

// OpenTimed opens an empty store with a retention and two clocks: one for time stamps, and
// one that decides what has ended. The store is closed at the end of the test.
type OpenTimed func(t *testing.T, keep store.Retention, now, past func() time.Time) store.Store

// RunPast tests a store with a clock that jumps ahead. Writes get its time stamps, and
// nothing ends by it.
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
