package embedded

import (
	"fmt"
	"testing"
	"time"
)

// However many keys end at once, they are removed in portions. Readers and writers run in
// between.
func TestManyEndTogether(t *testing.T) {
	const many = 20 * sweepAtOnce
	now := time.UnixMilli(1_000_000)
	s := unstarted(Options{Now: func() time.Time { return now }})
	for i := range many {
		key := fmt.Sprint(i)
		s.Track(key, now.UnixMilli()+int64(i%7), i%2 == 0)
		s.set(key, []byte("x"))
	}
	s.Track("later", now.Add(time.Minute).UnixMilli(), false)
	s.set("later", []byte("x"))
	now = now.Add(slack + 7*time.Millisecond)
	portions := 0
	for {
		before := s.Len()
		next, done := s.sweepSome()
		if gone := before - s.Len(); gone > sweepAtOnce {
			t.Fatalf("%d keys were removed in one critical section", gone)
		}
		if portions++; done {
			if next <= 0 || next > time.Minute {
				t.Errorf("looks again in %v", next)
			}
			break
		}
	}
	if _, ok := s.get([]byte("later")); !ok || s.Len() != 1 || len(s.values) != 1 || portions < 20 {
		t.Errorf("%d tracked, %d values left after %d portions", s.Len(), len(s.values), portions)
	}
}

// Keys that were not tracked cannot fill the server.
func TestUntrackedKeysAreBounded(t *testing.T) {
	s := unstarted(Options{MaxKeys: 4})
	for i := range 1000 {
		s.set(fmt.Sprint(i), nil)
	}
	if len(s.values) != 4+untracked {
		t.Errorf("%d values", len(s.values))
	}
}

// BenchmarkExpiry measures the life of one record (tracked, written, removed) beside
// 100,000 others.
func BenchmarkExpiry(b *testing.B) {
	now := time.UnixMilli(1_000_000)
	s := unstarted(Options{Now: func() time.Time { return now }})
	value := make([]byte, 400)
	put := func(i int) {
		key := fmt.Sprintf("meshgate:token:%064d", i)
		s.Track(key, now.UnixMilli()+3_600_000, false)
		s.set(key, value)
	}
	const others = 100_000
	for i := range others {
		now = now.Add(36 * time.Millisecond)
		put(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(36 * time.Millisecond)
		put(others + i)
		s.sweep()
	}
}
