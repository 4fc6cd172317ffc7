package host

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host/hosttest"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// linking is a token cache that counts how often it is told to connect soon.
type linking struct {
	*hosttest.Tokens
	hastened int
}

func (l *linking) Hasten()                 { l.hastened++ }
func (l *linking) Stats() tokencache.Stats { return tokencache.Stats{Hits: 3} }

// TestOpenCachesAreTold: every open token cache is told to connect and asked for what it
// has counted. One that is not open yet is left alone, and while configurations change
// nobody waits.
func TestOpenCachesAreTold(t *testing.T) {
	l := &linking{Tokens: hosttest.NewTokens("good")}
	opened := 0
	h := New(NewLogger(&hosttest.Log{}), func(*Host, *contract.Settings, string) (Tokens, error) {
		if opened++; opened > 1 {
			return nil, errNoSettings
		}
		return l, nil
	})
	hits := func() (n uint64) {
		if !h.EachStats(func(s *tokencache.Stats) { n += s.Hits }) {
			t.Error("no figures")
		}
		return n
	}
	first, _, err := h.AcquireSource(nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.Hasten(); l.hastened != 0 || hits() != 0 {
		t.Errorf("a cache that is not open was told")
	}
	if _, _, err := h.AcquireProgram([]byte(hosttest.Chain)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.AcquireSource([]byte(`{"settings":{"redis":{"url":"redis://a"},"cache":{}}}`)); err != nil || opened != 2 {
		t.Fatal(err, opened)
	}
	if h.Hasten(); l.hastened != 1 || hits() != 3 {
		t.Errorf("told %d times, %d hits", l.hastened, hits())
	}
	h.mu.Lock()
	h.Hasten()
	if l.hastened != 1 || h.EachStats(func(*tokencache.Stats) {}) {
		t.Error("a worker waited")
	}
	h.mu.Unlock()
	h.ReleaseSource(first)
	<-l.Closed
	h.Wait()
}
