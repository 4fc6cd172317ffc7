package presence

import (
	"errors"
	"sync"
	"time"
)

// between is the least time between two writes of one node. Agents keep more than that: each write is
// a change for every caller, and a stolen token keeps to nothing.
const between = 900 * time.Millisecond

var errTooOften = errors.New("the last report was stored less than a second ago")

// pace knows which nodes have written last. It forgets them, so it never holds more than there were
// writes of a moment.
type pace struct {
	mu sync.Mutex
	// recent are the writes since turned, and earlier those of the time before it.
	recent, earlier map[string]time.Time
	turned          time.Time
}

// may reports whether a node may write, and counts that as a write.
func (p *pace) may(node string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.recent == nil || now.Sub(p.turned) >= between {
		p.recent, p.earlier, p.turned = map[string]time.Time{}, p.recent, now
	}
	for _, last := range []map[string]time.Time{p.recent, p.earlier} {
		if at, wrote := last[node]; wrote && now.Sub(at) < between {
			return false
		}
	}
	p.recent[node] = now
	return true
}
